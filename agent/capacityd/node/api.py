"""The Node on the API server: which one is ours, and the requests that read and write it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from capacityd.capacity import Event, NodeState
from capacityd.errors import NodeDenied, NodeError, NodeUnreachable
from capacityd.node.credentials import load
from capacityd.node.state import node_state
from capacityd.printable import printable

if TYPE_CHECKING:
    from capacityd.node.client import Client
    from capacityd.node.kubeconfig import Access

T = TypeVar("T")

_NODE_USER = "system:node:"
_NODE_OF_TOKEN = "authentication.kubernetes.io/node-name"  # noqa: S105  # a key, not a secret
_MOST_TOLD = 1024  # characters of an Event's message


@dataclass(frozen=True, slots=True)
class _Identity:
    """user: as whom we ask, "" if the server did not tell. node: what we work on. own: it can be no other machine's."""

    user: str
    node: str
    own: bool


class ApiNode:
    """This machine's Node on the API server that a kubeconfig leads to."""

    def __init__(
        self,
        kubeconfig: str | None,
        node_name: str | None,
        hostname: str,
        machine_id: str | None,
        reviews: MutableMapping[str, Sequence[str]],
    ) -> None:
        self._kubeconfig = kubeconfig
        self._configured = node_name
        self._hostname = hostname
        self._machine_id = machine_id
        self._reviews = reviews
        self._client: Client | None = None
        self._identity: _Identity | None = None
        self._checked = False

    @property
    def name(self) -> str:
        """The Node's name; at first use the API server is asked who we are. Raises NodeError."""
        return self._who().node

    def read(self) -> NodeState:
        """GET of the Node. Raises NodeError, NodeDenied also for a Node that is another machine's."""
        name = self.name
        state = self._state(self._do(lambda client: client.read_node(name)))
        self._check(state)
        return state

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        """One PATCH of the Node's status. Raises NodeError, NodeConflict if a guard in it does not hold."""
        name = self.name
        if not self._checked:
            self.read()
        return self._state(self._do(lambda client: client.patch_node_status(name, patch)))

    def report(self, event: Event, state: NodeState) -> None:
        """Creates an Event about the Node. Raises NodeError."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{state.name}.", "namespace": "default"},
            "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": state.name, "uid": state.uid},
            "type": event.type,
            "reason": event.reason,
            "message": event.message[:_MOST_TOLD],
            "action": event.action,
            "source": {"component": "capacityd", "host": state.name},
            "reportingComponent": "capacityd",
            "reportingInstance": state.name,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._do(lambda client: client.create_event(state.name, body))

    def _who(self) -> _Identity:
        if self._identity is None:
            self._identity = self._decide(*self._do(self._review))
            if self._client is not None:
                self._client.identity = self._identity.user
        return self._identity

    def _review(self, client: Client) -> tuple[str, str]:
        """The user and the Node of its token that a SelfSubjectReview tells, "" where it doesn't."""
        whose = _fingerprint(client.access)
        if whose in self._reviews:
            user, node = self._reviews[whose]
            return user, node
        user, node = _reviewed(client.review_self())
        if user:
            self._reviews[whose] = user, node
        return user, node

    def _decide(self, user: str, node: str) -> _Identity:
        told = user.removeprefix(_NODE_USER) if user.startswith(_NODE_USER) else node
        if told and self._configured and told != self._configured:
            raise NodeDenied(
                f'node_name is "{printable(self._configured)}", but the credentials are those of Node "{told}": leave '
                "node_name out, or use a kubeconfig of that Node"
            )
        # The kubelet makes its name from the host's in the same way.
        name = told or self._configured or self._hostname.strip().lower()
        return _Identity(user, name, own=bool(told) and user == _NODE_USER + told)

    def _check(self, state: NodeState) -> None:
        """Any other identity may well be able to write to other Nodes: then this machine's id decides."""
        identity = self._who()
        if (
            not identity.own
            and self._machine_id is not None
            and (not self._machine_id or state.machine_id != self._machine_id)
        ):
            ours = printable(self._machine_id) or "none (/etc/machine-id is empty)"
            raise NodeDenied(
                f'Node "{state.name}" is another machine\'s: its machineID is {state.machine_id or "not set"}, this '
                f"machine's is {ours}. Set node_name to the name under which this machine's kubelet registered"
            )
        self._checked = True

    def _do(self, action: Callable[[Client], T]) -> T:
        """Does it; when we are not let in, once more if the credentials have changed since they were read."""
        client = self._client or self._connect(load(self._kubeconfig))
        try:
            return action(client)
        except NodeDenied:
            access = load(self._kubeconfig)
            if access == client.access:
                raise
            return action(self._connect(access))

    def _connect(self, access: Access) -> Client:
        from capacityd.node.client import Client

        self._client = Client(access)
        self._client.identity = self._identity.user if self._identity else ""
        return self._client

    def _state(self, document: object) -> NodeState:
        try:
            return node_state(document)
        except NodeError as e:
            raise NodeUnreachable(f"the API server's answer can't be used: {e}") from e


def _fingerprint(access: Access) -> str:
    """Tells credentials from others, and does not tell them."""
    secret = "\0".join((access.kubeconfig, access.server, access.token or "", access.certificate or ""))
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def _reviewed(review: object) -> tuple[str, str]:
    """The user and the Node of its token that a SelfSubjectReview tells, "" where it doesn't."""
    status = review.get("status") if isinstance(review, dict) else None
    user = status.get("userInfo") if isinstance(status, dict) else None
    if not isinstance(user, dict):
        return "", ""
    name, extra = user.get("username"), user.get("extra")
    nodes = extra.get(_NODE_OF_TOKEN) if isinstance(extra, dict) else None
    node = nodes[0] if isinstance(nodes, list) and nodes and isinstance(nodes[0], str) else ""
    return printable(name) if isinstance(name, str) else "", printable(node)
