"""Determines this machine's Node, and reads and writes it on the API server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from capacityd.linux.trust import trust_of_current_user
from capacityd.model.errors import NodeForbidden, NodeMissing, NodeUnauthorized, NodeUnreachable
from capacityd.model.node import Event, NodeState, Patch
from capacityd.node.credential_files import CredentialFiles
from capacityd.node.documents.node import named_node, reviewed_user
from capacityd.node.documents.patch import patch_document, require_preconditions
from capacityd.node.errors import Call
from capacityd.node.identity import CredentialsCache, Identity, Machine, User
from capacityd.node.kubeconfig import PLUGIN_TIMEOUT, Kubeconfig
from capacityd.node.kubelet_kubeconfig import find_kubelet_kubeconfig
from capacityd.node.own_node import identify, require_own_machine

if TYPE_CHECKING:
    from capacityd.node.client import Client

_MAX_EVENT_MESSAGE = 1024
"""The limit of events.k8s.io in characters. v1 has no limit, but clients may read its Events through events.k8s.io."""


class ApiNode:
    """This machine's Node on a kubeconfig's API server."""

    def __init__(
        self,
        kubeconfig: str | None,
        node_name: str | None,
        machine: Machine,
        cache: CredentialsCache | None = None,
    ) -> None:
        """Reads no file, and sends no request.

        kubeconfig: the path; None for the first of the kubelet's usual paths that exists. node_name: None to determine
        the name from the credentials or the host name. cache: what an earlier pass learned about the credentials; None
        if there was no earlier pass. It also receives what this pass learns.
        """
        self._kubeconfig = kubeconfig
        self._configured_name = node_name
        self._machine = machine
        self._cache = cache or CredentialsCache()
        self._client: Client | None = None

    def identify(self) -> str | None:
        """Returns the Node's name; None if only the host name suggests a name. Raises NodeError.

        The first call may ask the API server for the user of the credentials.
        """
        _, identity = self._open()
        return identity.node if identity.is_certain else None

    def read(self) -> NodeState:
        """Reads the Node. Raises NodeError, in particular NodeUnauthorized if the Node is another machine's."""
        client, identity = self._open()
        parse = partial(named_node, name=identity.node)
        with self._forget_denied_identity():
            state = client.request(Call("get", "nodes"), _path(identity), parse)
            require_own_machine(identity, state, self._machine)
        return state

    def write(self, patch: Patch) -> NodeState:
        """Patches the Node. Raises NodeError, in particular NodeConflict if the Node has changed since it was read."""
        require_preconditions(patch)
        client, identity = self._open()
        path = f"{_path(identity)}/status?fieldManager=capacityd"
        parse = partial(named_node, name=identity.node, uid=patch.uid)
        with self._forget_denied_identity():
            return client.request(Call("patch", "nodes/status"), path, parse, body=patch_document(patch))

    def report(self, event: Event, state: NodeState) -> None:
        """Creates an Event about the Node. Raises NodeError."""
        client, _ = self._open()
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            # Events about Nodes belong in the namespace `default`.
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
        client.request(Call("create", "events"), "/api/v1/namespaces/default/events", lambda _: None, body=body)

    @contextmanager
    def _forget_denied_identity(self) -> Iterator[None]:
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
        if self._cache.identity is None:
            user = self._user(self._client)
            self._cache.identity = identify(self._client.access, user, self._configured_name, self._machine.hostname)
        identity = self._cache.identity
        access = self._client.access
        access.node = identity.node
        self._cache.watch_target = access
        return self._client, identity

    def _open_client(self) -> Client:
        """Reads the credentials. Adds their files to the cache, even if the credentials can't be used."""
        files = CredentialFiles(self._kubeconfig or find_kubelet_kubeconfig(), trust_of_current_user())
        try:
            access = Kubeconfig(files).cluster_access(PLUGIN_TIMEOUT)
            # Without usable credentials, the slow import of the HTTP library is not needed.
            from capacityd.node.client import Client

            return Client(access)
        finally:
            self._cache.files = files.paths()

    def _user(self, client: Client) -> User:
        """The user of the credentials; User() if the API server denies the review, but node_name is configured."""
        if client.access.impersonated:
            # The API server checks at each request whether we may act as this user, so no review is needed.
            return User(client.access.impersonated)
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        try:
            return client.request(Call("create", "selfsubjectreviews"), path, reviewed_user, body=body)
        except NodeForbidden as e:
            if self._configured_name:
                return User()
            # Just after its start, the API server does not know the default rights yet.
            raise NodeUnreachable(
                "the API server does not allow a SelfSubjectReview (HTTP 403), as for a moment after its start; if "
                "this lasts, set node_name"
            ) from e


def _path(identity: Identity) -> str:
    """The Node's path in the API."""
    return f"/api/v1/nodes/{quote(identity.node, safe='')}"
