"""Other writers at random moments of thirty passes. `python -m tests.cluster.interleavings` makes 1,000 passes."""

from __future__ import annotations

import pytest

from tests.cluster.controlplane import Cluster
from tests.cluster.interleavings import run

pytestmark = pytest.mark.protocol


def test_another_writer_comes_before_the_patch(cluster: Cluster) -> None:
    counts = run(cluster, 30, seed=1)
    assert counts["passes"] == 30
    assert counts["PATCHes"] > 10
