"""A small run of `python -m tests.cluster.scale`, and what it compares the Nodes with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.scale.run import Scenario, run
from tests.cluster.scale.steps import (
    DONGLE,
    FOREIGN,
    OURS,
    SEATS,
    SLOTS,
    OfNode,
    RestartApiServer,
    RestartService,
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
    figures = run(restarted, Scenario(nodes=4, steps=STEPS, seed=SEED), lines.append)
    assert lines[-1] == "after the services have ended: every Node agrees"
    assert figures.requests["patch nodes/status", 200] >= 4
    assert figures.seconds > 1
    assert figures.peak > 10_000
    assert len(figures.converged) == 4


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


UNKNOWN = ("False", "Unknown", f"unknown: {SEATS}: {SEATS} can't be read")
REFUSED = ("False", "Refused", f"refused: {DONGLE}: not ours; adopt = true takes it over")


@pytest.mark.parametrize(
    ("machine", "node", "what"),
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
def test_a_node_that_does_not_agree(machine: Truth, node: dict[str, Any], what: str) -> None:
    (only,) = disagreements(machine, node)
    assert only.startswith(what)
