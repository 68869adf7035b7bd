"""A model of an API server with one Node. The Node's other writers, policies, webhooks and faults act on demand.

A request has an HTTP method and a path. The answers have the status and the text of a real API server.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.denials import Alters, Denies, alter
from tests.support.judge import node_view as view
from tests.support.judge.observations import Writer
from tests.support.model.answers import Answer, Rejected, Unreachable, apply, failure
from tests.support.nodes import node

A, B, C = OURS = ("example.com/a", "example.com/b", "example.com/c")
THEIRS = "vendor.example/gpu"
NAMES = (*OURS, THEIRS)
"""Names that a configuration may contain. At first, the last name belongs to another writer."""
LABELS = tuple(map(view.label, NAMES))
NODE = "/api/v1/nodes/n1"
SECRET = "hidden-by-its-owner"
"""A text in the Node that not all users of the machine may read."""

FAULTS = {"busy": 429, "denied": 401, "rejected": 400}
"""The HTTP status of every response during a fault. During the fault "unreachable", no response arrives."""

Document = dict[str, Any]


class ModelServer:
    """The API server and its Node.

    capacity: the Node's capacity (besides cpu) when it is registered. None: no Node is registered at first.
    """

    def __init__(self, capacity: Mapping[str, str] | None = None) -> None:
        self.first_capacity = {"cpu": "8"} | dict(capacity or {})
        self.document: Document | None = None
        self.denies: tuple[Denies, ...] = ()
        self.alters: tuple[Alters, ...] = ()
        self.fault = ""
        """A key of FAULTS, or "unreachable". "": the server works."""
        self.retry_after = 20.0
        """The Retry-After in seconds with each fault."""
        self.lost_answers = 0
        """How many of the next answers to PATCHes get lost."""
        self.lost_gets = 0
        """How many of the next answers to GETs get lost."""
        self.lost_requests = 0
        """How many of the next PATCHes never arrive."""
        self.before_patch: list[Callable[[], None]] = []
        """What other writers do just before the next PATCHes arrive: one call for each PATCH."""
        self.loses_events = False
        """Whether creating some Events fails."""
        self.requester = Writer.CAPACITYD
        """Who sends the requests."""
        self.on_request: Callable[[str], None] = lambda _: None
        """Called with the name of each request before it is carried out."""
        self.on_patch: Callable[[Document, Document, bool], None] = lambda *_: None
        """Called before admission, with the Node before and after a PATCH, and whether it contains conditions."""
        self.on_answer: Callable[[Document | None], None] = lambda _: None
        """Called with the Node of each answer. None: the Node does not exist."""
        self.listeners: list[Callable[[Writer], None]] = []
        """Called after each change of the Node, with its writer."""
        self._versions = self._uids = 0
        self._backup: tuple[Document | None, int] | None = None
        if capacity is not None:
            self.register()

    # The Node as other clients see it

    @property
    def capacity(self) -> dict[str, str]:
        return self.document["status"].setdefault("capacity", {}) if self.document else {}

    @property
    def allocatable(self) -> dict[str, str]:
        return self.document["status"].setdefault("allocatable", {}) if self.document else {}

    @property
    def stored(self) -> dict[str, str]:
        """The capacity and the labels."""
        return view.stored(self.document)

    @property
    def annotation(self) -> str | None:
        return view.annotation(self.document)

    @property
    def condition(self) -> Mapping[str, str]:
        return next(iter(view.conditions(self.document)), {})

    # Writes of other clients

    def write(self, name: str, value: str | None) -> None:
        """Another writer sets or removes a key of capacity, or a label."""
        if self.document is None or self.stored.get(name) == value:
            return
        part = self.document["metadata"].setdefault("labels", {}) if view.is_label(name) else self.capacity
        self._set(part, view.resource_of(name), value)

    def write_allocatable(self, name: str, value: str | None) -> None:
        """Another writer sets or removes a key of allocatable."""
        if self.document is not None and self.allocatable.get(name) != value:
            self._set(self.allocatable, name, value)

    def annotate(self, text: str | None) -> None:
        """Another writer sets or removes capacityd's annotation."""
        if self.document is not None and self.annotation != text:
            self._set(self.document["metadata"].setdefault("annotations", {}), view.PUBLISHED, text)

    def _set(self, part: dict[str, str], key: str, value: str | None) -> None:
        part.pop(key, None)
        if value is not None:
            part[key] = value
        self._changed(Writer.OTHER)

    def zero(self) -> None:
        """A kubelet sets every extended resource to 0, and copies capacity to allocatable."""
        if self.document is not None:
            self.capacity.update({name: "0" for name in self.capacity if "/" in name})
            self.document["status"]["allocatable"] = self.capacity.copy()
            self._changed(Writer.OTHER)

    def make_allocatable(self, otherwise: Mapping[str, str]) -> None:
        """A kubelet copies capacity to allocatable, except for the numbers in `otherwise`."""
        if self.document is not None:
            allocatable = self.capacity | {name: text for name, text in otherwise.items() if name in self.capacity}
            if allocatable != self.allocatable:
                self.document["status"]["allocatable"] = allocatable
                self._changed(Writer.OTHER)

    def add_condition(self, condition: dict[str, str], *, first: bool = False) -> None:
        """Another writer adds a condition."""
        if self.document is not None:
            self.document["status"]["conditions"].insert(0 if first else 99, condition)
            self._changed(Writer.OTHER)

    def change_condition(self, changes: Mapping[str, str] | None) -> None:
        """Another writer changes capacityd's condition. None: it removes the condition."""
        if self.document is not None:
            every = self.document["status"]["conditions"]
            kept = [c for c in every if c["type"] != view.CONDITION or changes is not None]
            self.document["status"]["conditions"] = [
                c | (changes or {}) if c["type"] == view.CONDITION else c for c in kept
            ]
            self._changed(Writer.OTHER)

    def delete(self) -> None:
        self.document = None
        self._notify(Writer.OTHER)

    def back_up(self) -> None:
        """Saves the Node for restore()."""
        self._backup = copy.deepcopy(self.document), self._versions

    def restore(self) -> None:
        """The Node and the server's version become those of the last back_up()."""
        if self._backup:
            self.document, self._versions = copy.deepcopy(self._backup[0]), self._backup[1]
            self._notify(Writer.OTHER)

    def register(self) -> None:
        """A kubelet creates the Node."""
        self._uids += 1
        self.document = node(self.first_capacity)
        self.document["metadata"] |= {"uid": f"uid-{self._uids}", "labels": {"owner": SECRET}}
        self.document["metadata"]["annotations"]["owner"] = SECRET
        self._changed(Writer.OTHER)

    def store(self, document: Document, by: Writer) -> None:
        """Stores this Node if it differs from the present one."""
        if document != self.document:
            self.document = document
            self._changed(by)

    # Requests

    def request(self, method: str, path: str, content_type: str = "", body: Any = None) -> Answer:
        """Carries out a request. body: parsed JSON. Raises Unreachable if no answer arrives."""
        name = f"{method.lower()} {path.rpartition('/')[2]}"
        self.on_request(name)
        try:
            return self._answer(method, path, content_type, body)
        except Rejected as e:
            return e.answer

    def _answer(self, method: str, path: str, content_type: str, body: Any) -> Answer:
        if path.endswith("/selfsubjectreviews"):
            return _ok({"status": {"userInfo": {"username": "system:node:n1"}}})
        if path.endswith("/events"):
            if self.loses_events and len(str(body["message"])) % 7 == 0:
                raise Unreachable
            return _ok({})
        if method == "GET" and path == NODE:
            answer = self._node()
            self._lose("lost_gets")
            return answer
        assert (method, path) == ("PATCH", f"{NODE}/status"), (method, path)
        return self._patch(content_type, body)

    def _patch(self, content_type: str, body: Any) -> Answer:
        if self.before_patch:
            self.before_patch.pop(0)()
        self._lose("lost_requests")
        answer = self._node()
        if answer.status != 200:
            return answer
        before = copy.deepcopy(self.document)
        assert before is not None
        after = apply(before, content_type, body)
        self.on_patch(before, after, "conditions" in body["status"])
        for alters in self.alters:
            alter(after, before, alters)
        old, new = view.stored(before), view.stored(after)
        for denies in self.denies:
            if denies.applies(old.get(denies.name), new.get(denies.name)):
                raise Rejected(*denies.status())
        self.store(after, self.requester)
        answer = self._node()
        self._lose("lost_answers")
        return answer

    def _node(self) -> Answer:
        if self.fault == "unreachable":
            raise Unreachable
        if self.fault:
            return failure(FAULTS[self.fault], self.fault, retry_after=self.retry_after)
        self.on_answer(self.document)
        return failure(404, 'nodes "n1" not found') if self.document is None else _ok(self.document)

    def _lose(self, what: str) -> None:
        """Raises Unreachable if a message is to be lost. what: the attribute that counts these messages."""
        if left := getattr(self, what):
            setattr(self, what, left - 1)
            raise Unreachable

    def _changed(self, by: Writer) -> None:
        if self.document is not None:
            self._versions += 1
            self.document["metadata"]["resourceVersion"] = str(self._versions)
            self._notify(by)

    def _notify(self, by: Writer) -> None:
        for listener in [*self.listeners]:
            listener(by)


def _ok(document: Mapping[str, Any]) -> Answer:
    return Answer(200, json.dumps(document).encode())
