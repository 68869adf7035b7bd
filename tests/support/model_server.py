"""A model of an API server: a Node, admission of writes to its status, faults on cue, and the Node's other writers.

It replaces the HTTP client. It answers with the status and the text of a real API server, which the real code
interprets.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from capacityd.model.errors import NodeConflict, NodeUnreachable
from capacityd.model.label import is_label, label_of, resource_of
from capacityd.model.node import ANNOTATION, CONDITION, NodeState, annotation_content
from capacityd.node.client import Client
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.documents.json_patch import patched
from capacityd.node.documents.node import node_state
from capacityd.node.errors import from_http_status
from capacityd.node.refusal import Call, HttpError
from tests.support.denials import GUARD, Alters, Denies, alter, capacity_of, http_error, stored_of
from tests.support.nodes import node

A, B, C = OURS = ("example.com/a", "example.com/b", "example.com/c")
THEIRS = "vendor.example/gpu"
NAMES = (*OURS, THEIRS)
"""Names that a configuration may contain. At first, the last name belongs to another writer."""
LABELS = tuple(map(label_of, NAMES))
"""The names of these resources' labels."""

ACCESS = ClusterAccess("kubeconfig", "https://server")

FAULTS = {"busy": 429, "denied": 401, "rejected": 400}
"""What the API server responds to every request. Another fault: "unreachable"."""
RETRY_AFTER = 20.0  # seconds, for the fault "busy"


class ModelServer:
    """The API server and its Node. It calls point() before and after each request.

    capacity: the Node's capacity beside cpu whenever the Node is registered. None: no Node is registered yet.
    """

    def __init__(self, capacity: Mapping[str, str] | None = None) -> None:
        self.first_capacity = {"cpu": "8"} | dict(capacity or {})
        self.document: dict[str, Any] | None = None
        self.denies: tuple[Denies, ...] = ()
        self.alters: tuple[Alters, ...] = ()
        self.fault = ""
        """A key of FAULTS, or "unreachable". Empty: the server answers every request."""
        self.lose = 0
        """The number of responses to writes that get lost."""
        self.lose_gets = 0
        """The number of responses to GETs that get lost."""
        self.drop = 0
        """The number of writes that never arrive."""
        self.between: list[Callable[[], None]] = []
        """Actions of other writers just before a PATCH, after the pass has read the Node or taken it from the watch.

        Each PATCH takes one.
        """
        self.loses_events = False
        """Whether creating some Events fails."""
        self.written_by_others: set[str] = set()
        """The keys of capacity, and the labels, whose value is another writer's."""
        self.ever_published: set[str] = set()
        """The names that capacityd has ever published on this Node."""
        self.annotated_by_others = False
        """Whether another writer has written capacityd's annotation since the Node was registered."""
        self.answers_other = False
        """Whether another agent sends the requests."""
        self.gets = self.patches = 0
        self.listeners: list[Callable[[], None]] = []
        """Each is called after each change of the Node."""
        self.point: Callable[[str], None] = lambda _: None
        self.check: Callable[[dict[str, Any], dict[str, Any], Sequence[Mapping[str, object]]], None] = lambda *_: None
        """Called before admission with the Node before and after the worker's write, and with the patch."""
        self._versions = self._uids = 0
        self._backup: tuple[dict[str, Any] | None, int, tuple[set[str], bool]] | None = None
        if capacity is not None:
            self.register()

    # The Node as other clients see it

    @property
    def capacity(self) -> dict[str, str]:
        return capacity_of(self.document) if self.document else {}

    @property
    def stored(self) -> dict[str, str]:
        """The capacity, and the labels by their names in a plan."""
        return stored_of(self.document) if self.document else {}

    @property
    def allocatable(self) -> dict[str, str]:
        allocatable: dict[str, str] = self.document["status"]["allocatable"] if self.document else {}
        return allocatable

    @property
    def annotation(self) -> str | None:
        text: str | None = (self.document or {"metadata": {}})["metadata"].get("annotations", {}).get(ANNOTATION)
        return text

    @property
    def condition(self) -> dict[str, str]:
        return next(iter(self.conditions), {})

    @property
    def conditions(self) -> list[dict[str, str]]:
        return our_conditions(self.document) if self.document else []

    def record(self) -> dict[str, int]:
        """The part of capacityd's annotation whose names may be extended resources or their labels."""
        return record_of(self.annotation)

    # Writes of other clients

    def write(self, name: str, value: str | None) -> None:
        """Another writer sets or removes a key of capacity, or a label."""
        if self.document is None or self.stored.get(name) == value:
            return
        self.written_by_others.add(name)
        key = resource_of(name)
        written = self.document["metadata"].setdefault("labels", {}) if is_label(name) else self.capacity
        written.pop(key, None)
        if value is not None:
            written[key] = value
        self._changed()

    def write_allocatable(self, name: str, value: str | None) -> None:
        """Another writer sets or removes a key of allocatable."""
        if self.document is None or self.allocatable.get(name) == value:
            return
        self.allocatable.pop(name, None)
        if value is not None:
            self.allocatable[name] = value
        self._changed()

    def zero(self) -> None:
        """A kubelet sets every extended resource to 0, and copies capacity to allocatable."""
        if self.document is None:
            return
        for name in [name for name in self.capacity if "/" in name]:
            self.capacity[name] = "0"
        self.document["status"]["allocatable"] = self.capacity.copy()
        self._changed()

    def annotate(self, text: str | None) -> None:
        """Another writer sets or removes capacityd's annotation."""
        if self.document is None or self.annotation == text:
            return
        self.annotated_by_others = True
        annotations = self.document["metadata"]["annotations"]
        annotations.pop(ANNOTATION, None)
        if text is not None:
            annotations[ANNOTATION] = text
        self._changed()

    def disturb_conditions(self, how: str) -> None:
        """Another writer adds a condition in front, or adds, changes or removes capacityd's condition."""
        if self.document is None:
            return
        conditions = self.document["status"]["conditions"]
        if how == "add" and not self.conditions:
            conditions.append({"type": CONDITION, "status": "True", "reason": "Published", "message": "not ours"})
        if how == "front":
            conditions.insert(0, {"type": f"Other{len(conditions)}", "status": "True"})
        for place, condition in enumerate(conditions):
            if condition["type"] == CONDITION and how in ("change", "remove"):
                conditions[place : place + 1] = [condition | {"message": "not ours"}] if how == "change" else []
        self._changed()

    def delete(self) -> None:
        self.document = None
        self._notify()

    def back_up(self) -> None:
        """Keeps the Node as it is, for restore()."""
        others = self.written_by_others.copy(), self.annotated_by_others
        self._backup = copy.deepcopy(self.document), self._versions, others

    def restore(self) -> None:
        """The cluster is restored from its backup: the Node and its version are those of an earlier time."""
        if self._backup:
            document, self._versions, (self.written_by_others, self.annotated_by_others) = copy.deepcopy(self._backup)
            self.document = document
            self._notify()

    def register(self) -> None:
        """A kubelet creates the Node."""
        self._uids += 1
        self.document = node(self.first_capacity)
        self.document["metadata"]["uid"] = f"uid-{self._uids}"
        self.written_by_others, self.annotated_by_others, self.ever_published = set(), False, set()
        self._changed()

    def register_anew(self) -> None:
        """The Node is deleted and created again."""
        self.delete()
        self.register()

    def make_allocatable(self, unhealthy: frozenset[str] = frozenset()) -> None:
        """A kubelet copies capacity to allocatable, but sets unhealthy resources to 0."""
        if self.document is not None:
            allocatable = self.capacity | dict.fromkeys(unhealthy & self.capacity.keys(), "0")
            if allocatable != self.allocatable:
                self.document["status"]["allocatable"] = allocatable
                self._changed()

    def store(self, document: dict[str, Any]) -> None:
        """Stores this Node, as capacityd writes it, if it differs from the present one."""
        self.ever_published |= record_of(document["metadata"].get("annotations", {}).get(ANNOTATION)).keys()
        if document != self.document:
            self.document = document
            self._changed()

    # The requests of the client

    def get(self) -> Any:
        self.gets += 1
        if self.lose_gets:
            self.lose_gets -= 1
            raise NodeUnreachable("the response was lost")
        return self._response()

    def patch(self, operations: Sequence[Mapping[str, object]]) -> Any:
        self.patches += 1
        if self.between:
            self.between.pop(0)()
        if self.drop:
            self.drop -= 1
            raise NodeUnreachable("the request was lost")
        before = self._response()
        try:
            after = patched(before, operations)
        except NodeConflict as e:
            raise http_error(422, GUARD) from e
        self.check(before, after, operations)
        publishes = record_of(after["metadata"].get("annotations", {}).get(ANNOTATION)).keys()
        changed = {n for n, _ in stored_of(before).items() ^ stored_of(after).items()}
        for alters in self.alters:
            alter(after, before, alters)
        for denies in self.denies:
            if denies.applies(stored_of(before).get(denies.name), stored_of(after).get(denies.name)):
                raise denies.error()
        self.ever_published |= publishes  # whatever a webhook makes of the annotation
        self.store(after)
        if self.answers_other:
            self.annotated_by_others = True
            self.written_by_others |= changed
        else:
            self.written_by_others -= changed
        altered = {alters.key for alters in self.alters}
        self.written_by_others |= changed & altered
        self.annotated_by_others |= "annotation" in altered
        response = self._response()
        if self.lose:
            self.lose -= 1
            raise NodeUnreachable("the response was lost")
        return response

    def _response(self) -> Any:
        if self.fault == "unreachable":
            raise NodeUnreachable("nobody responds")
        if self.fault:
            raise http_error(FAULTS[self.fault], self.fault, retry_after=RETRY_AFTER)
        if self.document is None:
            raise http_error(404, 'nodes "n1" not found')
        return copy.deepcopy(self.document)

    def _changed(self) -> None:
        if self.document is not None:
            self._versions += 1
            self.document["metadata"]["resourceVersion"] = str(self._versions)
            self._notify()

    def _notify(self) -> None:
        for listener in self.listeners:
            listener()


class ModelClient:
    """Replaces node.client.Client."""

    def __init__(self, server: ModelServer) -> None:
        self.access = ACCESS
        self.user = ""
        self._server = server

    def review_self(self) -> tuple[str, str]:
        return "system:node:n1", ""

    def read_node(self, name: str) -> NodeState:
        return node_state(self._answer("get", "nodes", self._server.get))

    def patch_node_status(self, name: str, patch: Sequence[Mapping[str, object]]) -> NodeState:
        return node_state(self._answer("patch", "nodes/status", lambda: self._server.patch(patch)))

    def create_event(self, node: str, event: Mapping[str, object]) -> None:
        if self._server.loses_events and len(str(event["message"])) % 7 == 0:
            raise NodeUnreachable("no Events today")
        self._answer("create", "events", dict)

    def _answer(self, verb: str, resource: str, action: Callable[[], object]) -> object:
        self._server.point(f"before {verb} {resource}")
        try:
            answer = action()
        except HttpError as e:
            raise from_http_status(e, Call(ACCESS, verb, resource, "n1", self.user)) from e
        self._server.point(f"after {verb} {resource}")
        return answer


assert all(hasattr(Client, name) for name in ("review_self", "read_node", "patch_node_status", "create_event"))


def our_conditions(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """All conditions of capacityd's type."""
    return [condition for condition in document["status"]["conditions"] if condition["type"] == CONDITION]


def record_of(annotation: str | None) -> dict[str, int]:
    """The part of an annotation that concerns this model's names; other content is ignored."""
    content = annotation_content(annotation)
    return {n: q for n, q in content.items() if n in (*NAMES, *LABELS) and type(q) is int and 0 <= q < 2**63}
