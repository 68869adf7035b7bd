"""However a pass ends, the condition tells the truth. Once the causes are gone, the Node is right."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, note
from hypothesis import settings as how_hard
from hypothesis import strategies as st

from tests.support.denials import Alters, Denies, alterations, denials
from tests.support.histories import History, is_right, take_all
from tests.support.model_machine import Machine, readings
from tests.support.model_server import OURS, THEIRS, A, B
from tests.support.shortest import KINDS, Step, histories

letters = st.sampled_from("abc")
names = st.sampled_from(OURS)
quantities = st.sampled_from([0, 1, 4, 5, 8])
faults = ["directory", "loop", "pipe", "unwritable", "missing", "restored", "garbage", "name", "text", "float", "EIO"]
steps = st.builds(
    Step,
    hardware=st.none() | st.dictionaries(letters, st.none() | quantities, min_size=1),
    denies=st.none() | st.lists(denials, max_size=2).map(tuple),
    alters=st.none() | st.lists(alterations, max_size=1).map(tuple),
    record=st.sampled_from(["", "", "", *faults]),
    kill_at=st.none() | st.integers(0, 24),
    writes=st.dictionaries(names, st.sampled_from([None, "0", "4", "7", "1k"]), max_size=1),
    between=st.booleans(),
    annotates=st.none() | st.sampled_from(["", "garbage", f'{{"{THEIRS}":8,"{A}":4}}', f'{{"{B}":7}}']),
    node_anew=st.sampled_from([False, False, False, True]),
    lost_answer=st.sampled_from([False, False, False, True]),
    watched=st.sampled_from(["", "fresh", "stale"]),
    reason=st.sampled_from(["resync", "hardware", "config"]),
)
denied_steps = st.builds(
    Step,
    hardware=st.none() | st.dictionaries(letters, st.none() | quantities, min_size=1),
    denies=st.none() | st.lists(denials, max_size=2).map(tuple),
    watched=st.sampled_from(["", "fresh", "stale"]),
    reason=st.sampled_from(["resync", "hardware"]),
)
steps_with_lost_annotations = st.builds(
    Step,
    hardware=st.none() | st.dictionaries(letters, st.none() | quantities, min_size=1),
    writes=st.dictionaries(names, st.sampled_from([None, "0", "4", "7", "1k"]), max_size=2),
    annotates=st.sampled_from(["", "garbage"]),
    watched=st.sampled_from(["", "fresh", "stale"]),
    between=st.booleans(),
)

DENIED = Denies(A, 403)


@example([Step({"c": 1}), Step({"a": 4, "b": 2, "c": 1}, denies=(DENIED,)), Step({"a": 4, "b": 3, "c": 1})])
@example([Step({"a": 4, "b": 1}), Step({"a": 5, "b": 2}, denies=(Denies(A, 422),))])
@example([Step({"a": 4, "b": 1}), Step({"a": 5, "b": 2}, denies=(Denies(A, 409),))])
@example([Step({"a": 4, "b": 1}), Step({"a": 5, "b": 2}, denies=(Denies(A, 409, "opaque"),))])
@example([Step({"a": 4, "b": 1}), Step({"a": 5, "b": 2}, denies=(Denies(A, 422, "opaque"),))])
@example([Step({"a": 4}), Step({"a": 5, "b": 2}, record="directory")])
@example([Step({"a": 4}), Step({"a": 5, "b": 2}, record="pipe")])
@example([Step({"a": 4}), Step({"a": 8, "b": 4}, alters=(Alters("annotation", None),))])
@example([Step({"a": 4}), Step({"b": 4}, alters=(Alters("annotation", '{"example.com/a":1}'),))])
@example([Step({"a": 4, "b": 1}), Step({"a": 4}, alters=(Alters(B, "3"),))])
@example([Step(alters=(Alters("condition", "?"),)), Step({"a": 1}), Step(writes={A: "4"}, between=True)])
@example([Step(), Step({"a": 0}, writes={A: "1k"}, annotates=f'{{"{A}":4}}', between=True)])
@example(
    [
        Step({"a": 1, "b": 8}, denies=(DENIED, Denies(B, 409, "opaque"))),
        Step(denies=(Denies(B, 401, "policy"),), lost_answer=True, reason="config"),
    ]
)
@how_hard(suppress_health_check=list(HealthCheck), deadline=None)
@given(st.lists(steps, min_size=1, max_size=6))
def test_any_history_ends_right(history: list[Step]) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        take_all(History(Machine(Path(folder)), note), history)


@how_hard(suppress_health_check=list(HealthCheck), deadline=None)
@given(st.lists(denied_steps, min_size=2, max_size=6))
def test_a_denial_blocks_no_other_quantity(history: list[Step]) -> None:
    """This holds for other resources, and for other quantities of the same resource."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        take_all(History(Machine(Path(folder)), note), history)


@how_hard(suppress_health_check=list(HealthCheck), deadline=None)
@given(st.lists(steps_with_lost_annotations, min_size=2, max_size=6))
def test_a_lost_annotation_gives_up_no_key(history: list[Step]) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        take_all(History(Machine(Path(folder)), note), history)


@pytest.mark.parametrize("kind", KINDS)
def test_the_shortest_histories_end_right(kind: str, tmp_path: Path) -> None:
    """These histories include those that `python -m tests.cluster.histories` runs first on a real API server."""
    for number, steps in enumerate(histories(kind)[:20]):
        (folder := tmp_path / str(number)).mkdir()
        history = History(Machine(folder), print)
        take_all(history, steps)
        assert len(history.kills) == sum(step.kill_at is not None for step in steps)


def test_a_node_created_anew_is_not_rate_limited(tmp_path: Path) -> None:
    """However often a Node is created anew, each one is another Node that has not been written yet."""
    machine = Machine(tmp_path)
    machine.readings = readings(a=4)
    for _ in range(8):
        machine.server.register_anew()
        machine.uptime += 20.0
        machine.make_pass("node")
        assert is_right(machine)
