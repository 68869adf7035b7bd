"""A model of an API server with one Node. The Node's other writers, policies, webhooks and faults act on demand.

A request has an HTTP method and a path. The answers have the status and the text of a real API server.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.denials import Alters, Denies, alter
from tests.support.judge import node_view as view
from tests.support.judge.surroundings import Writer
from tests.support.model.answers import Answer, Rejected, Unreachable, apply, failure
from tests.support.nodes import merge, node

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
    """The API server and its Node. No Node is registered at first."""

    def __init__(self) -> None:
        self.document: Document | None = None
        self.denies: tuple[Denies, ...] = ()
        self.alters: tuple[Alters, ...] = ()
        self.fault = ""
        """A key of FAULTS, or "unreachable". "": the server works."""
        self.retry_after = 20.0
        """The Retry-After in seconds with each fault."""
        self.lost: Counter[str] = Counter()
        """How many of the next messages get lost: requests (PATCHes), answers (to PATCHes), gets (answers to GETs)."""
        self.before_patch: list[Callable[[], None]] = []
        """What other writers do just before the next PATCHes arrive. Each PATCH uses up one function."""
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

    # The Node as other clients see it

    @property
    def capacity(self) -> dict[str, str]:
        return dict(self.document["status"]["capacity"]) if self.document else {}

    @property
    def condition(self) -> Mapping[str, str]:
        return next(iter(view.conditions(self.document)), {})

    # Writes of other clients

    def change(self, edit: Callable[[Document], None]) -> None:
        """Another writer edits the Node, if there is one."""
        if self.document is not None:
            document = copy.deepcopy(self.document)
            edit(document)
            self._store(document, Writer.OTHER)

    def write(self, name: str, value: str | None) -> None:
        """Another writer sets or removes a key of capacity, or a label."""

        def edit(node: Document) -> None:
            part = node["metadata"]["labels"] if view.is_label(name) else node["status"]["capacity"]
            merge(part, {view.resource_of(name): value})

        self.change(edit)

    def annotate(self, text: str | None) -> None:
        """Another writer sets or removes capacityd's annotation."""
        self.change(lambda node: merge(node["metadata"]["annotations"], {view.PUBLISHED: text}))

    def zero(self) -> None:
        """A kubelet sets every extended resource to 0, and copies capacity to allocatable."""

        def edit(node: Document) -> None:
            capacity = {name: "0" if "/" in name else text for name, text in node["status"]["capacity"].items()}
            node["status"] |= {"capacity": capacity, "allocatable": {**capacity}}

        self.change(edit)

    def make_allocatable(self, otherwise: Mapping[str, str]) -> None:
        """A kubelet copies capacity to allocatable, except for the numbers in `otherwise`."""

        def edit(node: Document) -> None:
            capacity = node["status"]["capacity"]
            node["status"]["allocatable"] = {name: otherwise.get(name, text) for name, text in capacity.items()}

        self.change(edit)

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
        document = node({"cpu": "8"})
        document["metadata"] |= {"uid": f"uid-{self._uids}", "labels": {"owner": SECRET}}
        document["metadata"]["annotations"]["owner"] = SECRET
        self._store(document, Writer.OTHER)

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
            is_lost = len(str(body["message"])) % 7 == 0  # some Events get lost, always the same ones in a history
            if is_lost:
                raise Unreachable
            return _ok({})
        if method == "GET" and path == NODE:
            answer = self._node()
            self._lose("gets")
            return answer
        assert (method, path) == ("PATCH", f"{NODE}/status"), (method, path)
        return self._patch(content_type, body)

    def _patch(self, content_type: str, body: Any) -> Answer:
        if self.before_patch:
            self.before_patch.pop(0)()
        self._lose("requests")
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
        self._store(after, self.requester)
        answer = self._node()
        self._lose("answers")
        return answer

    def _node(self) -> Answer:
        if self.fault == "unreachable":
            raise Unreachable
        if self.fault:
            return failure(FAULTS[self.fault], self.fault, retry_after=self.retry_after)
        self.on_answer(self.document)
        return failure(404, 'nodes "n1" not found') if self.document is None else _ok(self.document)

    def _lose(self, kind: str) -> None:
        """Raises Unreachable if a message of this kind is to be lost."""
        if self.lost[kind]:
            self.lost[kind] -= 1
            raise Unreachable

    def _store(self, document: Document, by: Writer) -> None:
        """Stores a Node, if it differs from the present one."""
        if document != self.document:
            self._versions += 1
            document["metadata"]["resourceVersion"] = str(self._versions)
            self.document = document
            self._notify(by)

    def _notify(self, by: Writer) -> None:
        for listener in [*self.listeners]:
            listener(by)


def _ok(document: Mapping[str, Any]) -> Answer:
    return Answer(200, json.dumps(document).encode())
