"""If a path cannot be read, a reading stays the same or becomes unknown. Its quantity never becomes smaller."""

from __future__ import annotations

import pytest

from capacityd.discovery.reader import read_resource
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.reading import Quantity, Unknown
from capacityd.schema.config import Resource
from capacityd.schema.matchers import GlobMatcher, KeyMatcher
from tests.support.machines import (
    bare,
    disk,
    merge,
    mounts,
    nic,
    nvme,
    pci_function,
    pci_nic,
    routes,
    stacked,
    usb_device,
    usb_hub,
    usb_nic,
    usb_path,
    virtio_nic,
)
from tests.support.readings import outcome, resource, values

ATA = "/sys/devices/pci0000:00/0000:00:17.0/ata{0}/host{0}/target{0}:0:0/{0}:0:0:0"
SAS = "/sys/devices/pci0000:3c/0000:3c:00.0/host0/port-0:{0}/end_device-0:{0}/target0:0:{0}/0:0:{0}:0"
WORLD = merge(
    bare(),
    usb_hub("1-1"),
    usb_device("1-1.1"),
    usb_device("1-1.2", serial="B03", number=3),
    usb_nic("enx0", "1-2", link_speeds=[10**9]),
    pci_function("0000:3b:00.0", vfs=(8, 2)),
    pci_function("0000:3b:00.1", physfn="0000:3b:00.0"),
    pci_nic("eth0", "0000:01:00.0", speed="10000", master="bond0"),
    pci_nic("eth1", "0000:01:00.1", speed="10000", master="bond0"),
    pci_nic("eth2", "0000:02:00.0", attributes={"phys_port_name": "p0\n"}),
    pci_nic("eth4", "0000:02:00.1", attributes={"dsa/tagging": "edsa\n"}),
    virtio_nic("eth3", speed="1000"),
    nic("bond0", bond=("802.3ad", ["eth0", "eth1"])),
    routes("bond0"),
    disk("sda", ATA.format(1), number="8:0", partitions=["sda1", "sda2"], of_device={"wwid": "naa.1"}),
    disk("sdb", SAS.format(2), 0, number="8:16", of_device={"wwid": "naa.2"}, properties={"ID_SERIAL_SHORT": "S2"}),
    disk("sdc", SAS.format(3), number="8:32", of_device={"wwid": "naa.2"}, properties={"ID_SERIAL_SHORT": "S2"}),
    disk("sdd", "/sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host9", 0, number="8:48", removable=True),
    nvme("nvme0n1", at="/sys/devices/virtual/nvme-subsystem/nvme-subsys0", wwid="eui.1"),
    nvme("nvme0c0n1", at="/sys/devices/pci0000:5e/0000:5e:00.0/nvme/nvme0", wwid="eui.1", of_disk={"hidden": 1}),
    stacked("dm-0", ["sda2"], dm=("vg-root", "LVM-x")),
    mounts(
        ("/", "253:0", "ext4", "/dev/mapper/vg-root"),
        ("/boot", "8:1", "ext4", "/dev/sda1"),
        ("/efi", "0:40", "autofs", "systemd-1"),
    ),
    {"files": {"/run/systemd/generator.late/efi.automount": "[Automount]\n"}},
    {"files": {"/sys/class/net/bonding_masters": "bond0\n", "/sys/class/dmi/id/product_name": "R750\n"}},
)
"""A machine with devices of every kind."""

GIB, MBITS = "GiB", "Mbit/s"
RESOURCES = [
    resource("usb", {}),
    resource("usb", {"vendor": "0403", "serial": "*"}, {"class": "ff", "driver": "r8152"}, excepts=({"serial": "B*"},)),
    resource("usb", {"hub": True}),
    resource("usb", {}, when=(KeyMatcher("dmi.product_name", (GlobMatcher("R7*"),), "R7*"),)),
    resource("pci", {"class": ["03", "02"]}, excepts=({"attributes.boot_vga": "1"},)),
    resource("pci", {"vf": True}),
    resource("pci", {}, measure="sriov_totalvfs"),
    resource("pci", {"driver": "nvidia", "subsystem_vendor": "10de"}, measure="sriov_numvfs", reduce="max"),
    resource("nic", {}),
    resource("nic", {"system": False, "link": "up"}),
    resource("nic", {"bus": ["pci", "usb"], "system": False}, measure="max_speed", unit=MBITS),
    resource("nic", {"kind": "bond"}, measure="max_speed", unit=MBITS, slots=2),
    resource("nic", {"vendor": ["8086", "1af4"], "driver": "*"}, measure="speed", unit=MBITS, reduce="min"),
    resource("disk", {}),
    resource("disk", {"system": False, "size": ">=100GB"}, measure="size", unit=GIB),
    resource("disk", {"type": ["nvme", "ssd"], "transport": ["nvme", "sata"]}, {"removable": True}),
    resource("udev", {"subsystem": ["net", "usb"]}, excepts=({"name": "lo"},)),
    resource("udev", {"subsystem": "block", "devtype": "disk", "node": "/dev/sd*"}, measure="attributes.size"),
    resource("disk", {"wwn": ["0x2", "eui.1"]}, {"serial": "S2"}, excepts=({"model": "X*"},)),
]


class Places(dict[str, str]):
    """The errors of a recording. It notes in `asked` the paths for which the host has looked for an error."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()

    def __contains__(self, place: object) -> bool:
        self.asked.add(str(place))
        return super().__contains__(place)


@pytest.mark.slow
@pytest.mark.parametrize("wanted", RESOURCES, ids=range(len(RESOURCES)))
def test_one_unreadable_path_never_makes_a_quantity_smaller_or_absent(wanted: Resource) -> None:
    """Each file, link and folder that the detector reads is made unreadable once, alone."""
    host, errors = RecordedHost(WORLD), Places()
    host._errors = errors
    whole = read_resource(wanted, host, "node")
    assert isinstance(whole, Quantity)
    assert whole.value > 0
    outcomes = {}
    for place in sorted(errors.asked):
        for error in ("EACCES", "EIO"):
            errors.clear()
            errors[place] = error
            reading = read_resource(wanted, host, "node")
            assert outcome(reading) in (whole.value, "unknown"), (place, reading)
            outcomes[place] = reading
    assert any(isinstance(reading, Unknown) for reading in outcomes.values())


GPU, ETH0 = "/sys/devices/pci0000:3b/0000:3b:00.0", "/sys/devices/pci0000:01/0000:01:00.0"


@pytest.mark.parametrize(
    ("detector", "key", "link"),
    [
        ("usb", "driver", f"{usb_path('1-1.1')}/1-1.1:1.0/driver"),
        ("pci", "driver", f"{GPU}/driver"),
        ("pci", "vf", f"{GPU}/physfn"),
        ("nic", "driver", f"{ETH0}/driver"),
        ("nic", "driver", f"{ETH0}/net/eth0/device"),
        ("nic", "kind", f"{ETH0}/physfn"),
        ("nic", "bus", f"{ETH0}/subsystem"),
        ("nic", "bus", f"{ETH0}/net/eth0/device"),
        ("nic", "kind", f"{ETH0}/net/eth0/master"),
        ("nic", "kind", f"{ETH0}/net/eth0/phy80211"),
        *(("disk", key, f"{ATA.format(1)}/block/sda/device") for key in ("model", "vendor", "serial", "wwn")),
        ("disk", "transport", "/sys/devices/vbd-768/subsystem"),
        ("disk", "transport", "/sys/class/scsi_host/host1"),
        ("udev", "driver", f"{GPU}/driver"),
    ],
)
def test_a_link_to_nowhere_is_unknown_and_not_missing(detector: str, key: str, link: str) -> None:
    host = RecordedHost(merge(WORLD, disk("xvda", "/sys/devices/vbd-768", bus="xen"), {"links": {link: "../gone"}}))
    unknown = [text for text in values(host, detector, key).values() if str(text).startswith("unknown: ")]
    assert len(unknown) == 1
    assert str(unknown[0]).endswith(f"/{link.rpartition('/')[2]} is a dangling link")


def test_a_machine_whose_dmi_folder_is_a_link_to_nowhere_may_be_any() -> None:
    wanted = resource("usb", {}, when=(KeyMatcher("dmi.product_name", (GlobMatcher("R7*"),), "R7*"),))
    texts = {path: text for path, text in WORLD["files"].items() if "/dmi/" not in path}
    without = {**WORLD, "files": texts}
    assert outcome(read_resource(wanted, RecordedHost(without), "node")) == "absent"
    gone = merge(without, {"links": {"/sys/class/dmi/id": "../../devices/gone"}})
    assert outcome(read_resource(wanted, RecordedHost(gone), "node")) == "unknown"
