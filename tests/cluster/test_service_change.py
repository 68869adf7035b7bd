"""What the running service does when the hardware changes, and when another writer changes its label."""

from __future__ import annotations

import json

import pytest

from capacityd.model.node import ANNOTATION
from capacityd.model.reasons import PassReason
from tests.cluster.admission import create_policy, delete_policy, removal_of, try_to_write
from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import DONGLES, PROMPT, Service, service
from tests.cluster.versions import MUTATING_POLICIES
from tests.support.machines import bare, merge, nic, usb_path

SEATS = "example.com/seats"


@pytest.mark.protocol
def test_plug_and_unplug(s: Service) -> None:
    s.start()
    s.machine.plug("1-2")
    s.wait_capacity("2")
    s.machine.unplug("1-2")
    s.wait_capacity("1")
    first, published, *changes = s.events()
    assert (first, published) == (
        "example.com/dongle: none → 1 (newly published)",
        "all configured resources are published",
    )
    assert [event.partition(" (")[0] for event in changes] == ["example.com/dongle: 1 → 2", "example.com/dongle: 2 → 1"]
    assert all("(the reading differs)" in event for event in changes)
    watches = [request.name for request in s.requests() if request.verb == "watch"]
    assert watches == [], "the watch that was opened first is still open"


def test_what_does_not_concern_us_causes_no_request(s: Service) -> None:
    """The kernel filters udev's events, and a device that does not match changes no reading."""
    marker = s.folder / "seats"
    marker.write_text("7")
    s.configure(DONGLES + f'[resources."{SEATS}"]\nfile = {{ path = "{marker}" }}\n')
    s.start()
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
    assert s.requests() == []


def test_udevd_starts_after_the_service(s: Service) -> None:
    """If libudev starts without udevd, it receives no events even later."""
    control = s.machine.tree / "run/udev/control"
    control.unlink()
    s.start()
    assert [problem["message"] for problem in s.status()["problems"]] == [
        "udev is not running: there are no device events"
    ]
    passes = s.passes()
    s.machine.plug("1-2", events=False)
    control.touch()
    s.wait_capacity("2")
    s.wait_passes(1, passes)
    assert s.status()["problems"] == []
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


@pytest.mark.protocol
def test_a_label_follows_the_number_and_is_restored(cluster: Cluster, s: Service) -> None:
    def label() -> str | None:
        value: str | None = cluster.node(s.node)["metadata"]["labels"].get(DONGLE)
        return value

    s.configure(f"{DONGLES}label = true\n")
    s.start()
    assert (s.capacity(), label()) == ("1", "1")
    s.machine.plug("1-2")
    s.wait_capacity("2")
    assert label() == "2"
    theirs = {"metadata": {"labels": {DONGLE: "7"}}}
    cluster.admin.patch(f"/api/v1/nodes/{s.node}", theirs)
    wait_until(lambda: label() == "2", PATIENCE, "the label is restored")
    s.configure(DONGLES)
    s.reload()
    wait_until(lambda: label() is None, PATIENCE, "the label is removed")
    assert json.loads(cluster.node(s.node)["metadata"]["annotations"][ANNOTATION]) == {DONGLE: 2}


@pytest.mark.protocol
@pytest.mark.since(MUTATING_POLICIES)
def test_a_policy_takes_a_resource_out_of_the_write(cluster: Cluster, s: Service) -> None:
    def stored() -> bool:
        """Whether dongles would be stored, by a dry run, so that the service does not see them."""
        return DONGLE in try_to_write(cluster, s.node, {"capacity": {DONGLE: "9"}})["capacity"]

    s.configure(DONGLES + f'[resources."{SEATS}"]\nstatic = {{ quantity = 1000 }}\n')
    policy = f"no-dongles-{s.node}"
    written = f"object.metadata.name == '{s.node}' && '{DONGLE}' in object.status.capacity"
    create_policy(cluster, policy, written, removal_of("capacity", DONGLE))
    wait_until(lambda: not stored(), PATIENCE, "the API server has noticed the policy")
    s.start()
    reason = "the API server accepted 1 but stored none (allocatable 1); does an admission webhook or policy change it?"
    assert (s.capacity(SEATS), s.capacity()) == ("1k", None), "the others are published"
    assert s.condition()["message"] == f"denied: {DONGLE}: {reason}"
    assert (s.condition()["status"], s.condition()["reason"]) == ("False", "Denied")
    delete_policy(cluster, policy)
    wait_until(stored, PATIENCE, "the policy is gone")
    s.reload()
    assert s.capacity() == "1"
    s.wait(lambda: s.condition()["status"] == "True", PROMPT, "the condition is True")
