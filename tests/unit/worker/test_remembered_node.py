"""The remembered Node only decides whether a pass reads the Node. Nothing is written on its basis."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd import __version__
from capacityd.model.codec import to_file
from capacityd.model.node import Condition, NodeState
from capacityd.model.plan import MachineRecord
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.reconcile.memory import Memory
from capacityd.reconcile.timing import WriteTimes
from capacityd.worker.pass_state import PassState
from tests.support.nodes import apply_patch, node
from tests.unit.reconcile.doubles import FOUR, A, B, MemoryNode, Service
from tests.unit.worker.job import Worker
from tests.unit.worker.test_runtime_files import with_checksum

FIELDS = {field.name: field for field in fields(NodeState)}
VALUES: list[Any] = [None, True, -7, 1e300, "text", "\ud800", [], ["a"], {}, {"a": 1}, [[1, 2]], {"a": None}]


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    """A worker whose last pass has published everything and remembered the Node."""
    made = Worker(tmp_path, monkeypatch)
    made.make_pass(1000.0, "boot", a=FOUR)
    assert made.state.memory.node is not None
    return made


def reads(worker: Worker, content: bytes) -> bool:
    """Whether a pass reads the Node if only this file can be a reason. Nothing differs, so the pass writes nothing."""
    worker.node.reads = worker.node.writes = 0
    (worker.folder / "state.json").write_bytes(content)
    worker.make_pass(1001.0, "hardware", a=FOUR)
    assert worker.node.writes == 0
    assert worker.state.memory.node is not None, "it is remembered again"
    return worker.node.reads > 0


def with_last_seen(worker: Worker, last_seen: object) -> bytes:
    """The state file with last_seen as the remembered Node, as if another build of the same version had written it."""
    data = json.loads(to_file(worker.state, __version__))
    del data["checksum"]
    data["memory"]["node"] = last_seen
    return with_checksum(data)


def last_seen(worker: Worker) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((worker.folder / "state.json").read_text())["memory"]["node"]
    assert {*found} == {*FIELDS}
    return found


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_that_is_missing_or_of_another_type(worker: Worker, name: str) -> None:
    before = last_seen(worker)
    without = {key: value for key, value in before.items() if key != name}
    if FIELDS[name].default is MISSING:
        assert reads(worker, with_last_seen(worker, without))
    assert reads(worker, with_last_seen(worker, without | {f"{name}x": before[name]}))
    damaged = 0
    for value in [*VALUES, *altered(before[name])]:
        content = with_last_seen(worker, before | {name: value})
        (worker.folder / "state.json").write_bytes(content)
        if worker.state == PassState():  # otherwise, the value has the right type
            assert reads(worker, content), value
            damaged += 1
    assert damaged > 3


def altered(value: Any) -> Iterator[Any]:
    """Copies of the value with one part damaged, if the value is a table."""
    if isinstance(value, dict):
        for key in value:
            rest = {other: part for other, part in value.items() if other != key}
            yield from (rest | {key: part} for part in VALUES)
            yield rest | {f"{key}x": value[key]}


def test_only_an_undamaged_file_of_this_version_spares_the_read(worker: Worker) -> None:
    content = (worker.folder / "state.json").read_bytes()
    data, node = json.loads(content), last_seen(worker)
    assert not reads(worker, content)
    assert not reads(worker, with_last_seen(worker, node))
    for damaged in (*VALUES, node | {"other": 1}):
        assert reads(worker, with_last_seen(worker, damaged)), damaged
    assert reads(worker, to_file(worker.state, "0.0.1"))
    assert reads(worker, json.dumps(data | {"checksum": "00000000"}).encode())
    for size in range(0, len(content), 97):
        assert reads(worker, content[:size])
    (worker.folder / "state.json").unlink()
    worker.node.reads = 0
    worker.make_pass(1001.0, "hardware", a=FOUR)
    assert worker.node.reads == 1


names: st.SearchStrategy[str] = st.sampled_from((A, B, "cpu", "example.com/c"))
quantities: st.SearchStrategy[dict[str, str]] = st.dictionaries(
    names, st.sampled_from(("0", "3", "4", "1k", "-1", "x")), max_size=3
)
annotated: st.SearchStrategy[dict[str, int]] = st.dictionaries(names, st.integers(0, 5), max_size=3)
statuses: st.SearchStrategy[str] = st.sampled_from(("True", "False", "Unknown", ""))
claims = st.builds(
    NodeState,
    st.sampled_from(("n1", "n2", "")),
    st.sampled_from(("", "another", node()["metadata"]["uid"])),
    st.none() | quantities,
    st.none() | quantities,
    st.booleans(),
    st.none() | annotated.map(json.dumps) | st.text(max_size=5),
    st.none() | st.integers(0, 3),
    st.none() | st.builds(Condition, statuses, st.just("Published"), st.just("old"), st.integers(0, 3), st.just({})),
    heartbeat=st.none() | st.floats(0, 2e9),
    configuration=st.none() | st.sampled_from(("first", "second", "")),
    resource_version=st.sampled_from(("", "1", "2")),
)
documents = st.builds(
    node,
    st.dictionaries(st.sampled_from((A, B)), st.sampled_from(("0", "3", "4", "5")), max_size=2),
    st.none() | annotated,
    st.none() | statuses.filter(bool),
)
readings = st.fixed_dictionaries(
    {name: st.integers(0, 5).map(Quantity) | st.sampled_from((Absent("none"), Unknown("busy"))) for name in "ab"}
)
reasons = st.sampled_from(("hardware", "file", "requeue", "plugins", "boot", "resync", "config"))
records = st.none() | st.builds(MachineRecord, annotated, annotated)
lower_since = st.dictionaries(names, st.floats(0, 1000.0), max_size=2)


class _Recorder(MemoryNode):
    """A Node that keeps each patch, with the Node that the pass knew from its last read or write response."""

    def __init__(self, document: dict[str, Any]) -> None:
        super().__init__()
        self.document = copy.deepcopy(document)
        self.known: dict[str, Any] | None = None
        self.sent: list[tuple[Any, Sequence[Mapping[str, object]]]] = []

    def read(self) -> NodeState:
        state = super().read()
        self.known = copy.deepcopy(self.document)
        return state

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        self.sent.append((self.known, patch))
        state = super().write(patch)
        self.known = copy.deepcopy(self.document)
        return state


def service_on(document: dict[str, Any], record: MachineRecord | None, memory: Memory) -> tuple[Service, _Recorder]:
    service, recorder = Service(), _Recorder(document)
    service.settings = replace(service.settings, lower_after=30.0)
    service.node, service.record, service.memory = recorder, record, memory
    return service, recorder


@given(claims, documents, records, readings, reasons, lower_since)
def test_nothing_is_written_from_it(
    claim: NodeState,
    document: dict[str, Any],
    record: MachineRecord | None,
    read: Mapping[str, Reading],
    reason: str,
    since: Mapping[str, float],
) -> None:
    """Each guard matches the Node that was just read, and the patches equal those of a pass that remembers no Node."""
    memory = Memory(claim, lower_since=since, write_times=WriteTimes({B: (995.0,)}))
    service, recorder = service_on(document, record, memory)
    service.reconcile(1000.0, (reason,), **read)
    for known, patch in recorder.sent:
        assert known is not None, "it was read before"
        guards = [operation for operation in patch if operation["op"] == "test"]
        assert guards
        apply_patch(known, guards)  # raises NodeConflict if a guard fails
    forgetful, other = service_on(document, record, replace(memory, node=None))
    forgetful.reconcile(1000.0, (reason,), **read)
    if recorder.reads == 0:
        assert recorder.sent == []
        assert reason in ("hardware", "file", "requeue", "plugins")
    elif [patch for _, patch in recorder.sent] != [patch for _, patch in other.sent]:
        # The remembered Node may only make a reduction wait longer: on that Node, there was nothing to reduce.
        assert {*since} & {A, B}
        assert writes(recorder) < writes(other)


def writes(recorder: _Recorder) -> set[str]:
    """The changes in the patches as text, except those of the condition and annotation, which depend on the others."""
    return {
        json.dumps(operation)
        for _, patch in recorder.sent
        for operation in patch
        if operation["op"] != "test" and str(operation["path"]).startswith(("/status/capacity", "/status/allocatable"))
    }
