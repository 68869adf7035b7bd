"""The API server of a history (tests/support/shortest.py): a real one, with a webhook and policies, behind a proxy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from tests.cluster.admission import create_denial, delete_denial
from tests.cluster.agent import ANNOTATION, condition_of
from tests.cluster.api import Api, ApiError
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import node_user, token_of
from tests.cluster.faults import status
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.proxy import Exchange, Proxy, fault_proxy
from tests.cluster.webhook import Webhook, webhook
from tests.support.denials import Alters, Denies
from tests.support.model.answers import failure
from tests.support.model.server import THEIRS

_CAPACITY = {"cpu": "8", THEIRS: "8"}


class RealServer:
    """Created by real_server()."""

    def __init__(self, cluster: Cluster, node: str, hook: Webhook, proxy: Proxy) -> None:
        self.between: list[Callable[[], None]] = []
        self.lose = 0
        self.url = proxy.url
        self._cluster, self._node, self._hook, self._proxy = cluster, node, hook, proxy
        self._denies: tuple[Denies, ...] = ()
        proxy.fault(self._patch, "PATCH", f"/api/v1/nodes/{node}/status", times=None)

    # Admission

    @property
    def denies(self) -> tuple[Denies, ...]:
        return self._denies

    @denies.setter
    def denies(self, denies: tuple[Denies, ...]) -> None:
        """A real webhook and real policies deny; the proxy simulates denials without a reason."""
        self._hook.denies = tuple(d for d in denies if d.kind == "webhook")
        before, after = ([d for d in every if d.kind == "policy"] for every in (self._denies, denies))
        self._denies = denies
        for policy in [d for d in before if d not in after]:
            delete_denial(self._cluster, self._policy_name(policy))
            wait_until(partial(self._allowed, policy), PATIENCE, "the API server has noticed that the policy is gone")
        for policy in [d for d in after if d not in before]:
            name, reason = self._policy_name(policy), policy.reason()
            create_denial(self._cluster, name, self._node, policy.name, policy.code, reason)
            wait_until(partial(self._denied, policy), PATIENCE, "the API server has noticed the policy")

    @property
    def alters(self) -> tuple[Alters, ...]:
        return self._hook.alters

    @alters.setter
    def alters(self, alters: tuple[Alters, ...]) -> None:
        self._hook.alters = alters

    # The Node as other clients see it

    @property
    def capacity(self) -> dict[str, str]:
        return self._cluster.capacity(self._node)

    @property
    def annotation(self) -> str | None:
        text: str | None = self._cluster.node(self._node)["metadata"].get("annotations", {}).get(ANNOTATION)
        return text

    @property
    def condition(self) -> dict[str, str]:
        return dict(condition_of(self._cluster.node(self._node)) or {})

    def write(self, name: str, value: str | None) -> None:
        """Another writer sets or removes a capacity key."""
        self._cluster.set_capacity(self._node, {name: value})

    def annotate(self, text: str | None) -> None:
        """Another writer sets or removes our annotation."""
        change = {"metadata": {"annotations": {ANNOTATION: text}}}
        self._cluster.admin.patch(f"/api/v1/nodes/{self._node}", change)

    def register_anew(self) -> None:
        """The Node is deleted and created again."""
        self._cluster.admin.delete(f"/api/v1/nodes/{self._node}")
        self._cluster.create_node(self._node, capacity=_CAPACITY, annotations={"theirs": "x"})

    def make_allocatable(self) -> None:
        """Copies capacity to allocatable, in place of the kubelet, which this Node does not have."""
        node = self._cluster.node(self._node)["status"]
        capacity, allocatable = node["capacity"], node.get("allocatable", {})
        if changes := {n: capacity.get(n) for n in {*capacity, *allocatable} if capacity.get(n) != allocatable.get(n)}:
            status = {"status": {"allocatable": changes}}
            self._cluster.admin.patch(f"/api/v1/nodes/{self._node}/status", status)

    def reset(self) -> None:
        """Restores the initial state."""
        self.denies = self.alters = ()
        self.between.clear()
        self.lose = 0
        self.register_anew()

    # How the proxy handles a PATCH of the Node's status

    async def _patch(self, exchange: Exchange) -> None:
        if self.between:
            await asyncio.to_thread(self.between.pop(0))
        changed = {op["path"] for op in json.loads(exchange.request.body) if op["op"] != "test"}
        for denies in self._denies:
            if denies.kind in ("opaque", "storage") and f"/status/capacity/{denies.name.replace('/', '~1')}" in changed:
                body = failure(*denies.status()).body
                await status(denies.code, body, {"Content-Type": "application/json"})(exchange)
                return
        head, body = await exchange.fetch()
        if self.lose and head.startswith(b"HTTP/1.1 2"):
            self.lose -= 1
            exchange.reset()
        else:
            await exchange.send(head + body)

    def _policy_name(self, denies: Denies) -> str:
        return f"{self._node}-{denies.name.partition('/')[2]}-{denies.code}"

    def _denied(self, denies: Denies) -> bool:
        """Whether the API server would deny the Node's own user a change of this key."""
        user = Api(self._cluster.url, self._cluster.ca_file, token_of(node_user(self._node)))
        change = {"status": {"capacity": {denies.name: "99"}}}
        try:
            user.patch(f"/api/v1/nodes/{self._node}/status?dryRun=All", change)
        except ApiError as e:
            return denies.reason() in str(e)
        return False

    def _allowed(self, denies: Denies) -> bool:
        return not self._denied(denies)


@contextmanager
def real_server(cluster: Cluster, node: str) -> Iterator[RealServer]:
    """The API server for a history, which happens on this Node."""
    with webhook(cluster, node) as hook, fault_proxy(cluster) as proxy:
        server = RealServer(cluster, node, hook, proxy)
        try:
            yield server
        finally:
            server.denies = ()
