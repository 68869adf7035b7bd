"""Histories of a machine, its Node and an API server with admission, and the real worker that makes the passes.

A double of the HTTP client answers for the API server, so that errors on cue are possible. It denies with the status
and the text of a real one, and the real code interprets them. The machine's files are real files.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from capacityd.discovery.runner import Discovery
from capacityd.linux.atomic_file import read_regular_file
from capacityd.model.config import Config, Resource, Settings
from capacityd.model.errors import NodeConflict, NodeUnreachable
from capacityd.model.messages import Message, PassResult
from capacityd.model.node import ANNOTATION, CONDITION
from capacityd.model.reading import Absent, Quantity, Reading
from capacityd.model.reasons import PassReason
from capacityd.node.client import Client
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.errors import Call, HttpError, from_http_status
from capacityd.worker import reconcile_job
from tests.support.nodes import apply_patch, node

A, B, C = NAMES = ("example.com/a", "example.com/b", "example.com/c")
THEIRS = "vendor.example/gpu"
"""A key of another writer, which no configuration names."""

WEBHOOK = 'admission webhook "w.example.com" denied the request: '
_POLICY = "nodes \"n1\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: "
_GUARD = "the server rejected our request due to an error in our request"
_TOO_LARGE = "etcdserver: request is too large"
_EPOCH = 1_700_000_000.0


class Killed(BaseException):
    """SIGKILL: nothing that handles exceptions may notice it."""


@dataclass(frozen=True, slots=True)
class Denies:
    """A validating webhook or policy that denies writes that change one capacity key."""

    name: str
    code: int
    kind: str = "webhook"
    """webhook; policy: with a cause; opaque: with the text of a failed guard or of a conflict; storage: a server error,
    as if etcd could not store the Node."""
    most: int | None = None
    """A webhook allows quantities up to this, and the removal of the key. None: it denies any change."""

    def applies(self, before: str | None, after: str | None) -> bool:
        """Whether a write that changes the key like this is denied. None: the key is absent."""
        return before != after and (self.most is None or (after is not None and int(after) > self.most))

    def reason(self) -> str:
        """What the condition has to say about it."""
        return {"opaque": "", "storage": _TOO_LARGE}.get(self.kind, "not on my Nodes")

    def error(self) -> HttpError:
        text = {
            "webhook": WEBHOOK + "not on my Nodes",
            "policy": _POLICY + "not on my Nodes",
            "opaque": _GUARD,
            "storage": _TOO_LARGE,
        }[self.kind]
        return http_error(self.code, text, [{"message": text}] if self.kind == "policy" else [])


@dataclass(frozen=True, slots=True)
class Alters:
    """A mutating webhook or policy. key: a capacity key, or "annotation" or "condition"; value: None removes it."""

    key: str
    value: str | None


def http_error(code: int, message: str, causes: Sequence[Mapping[str, str]] = ()) -> HttpError:
    details = {"name": "n1", "kind": "nodes"} | ({"causes": causes} if causes else {})
    status = {"kind": "Status", "status": "Failure", "message": message, "details": details, "code": code}
    return HttpError(code, {}, json.dumps(status).encode())


class ModelServer:
    """The Node and the admission of writes to its status. point() is called before and after each request."""

    def __init__(self) -> None:
        self.document: dict[str, Any] | None = node(capacity={"cpu": "8", THEIRS: "8"})
        self.denies: tuple[Denies, ...] = ()
        self.alters: tuple[Alters, ...] = ()
        self.written_by_others: dict[str, str | None] = {}
        self.requests: list[str] = []
        self.point: Callable[[str], None] = lambda _: None
        self.between: Callable[[], None] | None = None
        self.lose = False
        self._version = 1
        self._uids = 0

    # As others see it

    @property
    def capacity(self) -> dict[str, str]:
        quantities: dict[str, str] = self.document["status"].setdefault("capacity", {}) if self.document else {}
        return quantities

    @property
    def annotation(self) -> str | None:
        text: str | None = (self.document or {"metadata": {}})["metadata"].get("annotations", {}).get(ANNOTATION)
        return text

    @property
    def condition(self) -> dict[str, str]:
        conditions = (self.document or {"status": {"conditions": []}})["status"]["conditions"]
        return next((c for c in conditions if c["type"] == CONDITION), {})

    def write(self, name: str, value: str | None) -> None:
        """Another writer sets or removes a capacity key."""
        if value is None:
            self.capacity.pop(name, None)
        else:
            self.capacity[name] = value
        self._changed()

    def annotate(self, text: str | None) -> None:
        """Another writer sets or removes our annotation."""
        assert self.document is not None
        annotations = self.document["metadata"].setdefault("annotations", {})
        annotations.pop(ANNOTATION, None)
        if text is not None:
            annotations[ANNOTATION] = text
        self._changed()

    def register_anew(self) -> None:
        """The Node is deleted and created again."""
        self.document = node(capacity={"cpu": "8", THEIRS: "8"})
        self._uids += 1
        self.document["metadata"]["uid"] = f"anew-{self._uids}"
        self._changed()

    # As the client sees it

    def get(self) -> Any:
        self.requests.append("get")
        assert self.document is not None
        self.document["metadata"]["resourceVersion"] = str(self._version)
        self.document["status"]["allocatable"] = dict(self.capacity)
        return copy.deepcopy(self.document)

    def patch(self, operations: Sequence[Mapping[str, object]]) -> Any:
        self.requests.append("patch")
        if self.between:
            between, self.between = self.between, None
            between()
        assert self.document is not None
        try:
            after = apply_patch(self.document, operations)
        except NodeConflict as e:
            raise http_error(422, _GUARD) from e
        for alter in self.alters:
            _alter(after, self.document, alter)
        for denies in self.denies:
            if denies.applies(self.capacity.get(denies.name), _capacity(after).get(denies.name)):
                raise denies.error()
        if after != self.document:
            self.document = after
            self._changed()
        answer = self.get()
        self.requests.pop()
        return answer

    def _changed(self) -> None:
        self._version += 1


def _capacity(document: Mapping[str, Any]) -> dict[str, str]:
    quantities: dict[str, str] = document["status"].setdefault("capacity", {})
    return quantities


def _alter(after: dict[str, Any], before: Mapping[str, Any], alters: Alters) -> None:
    """As a mutating webhook does: for each write, whoever's it is."""
    if alters.key == "annotation":
        annotations = after["metadata"].setdefault("annotations", {})
        annotations.pop(ANNOTATION, None)
        if alters.value is not None:
            annotations[ANNOTATION] = alters.value
    elif alters.key == "condition":
        conditions = [c for c in after["status"]["conditions"] if c["type"] != CONDITION]
        ours = {"type": CONDITION, "status": "Unknown", "reason": "Altered", "message": alters.value}
        after["status"]["conditions"] = conditions if alters.value is None else [*conditions, ours]
    elif _capacity(after).get(alters.key) != before["status"].get("capacity", {}).get(alters.key):
        _capacity(after).pop(alters.key, None)
        if alters.value is not None:
            _capacity(after)[alters.key] = alters.value


class _ModelClient:
    """In place of node.client.Client."""

    def __init__(self, server: ModelServer) -> None:
        self.access = _ACCESS
        self.identity = ""
        self._server = server

    def review_self(self) -> object:
        return {"status": {"userInfo": {"username": "system:node:n1"}}}

    def read_node(self, name: str) -> object:
        return self._answer("get", "nodes", self._server.get)

    def patch_node_status(self, name: str, patch: Sequence[Mapping[str, object]]) -> object:
        answer = self._answer("patch", "nodes/status", lambda: self._server.patch(patch))
        if self._server.lose:
            self._server.lose = False
            raise NodeUnreachable("the answer was lost")
        return answer

    def create_event(self, node: str, event: Mapping[str, object]) -> None:
        self._answer("create", "events", dict)

    def _answer(self, verb: str, resource: str, action: Callable[[], object]) -> object:
        self._server.point(f"before {verb} {resource}")
        try:
            answer = action()
        except HttpError as e:
            raise from_http_status(e, Call(_ACCESS, verb, resource, "n1", self.identity)) from e
        self._server.point(f"after {verb} {resource}")
        return answer


_ACCESS = ClusterAccess("kubeconfig", "https://server")


@dataclass
class Machine:
    """A machine whose worker makes one pass after another. readings: of what is configured."""

    folder: Path
    server: ModelServer = field(default_factory=ModelServer)
    readings: dict[str, Reading] = field(default_factory=dict)
    uptime: float = 10_000.0
    kill_at: int | None = None
    """The kill point at which the next pass is killed."""
    killed: str = ""
    """The point at which the last pass was killed."""
    record_errno: int = 0
    """The error with which the machine's record can't be read; 0: it can. A double of a failing disk."""
    messages: list[Message] = field(default_factory=list)
    _points: int = 0

    def __post_init__(self) -> None:
        self.server.point = self._point
        for name in ("run", "state"):
            (self.folder / name).mkdir()

    @property
    def record(self) -> Path:
        return self.folder / "state" / "published.json"

    def make_pass(self, *reasons: str) -> bool:
        """Whether it came to its end. A killed one does not."""
        self._points, self.killed, self.messages = 0, "", []
        options = argparse.Namespace(
            folder=str(self.folder / "run"),
            command="worker",
            config="none",
            kubeconfig=None,
            node_name=None,
            node_file=None,
            machine=None,
            lost=0,
        )
        with self._running():
            try:
                reconcile_job.reconcile_once(options, frozenset(map(PassReason, reasons)))
            except Killed:
                return False
            finally:
                self.kill_at = None
        return True

    @property
    def error(self) -> str:
        """The error that the last pass has told the service."""
        failures = [m.failure.message for m in self.messages if isinstance(m, PassResult) and m.failure]
        return "".join(failures)

    def _point(self, point: str) -> None:
        if self._points == self.kill_at:
            self.killed = point
            raise Killed
        self._points += 1

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Time, files and programs are those of this machine while the worker runs."""
        names = sorted(self.readings)
        config = Config(
            tuple(Resource(name, "static", ()) for name in names), Settings(lower_after=0.0), digest=",".join(names)
        )
        clock = SimpleNamespace(time=lambda: _EPOCH + self.uptime, monotonic=lambda: self.uptime, sleep=lambda _: None)
        clock.strftime, clock.gmtime = __import__("time").strftime, __import__("time").gmtime
        replace, read = os.replace, read_regular_file

        def read_record(path: str) -> bytes:
            if self.record_errno:
                raise OSError(self.record_errno, os.strerror(self.record_errno), path)
            return read(path)

        def replaced(*paths: Any) -> None:
            self._point(f"before {Path(paths[1]).name}")
            replace(*paths)
            self._point(f"after {Path(paths[1]).name}")

        with pytest.MonkeyPatch.context() as patches:
            patches.setenv("STATE_DIRECTORY", str(self.folder / "state"))
            patches.setattr(os, "replace", replaced)
            patches.setattr("capacityd.reconcile.machine_record.read_regular_file", read_record)
            patches.setattr(os, "fsync", lambda _: None)
            job = "capacityd.worker.reconcile_job."
            patches.setattr(job + "time", clock)
            patches.setattr("capacityd.reconcile.apply.time", clock)
            patches.setattr("capacityd.reconcile.writing.time", clock)
            patches.setattr(job + "uptime", lambda: self.uptime)
            patches.setattr(job + "host_of", lambda _: SimpleNamespace(hostname=lambda: "n1"))
            saved = SimpleNamespace(restored=lambda: config, errors=())
            patches.setattr(job + "runtime_files.read_config", lambda _: saved)
            patches.setattr(job + "discover", lambda *_: Discovery(dict(self.readings), {}))
            patches.setattr(job + "kubelet_started_at", lambda _: None)
            patches.setattr(job + "device_plugin_names", lambda _: frozenset())
            patches.setattr(job + "send_message", self.messages.append)
            patches.setattr("capacityd.worker.journal.send", lambda _: None)
            patches.setattr("capacityd.worker.selected_node.machine_id", lambda _: None)
            patches.setattr("capacityd.node.api_node.load", lambda _: _ACCESS)
            patches.setattr("capacityd.node.api_node.Client", lambda _: _ModelClient(self.server))
            yield


assert all(hasattr(Client, name) for name in ("review_self", "read_node", "patch_node_status", "create_event"))


def damage(record: Path, fault: str) -> None:
    """A fault of the machine's record. Its content is lost."""
    remove(record)
    if fault == "directory":
        record.mkdir()
    elif fault == "loop":
        record.symlink_to(record)
    elif fault == "pipe":
        os.mkfifo(record)
    elif fault == "unwritable":
        record.with_name("published.json.new").mkdir()


def remove(record: Path) -> None:
    """The record, or what is in its place."""
    if record.is_dir() and not record.is_symlink():
        shutil.rmtree(record)
    else:
        record.unlink(missing_ok=True)


def remove_obstacle(record: Path) -> None:
    """What is in the way of writing the record."""
    with suppress(FileNotFoundError, NotADirectoryError):
        record.with_name("published.json.new").rmdir()


def readings(**numbers: int | None) -> dict[str, Reading]:
    """a=4: the quantity; a=None: absent. What is not named is not configured."""
    return {f"example.com/{n}": Absent("none") if q is None else Quantity(q) for n, q in numbers.items()}
