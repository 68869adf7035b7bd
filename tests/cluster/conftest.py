"""The control plane as fixtures; its programs are built at first use (binaries.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.kubelet import Kubelet
from tests.cluster.kubelet import kubelet as kubelet_of
from tests.cluster.proxy import Proxy, fault_proxy


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """One for all tests: each takes a Node of its own."""
    with control_plane() as running:
        yield running


@pytest.fixture
def node(cluster: Cluster) -> str:
    """The name of a new Node without a kubelet."""
    return cluster.create_node()


@pytest.fixture
def kubelet(cluster: Cluster) -> Iterator[Kubelet]:
    """A kubelet on a Node of its own, not started yet."""
    with kubelet_of(cluster) as kubelet:
        yield kubelet


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    """A way to the API server on which faults can be put."""
    with fault_proxy(cluster) as running:
        yield running
