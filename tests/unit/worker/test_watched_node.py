"""The watched Node spares a request. Nothing wrong is written because of it, however old or damaged it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd import __version__
from capacityd.model.errors import NodeMissing
from capacityd.model.file_codec import to_file
from capacityd.model.messages import WATCHED_NODE
from capacityd.model.plan import MachineRecord
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.model.watch import WatchedNode
from capacityd.node.documents.node import node_state
from capacityd.reconcile.known_node import known_node
from tests.support.nodes import UID, node, recorded
from tests.unit.reconcile.doubles import FOUR, A, B, Service
from tests.unit.worker.job import Worker


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    """A worker that has published everything, and whose Node is watched."""
    made = Worker(tmp_path, monkeypatch)
    made.make_pass(1000.0, "boot", a=FOUR)
    made.uptime = 1001.0
    made.watch()
    return made


def reads(worker: Worker, content: bytes) -> bool:
    """Whether a pass with this file reads the Node."""
    worker.node.reads = worker.node.writes = 0
    (worker.folder / WATCHED_NODE).write_bytes(content)
    worker.make_pass(1002.0, "hardware", a=FOUR)
    assert worker.node.writes == 0
    return worker.node.reads > 0


def test_only_an_undamaged_file_of_this_version_spares_the_read(worker: Worker) -> None:
    content = (worker.folder / WATCHED_NODE).read_bytes()
    assert not reads(worker, content)
    for size in range(0, len(content), 97):
        assert reads(worker, content[:size])
    assert reads(worker, to_file(WatchedNode(worker.node.state(), "n1", 1001.0), "0.0.1"))
    assert reads(worker, json.dumps(json.loads(content) | {"checksum": "00000000"}).encode())
    (worker.folder / WATCHED_NODE).unlink()
    worker.node.reads = 0
    worker.make_pass(1003.0, "hardware", a=FOUR)
    assert worker.node.reads == 1


@pytest.mark.parametrize("by_kubelet", [True, False])
def test_a_node_that_the_watch_says_is_missing_costs_no_request(worker: Worker, by_kubelet: bool) -> None:
    """The watch and a request have the same message, which is logged once."""
    missing = WatchedNode(None, "n1", 1500.0, named_by_credentials=by_kubelet)
    error = NodeMissing("the API server", "n1", named_by_credentials=by_kubelet)
    worker.node.reads, worker.node.errors = 0, [error]
    for at in (1600.0, 1601.0):
        (worker.folder / WATCHED_NODE).write_bytes(to_file(missing, __version__))
        result = worker.make_pass(at, "node", a=FOUR)
        assert result.failure
        assert result.failure.message == str(error)
    assert worker.node.reads <= 1


annotated = st.dictionaries(st.sampled_from((A, B)), st.integers(0, 5), max_size=2)
documents = st.builds(
    node,
    st.dictionaries(st.sampled_from((A, B)), st.sampled_from(("0", "3", "4", "5")), max_size=2),
    st.none() | annotated,
    st.sampled_from((None, "True", "False")),
)
readings = st.fixed_dictionaries(
    {name: st.integers(0, 5).map(Quantity) | st.sampled_from((Absent("none"), Unknown("busy"))) for name in "ab"}
)
records = st.none() | annotated.map(recorded)


@given(documents, documents, records, readings, st.sampled_from(("hardware", "resync", "node")))
def test_a_node_that_is_out_of_date_leads_to_the_same_writes_as_a_read_or_to_none(
    watched: dict[str, Any],
    document: dict[str, Any],
    record: MachineRecord | None,
    read: Mapping[str, Reading],
    reason: str,
) -> None:
    watching, reading = (_service(document, record) for _ in range(2))
    watching.watched_state = node_state(watched | {"metadata": watched["metadata"] | {"resourceVersion": "1"}})
    before = watching.node.state()
    watching.reconcile(1000.0, {reason}, **read)
    reading.reconcile(1000.0, {reason}, **read)
    after = watching.node.state()
    assert after.capacity in (before.capacity, reading.node.state().capacity)
    assert not after.duplicate_conditions
    if watching.node.reads == 0 and watching.node.writes:
        assert (before.capacity, before.annotation) == (
            watching.watched_state.capacity,
            watching.watched_state.annotation,
        )


def _service(document: dict[str, Any], record: MachineRecord | None) -> Service:
    service = Service()
    metadata = document["metadata"] | {"resourceVersion": "2", "uid": UID}
    service.node.document = json.loads(json.dumps(document | {"metadata": metadata}))
    service.record = record
    return service


def test_a_pass_without_a_request_makes_its_node_no_newer(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """While such a pass runs, the cluster is restored, and the watcher connects again. Its Node is the newer one."""
    times = iter([1002.0])
    monkeypatch.setattr("capacityd.worker.reconcile_job.uptime", lambda: next(times, 1002.9))
    worker.make_pass(1002.0, "hardware", a=FOUR)
    worker.node.document["status"]["capacity"] = {}
    worker.node.document["metadata"]["resourceVersion"] = "1"
    watched = WatchedNode(worker.node.state(), "n1", 1002.5)
    assert known_node(watched, worker.memory.reconcile) == watched.state
