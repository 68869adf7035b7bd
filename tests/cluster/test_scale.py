"""A small run of `python -m tests.cluster.scale`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

import pytest

from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.scale.run import Scenario, run
from tests.cluster.scale.steps import FOREIGN, OURS, OfNode, RestartApiServer, RestartService, WriteOther, draw

SEED, STEPS = 3823, 40


@pytest.fixture
def restarted(binaries: Mapping[str, Path]) -> Iterator[Cluster]:
    """A separate control plane, because tests can't share an API server that restarts."""
    with control_plane(binaries=binaries) as cluster:
        yield cluster


def test_four_nodes_agree_after_random_changes(restarted: Cluster) -> None:
    """The steps are of every kind, so this run covers the code of the long run."""
    made = draw(SEED, 4, STEPS)
    assert {type(step) for step in made} == {*get_args(OfNode), RestartApiServer}
    assert {step.kill for step in made if isinstance(step, RestartApiServer)} == {True, False}
    assert len({(s.kill, s.reboot) for s in made if isinstance(s, RestartService)}) == 4
    assert {step.name for step in made if isinstance(step, WriteOther)} == {*OURS, FOREIGN}
    lines: list[str] = []
    run(restarted, Scenario(nodes=4, steps=STEPS, seed=SEED), lines.append)
    assert lines[-1] == "after the services have ended: every Node agrees"
