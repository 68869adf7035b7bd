"""The other writers of the Nodes: their kubelets and a second writer. Each turn also compares all Nodes.

One thread makes all requests. It repeats a request that a stopped API server did not answer. A kubelet is simulated by
its writes only: it copies capacity to allocatable, and it sets all extended resources to 0 when it restarts.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.cluster.api import Api, ApiError
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import node_user, token_of
from tests.cluster.scale.member import Member
from tests.cluster.scale.steps import RestartKubelet, WriteOther

_PERIOD = 1.0  # seconds between two reads of all Nodes
# 403: an API server that has just started denies requests until its plugins and its authorizer know the cluster.
_TRANSIENT = (403, 409, 429, 500, 503, 504)


@dataclass(slots=True)
class _Starting:
    """A kubelet that has not reported its Node yet. zeroes: whether it will still set extended resources to 0."""

    zeroes: bool
    late: int


class Others:
    """The other writers; they run as long as the context."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._members: dict[str, Member] = {}
        self._kubelets: dict[str, Api] = {}
        self._starting: dict[str, _Starting] = {}
        self._writes: deque[tuple[Member, WriteOther]] = deque()
        self._reads = 0
        self._error: BaseException | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Others:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def add(self, member: Member) -> None:
        """To be called before the service starts: without a kubelet for a minute, it reports that and waits longer."""
        user = token_of(node_user(member.name))
        self._kubelets[member.name] = Api(self._cluster.url, self._cluster.ca_file, user)
        self._members[member.name] = member

    def check(self) -> None:
        """Raises the exception that ended the thread, if there is one."""
        if self._error is not None:
            raise self._error

    def submit(self, member: Member, step: RestartKubelet | WriteOther) -> None:
        """Queues a step. The thread carries out the steps of each Node soon, and in order."""
        if isinstance(step, RestartKubelet):
            # A write by the previous kubelet may have been carried out, although it was not answered.
            before = self._starting.get(member.name)
            self._starting[member.name] = _Starting(step.zeroes or bool(before and before.zeroes), step.late)
        else:
            self._writes.append((member, step))

    def idle(self) -> bool:
        """Whether all submitted steps have been carried out."""
        return not self._writes and not self._starting

    def reads(self) -> int:
        """How often all Nodes have been read and compared so far."""
        return self._reads

    def _run(self) -> None:
        try:
            while not self._end.wait(_PERIOD):
                try:
                    self._turn()
                except (OSError, http.client.HTTPException):
                    continue  # the API server is stopped
                except ApiError as error:
                    if error.status not in _TRANSIENT:
                        raise
        except BaseException as error:  # noqa: BLE001  # check() raises it in the main thread
            self._error = error

    def _turn(self) -> None:
        while self._writes:
            self._write(*self._writes[0])
            self._writes.popleft()
        for name, starting in list(self._starting.items()):
            if self._report(name, starting) and self._starting.get(name) is starting:
                del self._starting[name]
        at = time.monotonic()
        for node in self._cluster.admin.get("/api/v1/nodes")["items"]:
            if member := self._members.get(node["metadata"]["name"]):
                member.compare(node, at)
                if member.name not in self._starting:
                    self._follow(member.name, node["status"])
        self._reads += 1

    def _write(self, member: Member, step: WriteOther) -> None:
        value = None if step.value is None else str(step.value)
        self._cluster.set_capacity(member.name, {step.name: value})
        with member.lock:
            member.truth.others[step.name] = value
            member.note(f"the second writer has written {step.name}: {value}")

    def _report(self, name: str, starting: _Starting) -> bool:
        """A starting kubelet reads and zeroes its Node, and reports it in the next turn. Returns whether it did."""
        if starting.late:
            starting.late -= 1
            return False
        if not starting.zeroes:
            self._patch(name, {"conditions": [_ready()]})
            return True
        read = self._kubelets[name].get(f"/api/v1/nodes/{name}")
        zeros = {key: "0" for key in read["status"]["capacity"] if "/" in key}
        self._patch(name, {"capacity": zeros, "allocatable": zeros})
        member = self._members[name]
        with member.lock:
            member.truth.others |= zeros
            member.note(f"the kubelet has zeroed {', '.join(zeros)}")
        starting.zeroes = False
        return False

    def _follow(self, name: str, status: Mapping[str, Any]) -> None:
        """The kubelet copies capacity to allocatable."""
        capacity, allocatable = status["capacity"], status.get("allocatable", {})
        if changed := {k: capacity.get(k) for k in {*capacity, *allocatable} if capacity.get(k) != allocatable.get(k)}:
            self._patch(name, {"allocatable": changed, "conditions": [_ready()]})

    def _patch(self, name: str, status: object) -> None:
        self._kubelets[name].patch(f"/api/v1/nodes/{name}/status", {"status": status}, "strategic")


def _ready() -> dict[str, str]:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": now}
