"""Kills ten passes around their PATCH. `python -m tests.cluster.kills` kills 500."""

from __future__ import annotations

import pytest

from tests.cluster.controlplane import Cluster
from tests.cluster.kills import run
from tests.cluster.proxy import Proxy

pytestmark = pytest.mark.protocol


def test_a_pass_is_killed_around_its_patch(cluster: Cluster, proxy: Proxy) -> None:
    assert run(cluster, proxy, 10, seed=1).total() == 10
