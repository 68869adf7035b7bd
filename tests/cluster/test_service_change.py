"""What the running service requests when the hardware changes, and when nothing does."""

from __future__ import annotations

import time

import pytest

from capacityd.model.reasons import PassReason
from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE
from tests.cluster.service import DONGLES, FIRST, GET, PUBLISHED, WROTE_FIRST, Service, service
from tests.support.machines import bare, merge, nic, usb_path


@pytest.mark.protocol
def test_plug_and_unplug(s: Service) -> None:
    s.start()
    assert s.requested() == [*FIRST, *WROTE_FIRST]
    s.machine.plug("1-2")
    s.wait_capacity("2")
    assert s.requested() == PUBLISHED
    s.machine.unplug("1-2")
    s.wait_capacity("1")
    assert s.requested() == [GET, *PUBLISHED], "one pass holds the reduction back, the next one publishes it"
    first, published, *changes = s.events()
    assert (first, published) == (
        "example.com/dongle: none → 1 (first published)",
        "all configured resources are published",
    )
    assert [event.partition(" (")[0] for event in changes] == ["example.com/dongle: 1 → 2", "example.com/dongle: 2 → 1"]
    assert all("(the reading changed)" in event for event in changes)


def test_what_does_not_concern_us_causes_no_request(s: Service) -> None:
    """The next resync is far away: by default there is one an hour."""
    marker = s.folder / "seats"
    marker.write_text("7")
    s.configure(DONGLES + f'[resources."example.com/seats"]\nfile = {{ path = "{marker}" }}\n')
    s.start()
    assert 0.8 * 3600 - PATIENCE < s.status()["next_reconcile"] - time.time() <= 1.2 * 3600
    s.requests()
    passes = s.passes()
    s.machine.plug("1-2", vendor="1234", events=False)
    s.machine.event("add", usb_path("1-2"), "usb", "usb_device")  # only one event, so that there is one pass
    s.wait_passes(1, passes)
    assert s.last_pass().reasons == (PassReason.DEVICES,), "its event was received, and it matches nothing"
    for number in range(50):
        s.machine.event("add", f"/sys/devices/virtual/block/loop{number}", "block", "disk")
        s.machine.event("add", f"/sys/devices/virtual/net/veth{number}", "net")
    new = s.folder / "seats.new"
    new.write_text("7\n")
    new.rename(marker)
    s.wait_passes(2, passes)
    assert s.last_pass().reasons == (PassReason.FILE,), "events of other subsystems are not received at all"
    assert s.requested() == []


def test_a_resync_is_one_request(s: Service) -> None:
    """It reads the Node. It also renews the heartbeat, but once a minute at most."""
    s.configure(resync="1s")
    began = time.monotonic()
    s.start()
    s.wait_passes(5)
    s.stop()
    assert s.passes() - 1 <= (time.monotonic() - began) / 0.8
    assert [request for request in s.requested() if request != GET] == [FIRST[0], *WROTE_FIRST]


def test_the_node_is_watched_over_one_connection(s: Service) -> None:
    s.start()
    s.machine.plug("1-2")
    s.wait_capacity("2")
    assert s.status()["watched_since"]
    s.stop()
    assert [r.name for r in s.requests() if r.verb == "watch"] == [s.node]


def test_udevd_starts_after_the_service(s: Service) -> None:
    """If libudev starts without udevd, it receives no events even later."""
    control = s.machine.tree / "run/udev/control"
    control.unlink()
    s.start()
    assert s.status()["event_source_errors"] == ["udev is not running: there are no device events"]
    passes = s.passes()
    s.machine.plug("1-2", events=False)
    control.touch()
    s.wait_capacity("2")
    s.wait_passes(1, passes)
    assert s.status()["event_source_errors"] == []
    s.machine.plug("1-3")
    s.wait_capacity("3")


def test_an_interface_is_renamed(cluster: Cluster) -> None:
    """The service receives no udev event of a rename, but an rtnetlink event."""
    with service(cluster, nic("eth7")) as s:
        s.machine.run("ip", "tuntap", "add", "eth7", "mode", "tap")
        s.configure('[resources."example.com/uplink"]\nnic = { name = "data*", kind = "virtual" }\n')
        s.start()
        assert s.capacity("example.com/uplink") is None
        s.machine.add(merge(bare(), nic("data0")))
        s.machine.run("ip", "link", "set", "eth7", "name", "data0")
        s.wait_capacity("1", "example.com/uplink")
