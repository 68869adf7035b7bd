"""Determines this machine's Node, and reads and writes it on the API server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from capacityd.linux.trust import own_trust
from capacityd.model.errors import NodeForbidden, NodeMissing, NodeUnauthorized, NodeUnreachable
from capacityd.model.node import Event, NodeState, Patch
from capacityd.model.watch_target import WatchTarget
from capacityd.node import CredentialsCache, Identity, Machine
from capacityd.node.client import Client
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.credential_files import CredentialFiles
from capacityd.node.identity import basis_of, identify, require_own_machine
from capacityd.node.kubeconfig import PLUGIN_TIMEOUT, Kubeconfig
from capacityd.node.kubelet_kubeconfig import find_kubelet_kubeconfig
from capacityd.node.proxy import proxy_headers

_MAX_EVENT_MESSAGE = 1024
"""The limit of events.k8s.io in characters. Events of v1 have no limit, but clients may read them through this API."""


class ApiNode:
    """This machine's Node on a kubeconfig's API server."""

    def __init__(
        self,
        kubeconfig: str | None,
        node_name: str | None,
        machine: Machine,
        cache: CredentialsCache,
    ) -> None:
        """kubeconfig, node_name: None for the default. cache: also receives what the requests find out."""
        self._kubeconfig = kubeconfig
        self._configured_name = node_name
        self._machine = machine
        self._cache = cache
        self._client: Client | None = None
        self._identity: Identity | None = None

    def identify(self) -> str | None:
        """Returns the Node's name; None if only the host name suggests a name. Raises NodeError.

        The first call may ask the API server for the user of the credentials.
        """
        _, identity = self._open()
        return identity.node if identity.is_certain else None

    def read(self) -> NodeState:
        """Reads the Node. Raises NodeError, in particular NodeUnauthorized if the Node is another machine's."""
        client, identity = self._open()
        with self._forgetting_identity():
            state = client.read_node(identity.node)
            require_own_machine(identity, state, self._machine)
        return state

    def write(self, patch: Patch) -> NodeState:
        """Patches the Node. Raises NodeError, in particular NodeConflict if the Node has changed since it was read."""
        client, identity = self._open()
        with self._forgetting_identity():
            return client.patch_node_status(identity.node, patch)

    def report(self, event: Event, state: NodeState) -> None:
        """Creates an Event about the Node. Raises NodeError."""
        client, _ = self._open()
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
        client.create_event(state.name, body)

    @contextmanager
    def _forgetting_identity(self) -> Iterator[None]:
        """Forgets the identity if the API server denies the request, or if the Node is missing or another machine's.

        The next pass asks for the user again, because the credentials may belong to another user by now.
        """
        try:
            yield
        except (NodeUnauthorized, NodeMissing):
            self._cache.identity = None
            raise

    def _open(self) -> tuple[Client, Identity]:
        """Returns the client and the identity. Only the first call reads the credentials."""
        if self._client is None:
            self._client = self._open_client()
        if self._identity is None:
            self._identity = self._identify(self._client)
            self._cache.target = _watch_target(self._client.access, self._identity.node)
        return self._client, self._identity

    def _open_client(self) -> Client:
        """Reads the credentials. Adds their files to the cache, even if the credentials can't be used."""
        files = CredentialFiles(self._kubeconfig or find_kubelet_kubeconfig(), own_trust())
        try:
            return Client(Kubeconfig(files).access(PLUGIN_TIMEOUT))
        finally:
            self._cache.files = files.paths()

    def _identify(self, client: Client) -> Identity:
        """Determines the identity. Returns the last pass's identity if its basis has not changed.

        If the API server does not allow a SelfSubjectReview, the configuration must name the Node.
        """
        access, configured, hostname = client.access, self._configured_name, self._machine.hostname
        last = self._cache.identity
        if last and last.basis == basis_of(access, configured, hostname):
            return last
        self._cache.identity = None
        if access.impersonated:
            # No review is needed: the API server checks at each request whether we may act as this user.
            return identify(access, access.impersonated, "", configured, hostname)
        try:
            user, bound_node = client.review_self()
        except NodeForbidden as e:
            if configured:
                return identify(access, "", "", configured, hostname)
            # Just after its start, the API server does not know the default rights yet.
            raise NodeUnreachable(
                "the API server does not allow a SelfSubjectReview (HTTP 403), as for a moment after its start; if "
                "this lasts, set node_name"
            ) from e
        self._cache.identity = identify(access, user, bound_node, configured, hostname)
        return self._cache.identity


def _watch_target(access: ClusterAccess, node: str) -> WatchTarget:
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
