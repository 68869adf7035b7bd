"""A small run of `make scale`, and what it compares the Nodes with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.scale import __main__ as command
from tests.cluster.scale.figures import Figures
from tests.cluster.scale.run import Disagreement, Scenario, run
from tests.cluster.scale.steps import (
    DONGLE,
    FOREIGN,
    OURS,
    SEATS,
    SLOTS,
    OfNode,
    RestartApiServer,
    RestartService,
    SetDongles,
    Step,
    WriteOther,
    draw,
)
from tests.cluster.scale.truth import Truth, disagreements

SEED, STEPS = 97, 40
ALL = ("True", "Published", "all configured resources are published")


@pytest.fixture
def restarted(binaries: Mapping[str, Path]) -> Iterator[Cluster]:
    """One of its own: an API server that is restarted is not shared."""
    with control_plane(binaries=binaries) as cluster:
        yield cluster


def test_four_nodes_agree_after_random_changes(restarted: Cluster) -> None:
    """The steps are of every kind, so none of the code is for the long run only."""
    made = draw(SEED, 4, STEPS)
    assert {type(step) for step in made} == {*get_args(OfNode), RestartApiServer}
    assert {step.kill for step in made if isinstance(step, RestartApiServer)} == {True, False}
    assert len({(s.kill, s.reboot) for s in made if isinstance(s, RestartService)}) == 4
    assert {step.name for step in made if isinstance(step, WriteOther)} == {*OURS, FOREIGN}
    lines: list[str] = []
    found = run(restarted, Scenario(nodes=4, steps=STEPS, seed=SEED), lines.append)
    assert lines[-1] == "after the services have ended: every Node agrees"
    assert found.requests["patch nodes/status", 200] >= 4
    assert found.seconds > 1
    assert found.peak > 10_000
    assert len(found.converged) == 4


def test_what_does_not_agree_is_reported(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that is needed to find out why."""
    monkeypatch.setattr("tests.cluster.scale.run._LONGEST_PAUSE", 3.0)
    monkeypatch.setattr("tests.cluster.scale.member.disagreements", lambda *_: ["dongles are not dongles"])
    with pytest.raises(Disagreement) as raised:
        run(cluster, Scenario(nodes=1, steps=0, seed=7, resync=1), lambda _: None)
    first, *lines = str(raised.value).splitlines()
    assert "all Nodes agree when the services have started" in first
    assert lines[0].endswith(", seed 7:")
    assert lines[1:3] == ["dongles are not dongles", "its history:"]
    assert lines[3].endswith(" s  begin")


def test_a_seed_has_its_steps() -> None:
    assert draw(1, 200, 900) == draw(1, 200, 900)
    assert draw(1, 200, 900) != draw(2, 200, 900)
    assert {step.node for step in draw(1, 4, 200) if not isinstance(step, RestartApiServer)} == {0, 1, 2, 3}


def node(
    capacity: Mapping[str, str], annotation: Mapping[str, int], condition: tuple[str, str, str] = ALL
) -> dict[str, Any]:
    status, reason, message = condition
    return {
        "metadata": {"annotations": {"capacityd/published": json.dumps(annotation)}},
        "status": {
            "capacity": {"cpu": "4", **capacity},
            "conditions": [
                {"type": "CapacityPublished", "status": status, "reason": reason, "message": message},
                {"type": "Ready", "status": "True"},
            ],
        },
    }


def truth(seats: int | None = 5, others: dict[str, str | None] | None = None) -> Truth:
    """Two dongles, after one; so many seats, after four and five."""
    made = Truth(dongles=1, seats=4, resources=(DONGLE, SEATS), slots=3, others=others or {})
    made.remember()
    made.dongles, made.seats = 2, 5
    made.remember()
    made.seats = seats
    return made


UNKNOWN = ("False", "Unknown", f"unknown: {SEATS}")
REFUSED = ("False", "Refused", f"refused: {DONGLE}")
BOTH = ("False", "Unknown", f"unknown: {SEATS}; refused: {DONGLE}")


@pytest.mark.parametrize(
    ("machine", "found"),
    [
        (truth(), node({DONGLE: "2", SEATS: "5"}, {DONGLE: 2, SEATS: 5})),
        # Unknown: one that it has had; the second writer's is left, zeros are not.
        (truth(None), node({DONGLE: "2", SEATS: "5"}, {DONGLE: 2, SEATS: 5}, UNKNOWN)),
        (truth(None), node({DONGLE: "2", SEATS: "4"}, {DONGLE: 2, SEATS: 4}, UNKNOWN)),
        (truth(None), node({DONGLE: "2"}, {DONGLE: 2}, UNKNOWN)),
        (truth(None, {SEATS: "9"}), node({DONGLE: "2", SEATS: "9"}, {DONGLE: 2, SEATS: 4}, UNKNOWN)),
        # Given up to the second writer.
        (truth(others={DONGLE: "9"}), node({DONGLE: "9", SEATS: "5"}, {SEATS: 5}, REFUSED)),
        (truth(None, {DONGLE: "0"}), node({DONGLE: "0", SEATS: "5"}, {SEATS: 5}, BOTH)),
        (truth(others={SLOTS: "9"}), node({DONGLE: "2", SEATS: "5", SLOTS: "9"}, {DONGLE: 2, SEATS: 5})),
        # Put back, and what is the second writer's.
        (truth(others={DONGLE: "9"}), node({DONGLE: "2", SEATS: "5"}, {DONGLE: 2, SEATS: 5})),
        (truth(others={FOREIGN: "9"}), node({DONGLE: "2", SEATS: "5", FOREIGN: "9"}, {DONGLE: 2, SEATS: 5})),
    ],
)
def test_nodes_that_agree(machine: Truth, found: dict[str, Any]) -> None:
    assert disagreements(machine, found) == []


@pytest.mark.parametrize(
    ("machine", "found", "what"),
    [
        (truth(), node({DONGLE: "1", SEATS: "5"}, {DONGLE: 1, SEATS: 5}), DONGLE),
        (truth(), node({DONGLE: "2", SEATS: "5"}, {DONGLE: 1, SEATS: 5}), DONGLE),
        (truth(), node({SEATS: "5"}, {SEATS: 5}, REFUSED), DONGLE),
        (truth(), node({DONGLE: "0", SEATS: "5"}, {DONGLE: 2, SEATS: 5}), DONGLE),
        (truth(), node({DONGLE: "2", SEATS: "5", SLOTS: "3"}, {DONGLE: 2, SEATS: 5, SLOTS: 3}), SLOTS),
        (truth(), node({DONGLE: "2", SEATS: "5", SLOTS: "3"}, {DONGLE: 2, SEATS: 5}), SLOTS),
        (truth(), node({DONGLE: "2", SEATS: "5"}, {DONGLE: 2, SEATS: 5}, UNKNOWN), "condition"),
        (truth(None), node({DONGLE: "2", SEATS: "3"}, {DONGLE: 2, SEATS: 3}, UNKNOWN), SEATS),
        (truth(None, {SEATS: "0"}), node({DONGLE: "2", SEATS: "0"}, {DONGLE: 2, SEATS: 5}, UNKNOWN), SEATS),
        (truth(None), node({DONGLE: "2", SEATS: "5"}, {DONGLE: 2, SEATS: 5}), "condition"),
        (truth(others={DONGLE: "9"}), node({DONGLE: "9", SEATS: "5"}, {DONGLE: 2, SEATS: 5}), DONGLE),
        (truth(others={DONGLE: "9"}), node({DONGLE: "9", SEATS: "5"}, {SEATS: 5}), "condition"),
        (truth(others={FOREIGN: "9"}), node({DONGLE: "2", SEATS: "5", FOREIGN: "0"}, {DONGLE: 2, SEATS: 5}), FOREIGN),
        (truth(others={FOREIGN: None}), node({DONGLE: "2", SEATS: "5", FOREIGN: "9"}, {DONGLE: 2, SEATS: 5}), FOREIGN),
        (truth(), node({DONGLE: "2", SEATS: "5"}, {DONGLE: 2, SEATS: 5, FOREIGN: 1}), "the annotation"),
    ],
)
def test_a_node_that_does_not_agree(machine: Truth, found: dict[str, Any], what: str) -> None:
    (only,) = disagreements(machine, found)
    assert only.startswith(what)


def test_the_figures() -> None:
    made: list[Step] = [SetDongles(0, 1), SetDongles(1, 2), RestartApiServer(kill=True)]
    requests = {("get nodes", 200): 5, ("patch nodes/status", 422): 1}
    found = Figures(2, made, requests, seconds=3.0, duration=60.4, peak=17 * 1024, converged=[1.0, 2.0, 9.0])
    assert found.lines() == [
        "Nodes: 2; changes of a Node: 2 in 60 s",
        "  API server restarted by SIGKILL: 1",
        "  dongles: 2",
        "requests: 6, 3.0 for each change",
        "  get nodes 200: 5",
        "  patch nodes/status 422: 1",
        "  conflicts: 0 with 409, 1 with 422",
        "CPU time: 3 s, 1500 ms for each change",
        "resident processes: at most 17.0 MiB",
        "from the last change of a Node until it agreed: median 2 s, at most 9 s",
    ]


def test_too_few_files_to_watch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "inotify_instances", lambda: 128)
    assert command.main(["--nodes", "200"]) == 1
    assert "sysctl fs.inotify.max_user_instances=400" in capsys.readouterr().err
