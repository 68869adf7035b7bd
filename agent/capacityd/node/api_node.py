"""Determines this machine's Node, and reads and writes it on the API server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from capacityd.model.errors import (
    NodeForbidden,
    NodeMissing,
    NodeOfOtherMachine,
    NodeUnauthorized,
    NodeUnreachable,
)
from capacityd.model.node import Event, NodeState, Patch
from capacityd.model.watch_target import WatchTarget
from capacityd.node import CredentialsCache, Machine, Review
from capacityd.node.client import Client
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.identity import Identity, credentials_hash, identify, require_own_machine
from capacityd.node.kubeconfig import load
from capacityd.node.proxy import proxy_headers

T = TypeVar("T")

_MAX_EVENT_MESSAGE = 1024
"""The API server's limit for an Event of events.k8s.io, in characters. report() creates an Event of v1, to which the
limit does not apply. But clients may also read that Event through events.k8s.io."""


class ApiNode:
    """This machine's Node on a kubeconfig's API server."""

    def __init__(
        self,
        kubeconfig: str | None,
        node_name: str | None,
        machine: Machine,
        cache: CredentialsCache,
    ) -> None:
        """The arguments are those of open_node()."""
        self._kubeconfig = kubeconfig
        self._configured_name = node_name
        self._machine = machine
        self._cache = cache
        self._client: Client | None = None
        self._identity: Identity | None = None

    def identify(self) -> str | None:
        """Returns the Node's name; None if only the host name suggests a name. Raises NodeError.

        The first call may ask the API server for the user of our credentials.
        """
        identity = self._identify()
        return identity.node if identity.is_certain else None

    def read(self) -> NodeState:
        """Sends a GET of the Node. Raises NodeError, in particular NodeUnauthorized if it is another machine's Node."""
        identity = self._identify()
        with self._forgetting_review():
            state = self._call(lambda client: client.read_node(identity.node))
            require_own_machine(identity, state, self._machine)
        return state

    def write(self, patch: Patch) -> NodeState:
        """Sends a PATCH of the Node's status. Raises NodeError, in particular NodeConflict if the Node has changed."""
        name = self._identify().node
        with self._forgetting_review():
            return self._call(lambda client: client.patch_node_status(name, patch))

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
            "message": event.message[:_MAX_EVENT_MESSAGE],
            "action": event.action,
            "source": {"component": "capacityd", "host": state.name},
            "reportingComponent": "capacityd",
            "reportingInstance": state.name,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._call(lambda client: client.create_event(state.name, body))

    @contextmanager
    def _forgetting_review(self) -> Iterator[None]:
        """Forgets the review if the API server denies the request, or if the Node is another machine's.

        The credentials may belong to another user by now, so the next pass asks for the user again.
        """
        try:
            yield
        except (NodeForbidden, NodeMissing, NodeOfOtherMachine):
            self._cache.review = None
            raise

    def _identify(self) -> Identity:
        """Returns our identity. The first call uses the last pass's review, or requests a new one."""
        if self._identity is None:
            review = self._call(self._review)
            self._cache.review = review
            self._identity = identify(review, self._configured_name, self._machine.hostname)
            client = self._client or self._open_client()
            self._cache.target = _watch_target(client.access, self._identity.node)
        return self._identity

    def _review(self, client: Client) -> Review | None:
        """Returns our user. If the API server does not allow the review, returns None if the configuration names the
        Node, and otherwise raises NodeUnreachable."""
        credentials = credentials_hash(client.access)
        impersonated = client.access.impersonated
        if impersonated:
            # No review is needed, because the API server checks each request's right to act as this user.
            return Review(user=impersonated, node="", credentials=credentials, impersonated=True)
        last = self._cache.review
        if last and last.credentials == credentials:
            return last
        try:
            user, node = client.review_self()
        except NodeForbidden as e:
            if self._configured_name:
                return None
            # Just after its start, the API server does not know the default rights yet.
            raise NodeUnreachable(
                "the API server does not allow a SelfSubjectReview (HTTP 403), as for a moment after its start; if "
                "this lasts, set node_name"
            ) from e
        return Review(user=user, node=node, credentials=credentials)

    def _call(self, action: Callable[[Client], T]) -> T:
        """Runs the action with the credentials of this pass. NodeUnauthorized gets the files of the credentials."""
        client = self._client or self._open_client()
        if self._identity:
            client.user = self._identity.user  # for messages
        try:
            return action(client)
        except NodeUnauthorized as e:
            e.files = client.access.files
            raise

    def _open_client(self) -> Client:
        """Reads the credentials, and adds their files to the cache. Called once in a pass."""
        access = load(self._kubeconfig)
        self._cache.files = access.files
        try:
            self._client = Client(access)
        except NodeUnauthorized as e:  # a certificate or key is unusable
            e.files = access.files
            raise
        return self._client


def _watch_target(access: ClusterAccess, node: str) -> WatchTarget:
    """Returns what a watch of this Node needs."""
    return WatchTarget(
        access.api_server,
        server=access.server,
        node=node,
        headers=access.headers,
        authority=access.authority,
        verify=access.verify,
        server_name=access.server_name,
        certificate=access.certificate,
        key=access.key,
        proxy=access.proxy,
        proxy_headers=proxy_headers(access.proxy),
    )
