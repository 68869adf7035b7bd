"""Fixtures for the control plane, whose programs are built at first use (binaries.py, releases.py).

--kubernetes and --kubelet choose versions (default: the pinned version). A test marked since(FEATURE) runs only on
versions that have the feature (tests/cluster/versions.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from inspect import signature
from pathlib import Path

import pytest

from tests.cluster.binaries import pinned
from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.kubelet import Kubelet
from tests.cluster.kubelet import kubelet as kubelet_of
from tests.cluster.proxy import Proxy, fault_proxy
from tests.cluster.releases import programs, release
from tests.cluster.service import Service, service_on_machine
from tests.cluster.versions import has_feature
from tests.support.machines import usb_device

# The fixtures of tests that run a kubelet. The tests of documentation pages use binaries.
_WITH_KUBELET = {"kubelet", "binaries"}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("Kubernetes")
    group.addoption("--kubernetes", metavar="VERSION", help="of the control plane and kubelet, such as 1.30")
    group.addoption("--kubelet", metavar="VERSION", help="of the kubelet, if it is another one")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects tests that do not fit the version. With --kubelet, also deselects tests that run no kubelet."""
    version = _version(config)
    skewed = config.getoption("kubelet", default=None) is not None
    selected: list[pytest.Item] = []
    deselected: list[pytest.Item] = []
    for item in items:
        has_features = all(has_feature(version, mark.args[0]) for mark in item.iter_markers("since"))
        runs_kubelet = not _WITH_KUBELET.isdisjoint(_arguments(item))
        fits = has_features and (runs_kubelet or not skewed)
        (selected if fits else deselected).append(item)
    config.hook.pytest_deselected(items=deselected)
    items[:] = selected


def _arguments(item: pytest.Item) -> Collection[str]:
    return signature(item.function).parameters if isinstance(item, pytest.Function) else ()


@pytest.fixture(scope="session")
def kubernetes(pytestconfig: pytest.Config) -> str:
    """The version of the control plane, such as 1.36.3."""
    return _version(pytestconfig)


@pytest.fixture(scope="session")
def binaries(pytestconfig: pytest.Config) -> Mapping[str, Path]:
    """The programs of the control plane and the node."""
    kubelet = pytestconfig.getoption("kubelet", default=None)
    return programs(_version(pytestconfig), release(kubelet) if kubelet else None)


def _version(config: pytest.Config) -> str:
    name = config.getoption("kubernetes", default=None)
    return release(name) if name else pinned()


@pytest.fixture(scope="session")
def cluster(binaries: Mapping[str, Path]) -> Iterator[Cluster]:
    """One control plane for all tests. Each test uses its own Node."""
    with control_plane(binaries=binaries) as running:
        yield running


@pytest.fixture
def node(cluster: Cluster) -> str:
    """The name of a new Node without a kubelet."""
    return cluster.create_node()


@pytest.fixture
def kubelet(cluster: Cluster) -> Iterator[Kubelet]:
    """A kubelet with its own Node, not started yet."""
    with kubelet_of(cluster) as kubelet:
        yield kubelet


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    """A proxy to the API server, in which a test can stop or delay a PATCH."""
    with fault_proxy(cluster) as running:
        yield running


@pytest.fixture
def service(cluster: Cluster) -> Iterator[Service]:
    """The service on a machine with one device, not started yet. Its Node has no kubelet."""
    with service_on_machine(cluster, usb_device("1-1")) as new_service:
        yield new_service
