"""The extended resources that pods request. tests/cluster compares the result with the real scheduler's."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_capacityd.cluster.documents.pod_requests import node_and_requests, pod_requests

DONGLE, SEATS = "example.com/dongle", "example.com/seats"


def container(
    dongles: int | str, sidecar: bool = False, more: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """A container that requests dongles. more: further requests."""
    restart = {"restartPolicy": "Always"} if sidecar else {}
    return {"resources": {"requests": {DONGLE: str(dongles), "cpu": "1", **more}}, **restart}


@pytest.mark.parametrize(
    ("spec", "dongles"),
    [
        ({"containers": [container(2), container(1)]}, 3),
        ({"containers": [container("2k")]}, 2000),
        ({"containers": [container(1)], "overhead": {DONGLE: "2"}}, 3),
        ({"containers": [container(1)], "resources": {"requests": {"cpu": "4", DONGLE: "7"}}}, 1),  # of the whole pod
        ({"containers": [container("500m")]}, 0),  # no whole number
        ({"containers": [{}, {"resources": {"limits": {DONGLE: "1"}}}], "initContainers": None}, 0),
    ],
)
def test_a_pod_requests_the_most_that_it_needs_at_one_time(spec: dict[str, Any], dongles: int) -> None:
    assert pod_requests(spec) == ({DONGLE: dongles} if dongles else {})


def test_only_extended_resources_count() -> None:
    spec = {"containers": [container(1, more={"hugepages-2Mi": "4Mi", SEATS: "2"})]}
    assert pod_requests(spec) == {DONGLE: 1, SEATS: 2}


AMOUNTS = st.integers(0, 5)
INIT_CONTAINERS = st.lists(st.tuples(AMOUNTS, st.booleans()), max_size=5)  # requested dongles; whether it is a sidecar


@given(st.lists(AMOUNTS, max_size=4), INIT_CONTAINERS)
def test_no_moment_of_a_pod_needs_more_and_one_needs_all(containers: list[int], init: list[tuple[int, bool]]) -> None:
    """The moments: each init container with the sidecars before it, and then all containers with all sidecars."""
    spec = {
        "containers": [container(n) for n in containers],
        "initContainers": [container(n, sidecar) for n, sidecar in init],
    }
    moments, sidecars = [], 0
    for number, sidecar in init:
        moments.append(sidecars + number)
        sidecars += number if sidecar else 0
    moments.append(sidecars + sum(containers))
    assert pod_requests(spec).get(DONGLE, 0) == max(moments)


def test_damaged_pods_count_nothing() -> None:
    for pod in ({}, {"spec": None}, {"spec": {"containers": [{"resources": None}]}}):
        assert node_and_requests(pod) == ("", {})
