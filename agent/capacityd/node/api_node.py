"""Reads and writes this machine's Node on the API server, and determines which Node the credentials belong to."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from capacityd.model.errors import NodeForbidden, NodeMissing, NodeUnauthorized, NodeUnreachable
from capacityd.model.messages import WatchTarget
from capacityd.model.node import Event, NodeState
from capacityd.node import CredentialsCache, Review
from capacityd.node.client import Client
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.identity import Identity, credentials_hash, identify, is_of_machine, require_own_machine
from capacityd.node.kubeconfig import load
from capacityd.node.proxy import proxy_headers

T = TypeVar("T")

_REVIEW_INTERVAL = 300.0
"""Minimum seconds between two SelfSubjectReviews after HTTP 403 or 404, which a changed identity may explain."""
_MAX_EVENT_MESSAGE = 1024
"""Characters: the API server's limit for an Event of events.k8s.io. The limit does not apply to an Event of v1, as
report() creates, but clients may also read that Event as one of events.k8s.io."""


class ApiNode:
    """This machine's Node on a kubeconfig's API server."""

    def __init__(  # noqa: PLR0913  # what identifies the Node and the machine
        self,
        kubeconfig: str | None,
        node_name: str | None,
        hostname: str,
        machine_id: str | None,
        cache: CredentialsCache,
        system_uuid: str = "",
    ) -> None:
        self._kubeconfig = kubeconfig
        self._configured_name = node_name
        self._hostname = hostname
        self._machine_id = machine_id
        self._system_uuid = system_uuid
        self._cache = cache
        self._client: Client | None = None
        self._identity: Identity | None = None
        self._is_checked = False  # whether the identity's Node has been found to be this machine's

    @property
    def name(self) -> str:
        """The Node's name. The first use asks the API server for the user name of our credentials. Raises NodeError."""
        return self._identify().node

    def read(self) -> NodeState:
        """Sends a GET of the Node. Raises NodeError, in particular NodeUnauthorized if it is another machine's Node."""
        state = self._read_own()
        # The kubelet reports the id only after it has created the Node. Until then, another identity would not help.
        is_reported = state.machine_id != ""
        is_ours = is_of_machine(state, machine_id=self._machine_id, system_uuid=self._system_uuid)
        if self._identify().is_cached and is_reported and not is_ours:
            # The kubeconfig may now contain credentials of another user. If that user may read every Node, this GET of
            # the former user's Node has not failed.
            self._forget_identity()
            state = self._read_own()
        self._require_own_machine(state)
        return state

    def check(self, state: NodeState) -> None:
        """Checks that this is this machine's Node. Raises NodeError, in particular NodeUnauthorized if it is not."""
        try:
            self._require_own_machine(state)
        except NodeUnauthorized:
            if not self._identify().is_cached:
                raise
            # read() checks again, with a new identity: the kubeconfig may now contain another user's credentials.
            self.read()

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        """Sends a PATCH of the Node's status. Raises NodeError, in particular NodeConflict if a test in the patch
        fails."""
        if not self._is_checked:
            self.read()  # checks that the Node is this machine's
        name = self.name  # after read(), which may change our identity
        try:
            return self._call(lambda client: client.patch_node_status(name, patch))
        except NodeForbidden:
            self._refresh_identity()  # for the next attempt
            raise

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

    def _read_own(self) -> NodeState:
        """Sends a GET of the Node. If the Node's name is a guess, errors do not say that the Node is missing or
        denied."""
        try:
            return self._read_named()
        except (NodeForbidden, NodeMissing) as e:
            if not self._identify().is_guess:
                raise
            # A guess, because the SelfSubjectReview was denied: the authorizer of a newly started API server does not
            # know the default rights yet.
            raise NodeUnreachable(
                "the API server does not allow a SelfSubjectReview (HTTP 403), as for a moment after its start. With "
                f"the host name as the Node's name: {e}. If this lasts, set node_name"
            ) from e

    def _read_named(self) -> NodeState:
        """Sends a GET of the Node. Repeats it after HTTP 403 or 404 if our identity differs from the cached one."""
        name = self.name
        try:
            return self._call(lambda client: client.read_node(name))
        except (NodeForbidden, NodeMissing):
            if not self._refresh_identity():
                raise
        name = self.name  # of the new identity
        return self._call(lambda client: client.read_node(name))

    def _refresh_identity(self) -> bool:
        """Asks the API server again who we are if our identity is a cached one. Call it after HTTP 403 or 404.

        Does not ask within _REVIEW_INTERVAL after a review that did not help. Returns whether our identity has changed.
        """
        last = self._identify()
        now = time.monotonic()
        if last.is_cached:
            if self._has_just_been_denied(now):
                return False
            self._forget_identity()
            current = self._identify()  # sends a review, and puts it into the cache
            if (current.user, current.node) != (last.user, last.node):
                return True
        if self._cache.review:  # the review is new, and did not help
            self._cache.review = self._cache.review._replace(denied_at=now)
        return False

    def _has_just_been_denied(self, now: float) -> bool:
        """Whether a request was denied after a new review, less than _REVIEW_INTERVAL ago. now: time.monotonic()."""
        review = self._cache.review
        if review is None or review.denied_at is None:
            return False
        # A time of an earlier boot may be later than now.
        return 0 <= now - review.denied_at < _REVIEW_INTERVAL

    def _forget_identity(self) -> None:
        self._cache.review = None
        self._identity = None
        self._is_checked = False  # the new identity may have another Node

    def _identify(self) -> Identity:
        """Returns our identity. The first call uses the cached review, or sends one."""
        if self._identity is None:
            review, is_cached = self._call(self._review)
            self._identity = identify(
                review, configured=self._configured_name, hostname=self._hostname, is_cached=is_cached
            )
        return self._identity

    def _review(self, client: Client) -> tuple[Review | None, bool]:
        """Returns a review, and whether it was cached. The review is None if the API server denies it."""
        credentials = credentials_hash(client.access)
        impersonated = client.access.impersonated
        if impersonated:
            # No review is needed: the API server checks with each request that we may act as this user.
            self._cache.review = Review(user=impersonated, node="", credentials=credentials, impersonated=True)
            return self._cache.review, False
        cached = self._cache.review
        if cached and cached.credentials == credentials:
            return cached, True
        try:
            user, node = client.review_self()
        except NodeForbidden:
            return None, False
        review = Review(user=user, node=node, credentials=credentials)
        if user:  # none before Kubernetes 1.28: not cached, so that a pass after the upgrade learns the user
            self._cache.review = review
        return review, False

    def _require_own_machine(self, state: NodeState) -> None:
        """Raises NodeOfOtherMachine if the Node is another machine's. The credentials of the Node's own kubelet prove
        the machine, so only other identities are checked: these may have access to other machines' Nodes."""
        if not self._identify().is_own_node:
            require_own_machine(state, machine_id=self._machine_id, system_uuid=self._system_uuid)
        self._is_checked = True

    def _call(self, action: Callable[[Client], T]) -> T:
        """Runs the action. Repeats it after NodeUnauthorized, also HTTP 403, if the credentials have changed since they
        were read."""
        access = self._client.access if self._client else load(self._kubeconfig)
        try:
            return self._call_with(access, action)
        except NodeUnauthorized:
            renewed = load(self._kubeconfig)
            if renewed == access:
                raise
        # Outside of the except block, so that a second error does not have the first one as its context.
        return self._call_with(renewed, action)

    def _call_with(self, access: ClusterAccess, action: Callable[[Client], T]) -> T:
        """Runs the action with these credentials. Adds their files to the cache, and to NodeUnauthorized."""
        self._cache.files = access.files
        try:
            if self._client is None or self._client.access != access:
                self._client = Client(access)
            if self._identity:
                self._client.user = self._identity.user  # for messages
                self._cache.target = _watch_target(access, self._identity.node)
            return action(self._client)
        except NodeUnauthorized as e:
            e.files = access.files
            raise


def _watch_target(access: ClusterAccess, node: str) -> WatchTarget:
    """What a watch of this Node needs."""
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
        proxy_headers=proxy_headers(access.proxy) or {},
    )
