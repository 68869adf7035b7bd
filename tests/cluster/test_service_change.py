"""The hardware changes under the running service: what is written, when, and what is not."""

from __future__ import annotations

import time

import pytest

from capacityd.model.reading import Quantity
from capacityd.reconcile.timing import BURST
from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE
from tests.cluster.service import PROMPT, PUBLISHED, Service, service
from tests.support.machines import usb_device


@pytest.mark.protocol
def test_plug_and_unplug(s: Service) -> None:
    s.start()
    assert s.requested() == ["create selfsubjectreviews", *PUBLISHED]
    s.machine.plug("1-2")
    s.wait_capacity("2")
    assert s.requested() == PUBLISHED
    s.machine.unplug("1-2")
    s.wait_capacity("1")
    assert s.requested() == PUBLISHED
    assert [event.partition(" (")[0] for event in s.events()] == [
        f"example.com/dongle: {moved}" for moved in ("none → 1", "1 → 2", "2 → 1")
    ]
    assert all("(the reading changed)" in event for event in s.events()[1:])


def test_a_device_that_resets_causes_no_request(cluster: Cluster) -> None:
    with service(cluster, usb_device("1-1"), usb_device("1-2")) as s:
        s.configure(lower_after="")  # the default
        s.start()
        s.requests()
        s.machine.unplug("1-2")
        s.wait(lambda: s.held_back() == {DONGLE}, PROMPT, "what is lower is held back")
        s.machine.plug("1-2")
        s.wait(lambda: not s.held_back(), PROMPT, "nothing is held back any more")
        assert s.requested() == []
        assert s.capacity() == "2"
        began = time.monotonic()
        s.machine.unplug("1-2")
        s.wait_capacity("1")
        assert time.monotonic() - began > 10


def test_a_device_that_flaps(cluster: Cluster) -> None:
    with service(cluster, usb_device("1-1"), usb_device("1-2")) as s:
        s.configure(lower_after="3s")
        s.start()
        s.requests()
        for flap in range(100):
            (s.machine.plug if flap % 2 else s.machine.unplug)("1-2")
            pause_until(s, 0.1)
        s.machine.unplug("1-2")
        s.wait(lambda: settled_on(s, 1), PATIENCE, "one is left, and nothing is held back")
        assert s.requested().count("patch nodes/status") <= BURST
        assert (s.capacity(), s.last_applied()) == ("1", {DONGLE: 1})


def settled_on(s: Service, quantity: int) -> bool:
    """Whether the last pass has read this, and it is published."""
    last = s.last_pass()
    (reading,) = last.readings.values()
    return reading == Quantity(quantity) and s.published() == {DONGLE: quantity} and not s.held_back()


def pause_until(s: Service, seconds: float) -> None:
    """A pause is what this test is about; the service must not end in it."""
    end = time.monotonic() + seconds
    s.wait(lambda: time.monotonic() >= end, seconds + 5, "it still runs")
