"""A recording contains no identifier of the machine. All other content is unchanged."""

from __future__ import annotations

import json
import re
import string
from ipaddress import ip_interface
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.host.recording.numbering import Numbering, plain
from capacityd.host.recording.privacy import SHAPES, Privacy, without_identifiers
from capacityd.host.recording.recorder import Recorder
from capacityd.host.recording.replay import RecordedHost
from tests import ROOT
from tests.support.machines import bare, disk, files, merge, mounts, nic, nvme, pci_nic, stacked, usb_device, usb_path
from tests.support.text import squeezed
from tests.unit.discovery.test_unreadable import WORLD

# The planted identifiers.
SERIAL, NVME_SERIAL, DMI_SERIAL = "FT4XQ2Z8", "S64FNE0R500123", "CZ20340ABC"
MAC, BOND_MAC, IB = (
    "3c:fd:fe:9b:31:d4",
    "3c:fd:fe:9b:31:d5",
    "80:00:02:08:fe:80:00:00:00:00:00:00:e4:1d:2d:03:00:7b:a2:f1",
)
WWN, EUI, MPATH = "5000c500a1b2c3d4", "0025385b71b00c1d", "3600508b1001c4d2ea3f7c8b9d0e1f2a3"
UUID, FS_UUID, FAT = "4c4c4544-0042-3510-8051-b4c04f4b3232", "0ac6b6b0-51a4-4c1e-9f5e-3a7d21c0be9f", "5E2A-91CD"
VG_ID, LV_ID = "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zC0fR", "Zy9Xw8Vu7Ts6Rq5Po4Nm3Lk2Ji1HgF0e"
MACHINE_ID = "6f1e2d3c4b5a69788796a5b4c3d2e1f0"
HOST, DOMAIN, SERVER = "build-farm-17", "build-farm-17.corp.example", "filer9"
IP4, IP6, LINK_LOCAL, TARGET_IP = "10.11.12.13", "2001:470:1f0b:9::2", "fe80::3efd:feff:fe9b:31d4", "10.99.1.7"
PLANTED = [SERIAL, NVME_SERIAL, NVME_SERIAL.encode().hex(), DMI_SERIAL, MACHINE_ID, MAC, BOND_MAC, IB, WWN, EUI]
PLANTED += [MPATH[1:], UUID, FS_UUID, FAT, "b2d4f6a8", VG_ID, LV_ID, HOST, DOMAIN, SERVER, IP4, TARGET_IP, IP6]

USB, AT = usb_path("1-1"), "/sys/devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0"
BARE_MAC = MAC.replace(":", "")
NET = f"enx{BARE_MAC}"
# A machine on which each identifier is planted in several places and forms.
WORLD_OF_SECRETS = merge(
    bare(),
    usb_device(
        "1-1",
        serial=SERIAL,
        properties={
            "ID_SERIAL": f"FTDI_FT232R_USB_UART_{SERIAL}",
            "ID_SERIAL_SHORT": SERIAL,
            "ID_USB_SERIAL": f"FTDI_FT232R_USB_UART_{SERIAL}",
            "ID_MODEL": "FT232R_USB_UART",
            "DEVLINKS": f"/dev/serial/by-id/usb-FTDI_FT232R_USB_UART_{SERIAL}-if00-port0 /dev/licence-{SERIAL.lower()}",
        },
    ),
    pci_nic(
        NET,
        attributes={"address": f"{MAC}\n", "phys_switch_id": f"{BARE_MAC}\n", "ifalias": f"uplink of {HOST}\n"},
        properties={"ID_NET_NAME_MAC": NET, "ID_NET_NAME": NET, "DEVPATH": f"/devices/pci0000:00/net/{NET}"},
        number=7,
    ),
    nic(f"br-{HOST}", lower=[NET], number=8, attributes={"address": f"{BOND_MAC.upper()}\n"}, devtype="bridge"),
    nic("ib0", number=9, attributes={"address": f"{IB}\n"}),
    disk(
        "sda",
        AT,
        of_device={"wwid": f"naa.{WWN}", "model": "ST4000NM0035"},
        properties={
            "ID_WWN": f"0x{WWN}",
            "ID_WWN_WITH_EXTENSION": f"0x{WWN}",
            "ID_SERIAL_SHORT": "ZC1",
            "ID_SERIAL": "ST4000NM0035_ZC1",
            "ID_FS_UUID": FS_UUID,
            "ID_FS_UUID_ENC": FS_UUID,
            "ID_PART_TABLE_UUID": "b2d4f6a8",
            "DEVLINKS": f"/dev/disk/by-id/wwn-0x{WWN} /dev/disk/by-id/ata-ST4000NM0035_ZC1 /dev/disk/by-uuid/{FS_UUID}",
            "ID_PATH": f"ip-{TARGET_IP}:3260-iscsi-iqn.2003-01.org.linux:target-lun-0",
        },
        partitions=["sda1"],
    ),
    nvme(serial=f"{NVME_SERIAL}   ", wwid=f"eui.{EUI}"),
    nvme(
        "nvme1n1",
        serial=f"{NVME_SERIAL}   ",
        wwid=f"nvme.144d-{NVME_SERIAL.encode().hex()}-53414d53554e47-00000001",
        at="/sys/devices/pci0000:5f/0000:5f:00.0/nvme/nvme1",
        number="259:3",
    ),
    stacked("dm-0", ["sda1"], dm=(f"{HOST.replace('-', '--')}--vg-root", f"LVM-{VG_ID}{LV_ID}")),
    stacked("dm-1", number="253:1", dm=(MPATH, f"mpath-{MPATH}")),
    mounts(
        ("/", "253:0", "ext4", f"/dev/mapper/{HOST}--vg-root"),
        ("/mnt", "0:44", "nfs4", f"{SERVER}.corp.example:/export"),
        ("/mnt2", "0:45", "nfs", f"{IP4}:/export"),
        ("/boot", "8:1", "vfat", f"/dev/disk/by-uuid/{FAT}"),
    ),
    files(
        {
            "/sys/class/dmi/id/product_serial": f"{DMI_SERIAL}\n",
            "/sys/class/dmi/id/chassis_serial": f"{DMI_SERIAL.lower()}\n",
            "/sys/class/dmi/id/product_uuid": f"{UUID}\n",
            "/sys/class/dmi/id/product_name": "PowerEdge R750\n",
            "/sys/devices/virtual/input/input3/uevent": f'PRODUCT=3/46d/c31c/111\nUNIQ="{SERIAL}"\nPHYS="usb-1"\n',
            f"{USB}/1-1:1.0/description": f"port of {SERIAL[:4]}-{SERIAL[4:]} in {MACHINE_ID}\n",
            "/sys/devices/virtual/misc/x/name": f"hello from {HOST.upper()}.\n",
            "/etc/machine-id": f"{MACHINE_ID}\n",
        }
    ),
    {
        "hostname": DOMAIN,
        "default_interfaces": [NET],
        "links": {f"/sys/devices/virtual/net/br-{HOST}/brif/{NET}": f"../../../../pci0000:00/net/{NET}/brport"},
        "properties": {AT: {"DM_UUID": f"mpath-{MPATH}", "PARTUUID": "b2d4f6a8-01", "NVME_TRADDR": IP6}},
        "link_modes": {NET: ["1000baseT/Full"]},
        "errors": {f"/sys/class/net/{NET}/duplex": "EINVAL"},
    },
)


def recorded(world: dict[str, Any], *more: str) -> dict[str, Any]:
    """A recording of this machine, without identifiers. more: further identifiers to replace."""
    recording = without_identifiers(Recorder(RecordedHost(world)).run(), more)
    return dict(json.loads(json.dumps(recording)))


def test_planted_identifiers_do_not_appear() -> None:
    """The search ignores case and separators, and finds an identifier within a longer text or name too."""
    text = json.dumps(recorded(WORLD_OF_SECRETS, MACHINE_ID))
    before = squeezed(json.dumps(WORLD_OF_SECRETS))
    for identifier in PLANTED:
        assert squeezed(identifier) in before, f"{identifier} was not planted"
        if len(identifier) > 8:  # a shorter one may be part of another text by chance
            assert squeezed(identifier) not in squeezed(text), identifier
        assert not re.search(rf"(?<![0-9A-Za-z]){re.escape(identifier)}(?![0-9A-Za-z])", text, re.I), identifier


def test_equal_identifiers_stay_equal_throughout_the_machine() -> None:
    """Each number has the form of its identifier."""
    host = RecordedHost(recorded(WORLD_OF_SECRETS))
    serial = host.text(f"{USB}/serial")
    known = host.properties(USB)
    assert re.fullmatch("id-[0-9]+", str(serial))
    assert known["ID_SERIAL_SHORT"] == serial
    by_id = f"/dev/serial/by-id/usb-FTDI_FT232R_USB_UART_{serial}-if00-port0"
    assert known["DEVLINKS"] == f"{by_id} /dev/licence-{serial}"
    (name,) = host.default_interfaces()
    interface = f"/sys/class/net/{name}"
    mac = str(host.text(f"{interface}/address"))
    assert re.fullmatch("02(:[0-9a-f]{2}){5}", mac)
    assert name == f"enx{mac.replace(':', '')}"
    assert host.text(f"{interface}/phys_switch_id") == mac.replace(":", "")
    assert host.link_modes(name) == ["1000baseT/Full"]
    assert host.properties(interface)["ID_NET_NAME_MAC"] == name
    assert host.resolve(f"/sys/class/net/br-{host.hostname()}/lower_{name}") == host.resolve(interface)
    assert host.text("/sys/class/dmi/id/product_serial") == host.text("/sys/class/dmi/id/chassis_serial")
    assert host.text("/sys/class/dmi/id/product_name") == "PowerEdge R750"
    wwid = str(host.text(f"{AT}/wwid"))
    assert re.fullmatch("naa.[0-9a-f]{16}", wwid)
    assert host.properties("/sys/block/sda")["ID_WWN"] == f"0x{wwid[4:]}"
    assert host.text("/sys/block/dm-1/dm/uuid") == f"mpath-{host.text('/sys/block/dm-1/dm/name')}"
    root = f"/dev/mapper/{host.hostname()}--vg-root"
    assert any(f" ext4 {root} " in line for line in host.lines("/proc/self/mountinfo"))


def test_the_names_of_the_journal_and_the_automounted_device_are_replaced() -> None:
    """A link that contains a serial number may name the journal of XFS, or the device of an automount."""
    link = "/dev/disk/by-id/ata-ST4000NM0035_ZC1ABCDE-part1"
    lines = f"1 0 8:1 / / rw - xfs /dev/sda1 rw,logdev={link}\n2 1 0:9 / /efi rw - autofs systemd-1 rw,fd=3,direct\n"
    unit = {"/run/systemd/generator/efi.mount": f"[Mount]\nWhat={link}\nWhere=/efi\nType=vfat\n"}
    world = merge(
        bare(), files({"/proc/self/mountinfo": lines, "/dev/sda1": "", **unit}), {"links": {link: "../../sda1"}}
    )
    recording = without_identifiers(Recorder(RecordedHost(world)).run())
    assert "ZC1ABCDE" not in json.dumps(recording)
    hidden = recording["files"]["/run/systemd/generator/efi.mount"].split("\n")[1].removeprefix("What=")
    assert f"logdev={hidden}\n" in recording["files"]["/proc/self/mountinfo"]
    assert recording["links"][hidden] == "/dev/sda1"


def test_identifiers_are_numbered_in_the_order_in_which_they_appear() -> None:
    usb = [usb_device(port, serial=serial) for port, serial in (("1-1", SERIAL), ("1-2", "AB12CD34"), ("1-3", SERIAL))]
    host = RecordedHost(recorded(merge(bare(), *usb, nic("eth0", attributes={"address": MAC}))))
    assert [host.text(f"{usb_path(port)}/serial") for port in ("1-1", "1-2", "1-3")] == ["id-1", "id-2", "id-1"]
    assert host.text("/sys/class/net/eth0/address") == "02:00:00:00:00:03"


def test_a_short_serial_number_is_replaced_only_where_serial_numbers_are() -> None:
    """A replacement everywhere would also change equal sizes, port numbers and other short texts."""
    known = {"ID_SERIAL": "A_B_512", "ID_SERIAL_SHORT": "512"}
    host = RecordedHost(recorded(merge(bare(), usb_device(serial="512", product="0512", properties=known))))
    serial = host.text(f"{USB}/serial")
    assert serial != "512"
    assert host.properties(USB) == {"ID_SERIAL": "A_B_512", "ID_SERIAL_SHORT": serial}
    assert host.text(f"{USB}/idProduct") == "0512"


@pytest.mark.parametrize("name", ["virtio0", "0000:00:14.0", "nvme0n1", "block", "node", "virtual", "x86_64"])
def test_an_identifier_that_is_also_a_kernel_name_changes_no_path(name: str) -> None:
    """The serial number of a root hub is its controller's PCI address. A machine may have any host name."""
    parts = files({"/sys/devices/virtio0/block/x": "", "/sys/devices/system/node/node0/cpulist": "0"})
    world = merge(
        WORLD, usb_device("1-1.2", serial=name), {"hostname": name.partition(":")[0], "arch": "x86_64"}, parts
    )
    before, after = Recorder(RecordedHost(world)).run(), recorded(world)
    assert (after["links"], after["arch"]) == (before["links"], "x86_64")


def test_an_unlisted_property_is_replaced_and_an_unlisted_file_is_left_out() -> None:
    """A device without a serial number keeps its model."""
    kept = {"ID_SERIAL": "Logitech_USB_Receiver", "ID_MODEL": "USB_Receiver", "FLAG": "1"}
    added = files({f"{USB}/secret": "x", f"{USB}/power/control": "auto"})
    recording = recorded(merge(bare(), usb_device(serial=None, properties={"OWNER": "Joe Doe", **kept}), added))
    properties = recording["properties"][USB]
    assert re.fullmatch("id-[0-9]+", properties.pop("OWNER"))
    assert properties == kept
    assert recording["left_out"][USB] == ["power/", "secret"]


def test_types_of_partitions_and_devices_and_bit_masks_are_kept() -> None:
    esp, wmi = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b", "05901221-D566-11D1-B2F0-00A0C9062910"
    wmi_path, bits = f"/sys/devices/platform/PNP0C14:00/wmi_bus/wmi/{wmi}", "7 ff9f207ac14057ff febeffdfffefffff"
    input3 = "/sys/devices/virtual/input/input3"
    world = merge(
        bare(),
        disk("sda", AT, properties={"ID_PART_ENTRY_TYPE": esp, "ID_PART_ENTRY_UUID": UUID}),
        files({f"{wmi_path}/uevent": "", f"{input3}/capabilities/key": bits, f"{input3}/uevent": f"KEY={bits}\n"}),
        {"links": {f"/sys/bus/wmi/devices/{wmi}": wmi_path, "/sys/class/input/input3": input3}},
    )
    recording = recorded(world)
    text = json.dumps(recording)
    assert esp in text
    assert f"{wmi_path}/uevent" in recording["files"]
    assert UUID not in text
    assert recording["files"][f"{input3}/capabilities/key"] == bits
    assert recording["files"][f"{input3}/uevent"] == f"KEY={bits}\n"


TUNNEL, HOST0 = "/sys/devices/virtual/net/tunl0", "/sys/devices/pci0000:00/0000:00:1f.0/host0/scsi_host/host0"
HIDDEN = [  # a file, its content, and the identifier in it
    (f"{TUNNEL}/address", "0a:0b:0c:0d", "0a:0b:0c:0d"),
    (f"{TUNNEL}/broadcast", "20:01:04:70:1f:0b:00:09:00:00:00:00:00:00:00:02", "04:70:1f:0b:00:09"),
    (f"{HOST0}/board_tracer", "SV81234567", "SV81234567"),
    (f"{HOST0}/port_name", "0x500304801e8a0c3f", "500304801e8a0c3f"),
    (f"{TUNNEL}/bonding/slaves", "enx3cfdfe9b31d4", "3cfdfe9b31d4"),
    (f"{TUNNEL}/name", "stratis-1-private-6f1e2d3c4b5a69788796a5b4c3d2e1f0-flex", MACHINE_ID),
    (f"{HOST0}/device", "{8c2b1f4e-93d7-4a06-b5c1-0e7f2d6a9b38}", "8c2b1f4e-93d7-4a06-b5c1-0e7f2d6a9b38"),
]


@pytest.mark.parametrize(("path", "text", "identifier"), HIDDEN)
def test_identifiers_are_found_by_the_name_of_their_file_or_their_form(path: str, text: str, identifier: str) -> None:
    folder = TUNNEL if path.startswith(TUNNEL) else HOST0
    world = merge(bare(), files({path: f"{text}\n"}), {"links": {"/sys/class/x/y": folder}})
    assert squeezed(identifier) in squeezed(json.dumps(Recorder(RecordedHost(world)).run()))
    assert squeezed(identifier) not in squeezed(json.dumps(recorded(world)))


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("nfs4", f"[{IP6}]:/export"),
        ("cifs", f"//{SERVER}/share"),
        ("fuse.curlftpfs", f"curlftpfs#ftp://joe:sesame@{SERVER}/"),
        ("ceph", f"{IP4}:6789:/"),
    ],
)
def test_names_of_file_servers_and_their_users_are_replaced(kind: str, source: str) -> None:
    world = merge(bare(), mounts(("/mnt", "0:44", kind, source)))
    assert re.search(rf" - {kind} id-[0-9]+ ", recorded(world)["files"]["/proc/self/mountinfo"])
    with_identifiers = Recorder(RecordedHost(world)).run()
    assert "sesame" not in json.dumps(with_identifiers), "a password is left out of any recording"


def test_addresses_of_interfaces_stay_addresses_of_equal_networks() -> None:
    """Addresses of one network become addresses of one network of the same size, which nobody uses."""
    given = {  # address -> its replacement
        "10.0.0.7/24": "240.0.1.1",
        "10.0.0.9/24": "240.0.1.2",
        "10.0.1.7/24": "240.0.2.1",
        "192.0.2.7/32": "240.0.0.3",
        "192.0.2.9/31": "240.0.0.8",
        "100.64.0.1/10": "241.64.0.1",
        f"{IP6}/64": "2001:db8:0:6::1",
        f"{IP6}3/64": "2001:db8:0:6::2",
        f"{LINK_LOCAL}/64": "fe80::1",
        "127.0.0.1/8": "127.0.0.1",
        "::1/128": "::1",
    }
    rows = [
        [NET, f"ipv{one.version}", str(one.ip), one.network.prefixlen, "global", False]
        for one in map(ip_interface, given)
    ]
    known = RecordedHost(recorded(merge(bare(), {"addresses": rows}))).addresses()
    assert [one.address for one in known] == [*given.values()]
    assert [one.prefix for one in known] == [row[3] for row in rows]
    assert BARE_MAC not in {one.interface for one in known}.pop()


# Serial numbers: at least one letter, one digit, and three different characters.
SERIALS = st.text(string.ascii_letters + string.digits, min_size=8, max_size=24).filter(
    lambda s: any(c.isalpha() for c in s) and any(c.isdigit() for c in s) and len(set(s.lower())) > 2
)
AROUND = st.text(st.characters(exclude_characters="/\n", codec="utf-8"), max_size=20).map(lambda text: f"{text} ")


@given(SERIALS, AROUND, st.booleans())
def test_a_serial_number_is_found_wherever_it_is_a_word(serial: str, around: str, upper: bool) -> None:
    if serial.lower() in around.lower():
        return
    privacy = Privacy({"files": {}, "links": {}})
    privacy.learn(serial)
    hidden = privacy.text(f"{around}{serial.upper() if upper else serial.lower()} {around}")
    assert serial.lower() not in hidden.lower()
    assert Numbering().replacement(serial) in hidden


@given(st.text(max_size=40), st.text(max_size=40))
def test_numbers_are_equal_if_and_only_if_the_identifiers_are(one: str, other: str) -> None:
    numbering = Numbering()
    same = numbering.replacement(one) == numbering.replacement(other)
    assert same == (one == other) or squeezed(one) == squeezed(other)  # two spellings of one identifier
    is_placeholder = len(set(plain(one))) < 2  # empty, or a repeated character, such as ff:ff:ff:ff:ff:ff
    assert (numbering.replacement(one) == one) == is_placeholder


def test_the_page_lists_the_forms_of_identifiers() -> None:
    page = (ROOT / "tests/corpus/recorded.md").read_text()
    assert all(shape in " ".join(page.split()) for shape in SHAPES)
