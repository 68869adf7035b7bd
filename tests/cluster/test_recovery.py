"""Some of the shortest histories of each kind on the real API server. tests.cluster.histories runs 20 of each kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.controlplane import Cluster
from tests.cluster.histories import run
from tests.cluster.real_machine import RealMachine, real_machine
from tests.support.shortest import KINDS, histories

pytestmark = pytest.mark.protocol


@pytest.fixture(scope="module")
def machine(cluster: Cluster) -> Iterator[RealMachine]:
    with real_machine(cluster) as machine:
        yield machine


@pytest.mark.parametrize("kind", KINDS)
def test_the_shortest_histories_end_right(machine: RealMachine, kind: str) -> None:
    result = run(machine, kind, histories(kind)[:20:7])
    assert result.histories == 3
    assert result.wrong == []
