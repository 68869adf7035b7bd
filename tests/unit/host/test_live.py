"""The live host on a made-up machine: real files, links and a udev database, mounted over this machine's /sys."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import pyudev

from capacityd.host.live import LiveHost
from capacityd.model.errors import HostError
from tests.support.forked import can_be_alone, run_alone
from tests.support.machines import (
    Recording,
    bare,
    disk,
    files,
    merge,
    nvme,
    pci_function,
    pci_nic,
    pci_path,
    stacked,
    usb_device,
    usb_hub,
    usb_nic,
    usb_path,
    usb_root,
    virtio_nic,
    write_tree,
)
from tests.support.trees import UNPRIVILEGED
from tests.unit.discovery.test_unreadable import WORLD

# Prints the readings of a recording, of this machine, and of a recording of this machine.
READINGS = """
import json, sys
from capacityd.detectors import load_detector
from capacityd.model.errors import HostError
from capacityd.host.live import LiveHost
from capacityd.host.recording.recorder import Recorder
from capacityd.host.recording.replay import RecordedHost
from capacityd.discovery.reader import value_of

ON_SYS = ("usb", "pci", "nic", "disk")
PROPERTIES = ("properties.ID_TEST", "properties.DEVNAME")

def readings(host, names):
    values = {}
    for name in names:
        detector = load_detector(name)
        for device in detector.find(host):
            for key in (*detector.keys, "attributes.uevent", "attributes.dev", *PROPERTIES):
                if key == "size" and device.cached_values.get("kind", "local") != "local":
                    continue  # the size of a remote file system is never read
                values[f"{name} {device.name} {key}"] = answer(lambda: value_of(host, detector, device, key))
            if device.path.startswith("/sys/"):
                known = answer(lambda: host.properties(device.path).get("ID_TEST"))
                assert known == values[f"{name} {device.name} properties.ID_TEST"]
    return values

def answer(ask):
    try:
        return ask()
    except HostError as e:
        return [e.errno, str(e)]

with open(sys.argv[1]) as f:
    made = RecordedHost(json.load(f))
recording = Recorder(LiveHost()).run()
replayed = RecordedHost(json.loads(json.dumps(recording)))
everything = (*ON_SYS, "filesystem", "address", "cpu", "memory")
assert Recorder(replayed).run() == recording
print(json.dumps([readings(made, ON_SYS), readings(LiveHost(), everything), readings(replayed, everything)]))
"""
MOUNTING = 'mount --rbind "$1/sys" /sys; mkdir -p /run/udev; mount --bind "$1/run/udev" /run/udev; shift'


def readings(recording: Recording, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The readings of a made-up machine: from its recording, and from the live host with its /sys and udev data.

    A recording of the live host must give the same readings as the live host.
    """
    write_tree(recording, str(folder))
    (folder / "recording.json").write_text(json.dumps(recording))
    output = run_alone(MOUNTING, READINGS, str(folder), str(folder / "recording.json"))
    made, live, replayed = json.loads(output)
    assert replayed == live
    return made, live


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_a_recorded_machine_reads_as_a_real_one(tmp_path: Path) -> None:
    """The live host reads the same machine from real files and links in /sys, and udev's properties from libudev."""
    at = "/sys/devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0"
    hostile = {"ID_TEST": "caf\udce9 \x1b[31m \u202e"}
    udev = {"ID_SERIAL_SHORT": "S3Z", "ID_WWN": "0x5", "ID_TEST": "x"}
    recording = merge(
        bare(),
        usb_root(1),
        usb_hub("1-1"),
        usb_device("1-1.2", serial="caf\udce9\x1b", number=3, properties=hostile),
        usb_device("1-3", serial=None, number=4),
        usb_nic("enx0", "1-2", number=7, properties={"ID_TEST": "net"}),
        pci_function(attributes={"boot_vga": "1\n"}, vfs=(8, 1)),
        pci_function("0000:3b:00.1", physfn="0000:3b:00.0", driver=None),
        pci_nic("eth0", speed="-1"),
        virtio_nic("eth1", number=3),
        virtio_nic("e\x1b\udcff", "0000:00:04.0", number=9, properties={"ID_TEST": "named"}),
        disk("sda", at, partitions=["sda1"], of_device={"model": "X" * 16, "vendor": "ATA"}, properties=udev),
        nvme(partitions=["nvme0n1p1"], properties={"ID_TEST": "nvme"}),
        stacked("dm-0", ["sda1"], dm=("root", "LVM-x")),
        files({"/sys/class/net/bonding_masters": "\n"}),
    )
    # udev has processed every device with a node or an ifindex. libudev adds properties to those that the rules set.
    for path, text in recording["files"].items():
        if path.endswith("/uevent") and ("MAJOR=" in text or "IFINDEX=" in text):
            recording["properties"].setdefault(path.removesuffix("/uevent"), {})
    recorded, live = readings(recording, tmp_path)
    not_from_sys = ("max_speed", "system", "properties.DEVNAME")  # but from the kernel, /proc or libudev
    alike = {name: value for name, value in recorded.items() if name.split()[-1] not in not_from_sys}
    assert alike == {name: live[name] for name in alike}
    assert live["usb 1-1.2 serial"] == r"caf\xe9\x1b"
    assert live["usb 1-1.2 properties.ID_TEST"] == r"caf\xe9 \x1b[31m \u202e"
    assert live["disk sda serial"] == "S3Z"
    assert live["nic enx0 vendor"] == "0bda"
    assert live[r"nic e\x1b\xff properties.ID_TEST"] == "named"
    assert len({name.split()[1] for name in alike}) == 15  # devices


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_a_device_that_udev_has_not_processed_has_unknown_properties(tmp_path: Path) -> None:
    in_sys = {path: text for path, text in WORLD["files"].items() if path.startswith("/sys/")}
    in_sys[f"{usb_path('1-1.1')}/dev"] = "189:1\n"
    _, live = readings({"files": in_sys, "links": WORLD["links"]}, tmp_path)
    for name in ("usb 1-1.1", "nic eth0", "disk sda"):
        assert "udev has not processed" in str(live[f"{name} properties.ID_TEST"])
    assert live["usb 1-1.1 serial"] == "A17"


# Makes a path unreadable. Prints a property of each device, as the machine and as its recording have it.
PROPERTY = """
import json, os, sys
from contextlib import nullcontext
from capacityd.host.live import LiveHost
from capacityd.host.recording.recorder import Recorder
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.errors import HostError
from tests.support.trees import unreadable

def answer(host, device):
    try:
        return host.property(device, "ID_TEST")
    except HostError as e:
        return f"unknown: {e}"

_, path, fault, *devices = sys.argv
with unreadable(path, fault) if fault != "ENOENT" else nullcontext():
    if fault == "ENOENT":
        os.rename(path, f"{path}-gone")
    hosts = LiveHost(), RecordedHost(Recorder(LiveHost()).run())
    print(json.dumps([[answer(host, device) for device in devices] for host in hosts]))
"""
SDA = "/sys/devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda"
UNREADABLE = "unknown: /sys/block/sda/uevent could not be read"
NOT_PROCESSED = "unknown: udev has not processed the device yet"
ENTRY_UNREADABLE = "unknown: udev's entry for the device could not be read"


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
@pytest.mark.parametrize(
    ("path", "fault", "answers"),  # answers: how the property begins of a disk, and of two PCI functions
    [
        (f"{SDA}/uevent", "EIO", (UNREADABLE, "pci", None)),
        (f"{SDA}/uevent", "EACCES", (UNREADABLE, "pci", None)),
        (f"{SDA}/uevent", "ENOENT", ("unknown: udev does not know the device", "pci", None)),
        (f"{SDA}/uevent", "empty", (NOT_PROCESSED, "pci", None)),  # as after an interrupted read
        ("/run/udev/data/b8:0", "EACCES", (NOT_PROCESSED, "pci", None)),
        ("/run/udev/data/+pci:0000:3b:00.0", "EACCES", ("disk", ENTRY_UNREADABLE, None)),
        ("/run/udev/data", "EACCES", (NOT_PROCESSED, "unknown", "unknown")),
        ("/run/udev/data", "ENOENT", (NOT_PROCESSED, "unknown", "unknown")),  # in a container
    ],
)
def test_a_property_that_cannot_be_read_is_unknown(
    tmp_path: Path, path: str, fault: str, answers: tuple[str | None, ...]
) -> None:
    """The second PCI function lacks the property."""
    functions = ["0000:3b:00.0", "0000:3b:00.1"]
    known = {SDA: {"ID_TEST": "disk"}, pci_path(functions[0]): {"ID_TEST": "pci"}}
    parent = SDA.removesuffix("/block/sda")
    world = merge(bare(), disk("sda", parent), *map(pci_function, functions), {"properties": known})
    write_tree(world, str(tmp_path))
    if fault == "empty":
        (tmp_path / path[1:]).write_text("")
        path, fault = "/sys/block/sda/queue/rotational", "EIO"  # makes only this other file unreadable
    mounting = f'{MOUNTING}; exec {UNPRIVILEGED} "$PYTHON" -c "$PROGRAM" "$@"'
    devices = ["/sys/block/sda", *map(pci_path, functions)]
    live, replayed = json.loads(run_alone(mounting, PROPERTY, str(tmp_path), path, fault, *devices))
    for got, recorded, wanted in zip(live, replayed, answers, strict=True):
        assert got == wanted or got.startswith(wanted)
        assert str(got).startswith("unknown") == str(recorded).startswith("unknown")


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_without_sysfs_the_devices_of_this_machine_are_unknown() -> None:
    program = "from capacityd.host.live import LiveHost; LiveHost().listdir('/sys/block')"
    with pytest.raises(AssertionError, match="HostError: /sys/block does not exist"):
        run_alone("mount -t tmpfs none /sys", program)


def test_one_context_serves_all_properties_of_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each context loads libudev anew. With a context for each of 10,000 devices, a detector exceeded 512 MiB."""
    context = MagicMock(side_effect=pyudev.Context)
    monkeypatch.setattr(pyudev, "Context", context)
    host = LiveHost()
    for name in ("null", "zero"):
        with suppress(HostError):  # udev need not run here
            host.properties(f"/sys/class/mem/{name}")
    context.assert_called_once_with()


def test_an_attribute_that_changes_while_it_is_read_has_one_of_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second read() continues at the offset, but in the new value. "clear" must not get the end of "inactive"."""
    values = iter([b"clear\n", b"inactive\n"])
    offsets: dict[int, int] = {}

    def read(fd: int, _: int) -> bytes:
        piece = next(values)[offsets.get(fd, 0) :]
        offsets[fd] = offsets.get(fd, 0) + len(piece)
        return piece

    path = "/sys/kernel/uevent_seqnum"  # any attribute
    monkeypatch.setattr(os, "read", read)
    text = LiveHost().text(path)
    monkeypatch.undo()
    assert text == "clear"
