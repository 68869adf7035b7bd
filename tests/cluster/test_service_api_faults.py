"""What goes wrong between the running service and the API server: it says so once, and gets over it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count, pairwise

import pytest

from tests.cluster import faults
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import Authority
from tests.cluster.faults import Action
from tests.cluster.processes import PATIENCE
from tests.cluster.proxy import Proxy, fault_proxy
from tests.cluster.service import SLACK, Service, service
from tests.unit.machines import usb_device

GET, PATCH = "GET", "PATCH"
SECONDS = 4.0  # at most between two attempts in the first two minutes
_numbers = count()


def refusal(code: int, headers: dict[str, str] | None = None, **more: object) -> Action:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "code": code, **more}
    return faults.status(code, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})})


FAULTS = {
    "reset": (GET, faults.reset(), "closed the connection"),
    "reset-before-write": (PATCH, faults.reset(), "closed the connection"),
    "reset-after-write": (PATCH, faults.reset(carried_out=True), "closed the connection"),
    "half-an-answer": (GET, faults.half_answer(), "only a part of it"),
    "half-an-answer-to-write": (PATCH, faults.half_answer(), "only a part of it"),
    "stalled": (GET, faults.stall(), "took too long"),
    "garbage": (GET, faults.garbage(), "no whole answer: \\x16"),
    "not-json": (GET, faults.status(200, b"<html>"), "it is not JSON"),
    "401": (GET, refusal(401), "were not accepted"),
    "403": (GET, refusal(403), "may not get"),
    "403-to-write": (PATCH, refusal(403), "may not patch"),
    "404": (GET, refusal(404, details={"kind": "nodes"}), "has the kubelet registered?"),
    "409": (PATCH, refusal(409), ""),
    "422": (PATCH, refusal(422), ""),
    "429": (GET, refusal(429, {"Retry-After": "2"}), "not now (429)"),
    "500": (GET, refusal(500), "not now (500)"),
    "503": (PATCH, refusal(503), "not now (503)"),
}


@pytest.fixture(scope="module")
def behind(cluster: Cluster) -> Iterator[tuple[Service, Proxy]]:
    """A service behind a proxy, with a resource for each test, because one that keeps changing is held back."""
    with fault_proxy(cluster) as proxy, service(cluster) as s:
        s.configure("".join(f'[resources."{name(n)}"]\nusb = {{ serial = "S{n}" }}\n' for n in range(len(FAULTS) + 2)))
        s.reach(proxy.url)
        s.join(proxy.url)
        s.start()
        yield s, proxy


def name(number: int) -> str:
    return f"example.com/r{number}"


def plug(s: Service) -> str:
    """Plugs in a device that has a resource of its own; the resource's name."""
    number = next(_numbers)
    s.machine.plug(f"{1 + number // 8}-{1 + number % 8}", serial=f"S{number}")
    return name(number)


@pytest.mark.parametrize("fault", FAULTS)
def test_one_that_ends(behind: tuple[Service, Proxy], fault: str) -> None:
    s, proxy = behind
    method, action, trouble = FAULTS[fault]
    said = len(s.log())
    times = 2 if fault in ("reset", "403") else 1
    met = proxy.fault(action, method, "/api/v1/nodes/*", times=times)
    resource = plug(s)
    try:
        s.wait_capacity("1", 28 if fault == "stalled" else 15, resource)
        assert len(met.met) == times
        s.wait(lambda: trouble in s.log()[said:], SLACK, "it says what is wrong")
        s.wait(lambda: not trouble or "all is well again" in s.log()[said:], PATIENCE, "there is no trouble left")
        assert not trouble or s.log().count(trouble, said) == 1, "it is said once"
        told = [f"{resource}: none → 1 (found)"]
        s.wait(lambda: [event for event in s.events() if resource in event] == told, SLACK, "one Event tells of it")
    finally:
        proxy.faults.clear()


def test_refused(behind: tuple[Service, Proxy]) -> None:
    """It tries again in pauses that grow and differ."""
    s, proxy = behind
    s.unreach(proxy.url)
    looks = s.looks()
    resource = plug(s)
    s.wait_looks(4, looks)
    moments = s.told("STATUS=")[-4:]
    assert all(later.since(earlier) < SECONDS + SLACK for earlier, later in pairwise(moments))
    assert len({round(later.at - earlier.at, 3) for earlier, later in pairwise(moments)}) > 1
    assert s.log().count("refuses the connection") == 1
    assert "refuses the connection" in s.status()["trouble"]
    s.reach(proxy.url)
    s.wait_capacity("1", SECONDS + SLACK, resource)


def test_the_event_can_not_be_written(behind: tuple[Service, Proxy]) -> None:
    s, proxy = behind
    proxy.fault(refusal(500), "POST", "*/events")
    s.wait_capacity("1", 3 + SLACK, plug(s))
    s.wait(lambda: "the Event could not be written" in s.log(), SLACK, "it says so")
    assert not s.seen()["trouble"]


def test_another_authority(cluster: Cluster) -> None:
    stranger = Authority.create(cluster.folder / "stranger")
    with fault_proxy(cluster, stranger) as proxy, service(cluster, usb_device("1-1")) as s:
        s.reach(proxy.url)
        s.join(proxy.url, ca_file=cluster.ca_file)
        s.start()
        assert "another authority" in s.seen()["trouble"]
        s.join()
        s.wait_capacity("1", 5 + SLACK)


def test_credentials_are_read_anew(cluster: Cluster) -> None:
    with service(cluster, usb_device("1-1")) as s:
        s.join(token="revoked")
        s.start()
        assert "were not accepted" in s.seen()["trouble"]
        s.join()
        s.wait_capacity("1", 5 + SLACK)
        s.join(token="revoked again")
        s.machine.plug("1-2")
        s.wait(lambda: "were not accepted" in s.seen()["trouble"], 5 + SLACK, "it says so")
        s.join()
        s.wait_capacity("2", 5 + SLACK)
