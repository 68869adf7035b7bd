"""What a recording leaves out: planted secrets stand nowhere in it, and what is none stays."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from capacityd.host.recorded import RecordedHost
from capacityd.host.recording import Walk
from capacityd.host.redaction import redact
from capacityd.host.secrets import Secrets, addresses, plain
from capacityd.host.source import RecordedSource
from tests.unit.machines import bare, disk, files, merge, mounts, nic, nvme, pci_nic, stacked, usb_device, usb_path
from tests.unit.test_unreadable import WORLD

SERIAL, NVME_SERIAL, DMI_SERIAL = "FT4XQ2Z8", "S64FNE0R500123", "CZ20340ABC"
MAC, BOND_MAC, IB = (
    "3c:fd:fe:9b:31:d4",
    "3c:fd:fe:9b:31:d5",
    "80:00:02:08:fe:80:00:00:00:00:00:00:e4:1d:2d:03:00:7b:a2:f1",
)
WWN, EUI, MPATH = "5000c500a1b2c3d4", "0025385b71b00c1d", "3600508b1001c4d2ea3f7c8b9d0e1f2a3"
UUID, FS_UUID, FAT = "4c4c4544-0042-3510-8051-b4c04f4b3232", "0ac6b6b0-51a4-4c1e-9f5e-3a7d21c0be9f", "5E2A-91CD"
LVM = "LVM-" + "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zC0fR" + "Zy9Xw8Vu7Ts6Rq5Po4Nm3Lk2Ji1HgF0e"
MACHINE_ID = "6f1e2d3c4b5a69788796a5b4c3d2e1f0"
HOST, DOMAIN, SERVER = "build-farm-17", "build-farm-17.corp.example", "filer9"
IP4, IP6, LINK_LOCAL, TARGET_IP = "10.11.12.13", "2001:470:1f0b:9::2", "fe80::3efd:feff:fe9b:31d4", "10.99.1.7"
PLANTED = [
    SERIAL,
    NVME_SERIAL,
    DMI_SERIAL,
    MAC,
    BOND_MAC,
    IB,
    WWN,
    EUI,
    MPATH[1:],
    UUID,
    FS_UUID,
    FAT,
    LVM[4:36],
    LVM[36:],
]
PLANTED += [MACHINE_ID, HOST, DOMAIN, SERVER, NVME_SERIAL.encode().hex()]

USB, AT = usb_path("1-1"), "/sys/devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0"
BARE_MAC = MAC.replace(":", "")
NET = f"enx{BARE_MAC}"
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
    stacked("dm-0", ["sda1"], dm=(f"{HOST.replace('-', '--')}--vg-root", LVM)),
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
        "link_speeds": {NET: [10**9]},
        "errors": {f"/sys/class/net/{NET}/duplex": "EINVAL"},
    },
)


def recorded(world: dict[str, Any], also: Iterable[str] = ()) -> dict[str, Any]:
    found, _ = redact(Walk(RecordedSource(world)).run(), also)
    return dict(json.loads(json.dumps(found)))


def test_planted_secrets_stand_nowhere() -> None:
    """In no letter case, with or without separators, whole or inside other text, as a value or as a name."""
    text = json.dumps(recorded(WORLD_OF_SECRETS, [MACHINE_ID]))
    squeezed = plain(text)
    before = plain(json.dumps(Walk(RecordedSource(WORLD_OF_SECRETS)).run()))
    for secret in PLANTED:
        assert plain(secret) in before, f"{secret} was not planted"
        assert plain(secret) not in squeezed, secret
    for secret in (IP4, TARGET_IP, "ZC1", "b2d4f6a8", IP6):
        assert not re.search(rf"(?<![0-9A-Za-z]){re.escape(secret)}(?![0-9A-Za-z])", text, re.I), secret


def test_what_is_equal_stays_equal_and_the_machine_one_machine() -> None:
    host = RecordedHost(recorded(WORLD_OF_SECRETS))
    serial = host.text("/sys/bus/usb/devices/1-1/serial")
    known = host.properties("/sys/bus/usb/devices/1-1")
    assert serial is not None
    assert known["ID_SERIAL_SHORT"] == serial
    assert known["ID_SERIAL"] == f"FTDI_FT232R_USB_UART_{serial}"
    assert known["DEVLINKS"].startswith(f"/dev/serial/by-id/usb-FTDI_FT232R_USB_UART_{serial}-if00-port0 ")
    (name,) = host.default_interfaces()
    mac = host.text(f"/sys/class/net/{name}/address")
    assert mac is not None
    assert name == f"enx{mac.replace(':', '')}"
    assert host.link_speeds(name) == [10**9]
    assert host.properties(f"/sys/class/net/{name}")["ID_NET_NAME_MAC"] == name
    assert host.resolve(f"/sys/class/net/br-host-1/lower_{name}") == host.resolve(f"/sys/class/net/{name}")
    assert host.text("/sys/block/nvme0n1/device/serial") == host.text("/sys/block/nvme1n1/device/serial") != serial
    assert host.text("/sys/class/dmi/id/product_serial") == host.text("/sys/class/dmi/id/chassis_serial")
    assert host.text("/sys/class/dmi/id/product_name") == "PowerEdge R750"
    assert host.text(f"{AT}/model") == "ST4000NM0035"
    wwid = host.text(f"{AT}/wwid")
    assert wwid is not None
    assert re.fullmatch("naa.[0-9a-f]{16}", wwid)
    assert f"/dev/disk/by-id/wwn-0x{wwid[4:]} " in host.properties("/sys/block/sda")["DEVLINKS"]
    uuid = host.text("/sys/block/dm-1/dm/uuid")
    assert uuid == f"mpath-{host.text('/sys/block/dm-1/dm/name')}"
    assert host.hostname() == "host-1"


def test_a_short_serial_number_is_replaced_where_serial_numbers_stand_only() -> None:
    """Else sizes, port numbers and what else is short would become one."""
    short = usb_device(
        "1-2", serial="512", product="0512", properties={"ID_SERIAL": "A_B_512", "ID_SERIAL_SHORT": "512"}
    )
    size = files({"/sys/block/sda/queue/logical_block_size": "512\n"})
    host = RecordedHost(recorded(merge(bare(), short, size)))
    assert host.text("/sys/bus/usb/devices/1-2/serial") == "serial-1"
    assert host.properties("/sys/bus/usb/devices/1-2") == {"ID_SERIAL": "A_B_serial-1", "ID_SERIAL_SHORT": "serial-1"}
    assert host.text("/sys/bus/usb/devices/1-2/idProduct") == "0512"
    assert host.text("/sys/block/sda/queue/logical_block_size") == "512"


@pytest.mark.parametrize("serial", ["virtio0", "0000:00:14.0", "usb1", "devices", "nvme0n1", "uevent", "block"])
def test_a_serial_number_that_is_a_name_of_the_kernels_changes_no_path(serial: str) -> None:
    """A root hub's is the address of its controller."""
    world = merge(WORLD, usb_device("1-1.2", serial=serial), files({"/sys/devices/virtio0/block/x": ""}))
    assert recorded(world)["links"].keys() >= {"/sys/bus/usb/devices/1-1.2", "/sys/block/nvme0n1"}


def test_a_device_without_serial_number_keeps_its_model() -> None:
    known = {"ID_SERIAL": "Logitech_USB_Receiver", "ID_VENDOR": "Logitech", "ID_MODEL": "USB_Receiver"}
    model = usb_device("1-2", serial=None, manufacturer="Logitech", model="USB Receiver", properties=known)
    assert recorded(merge(bare(), model))["properties"][usb_path("1-2")] == known


@pytest.mark.parametrize("host", ["node", "pci", "net", "master", "virtual", "x86_64", "serial"])
def test_a_host_named_as_the_kernel_names_things_keeps_its_machine_whole(host: str) -> None:
    world = merge(WORLD, {"hostname": host, "arch": "x86_64"}, files({"/sys/devices/system/node/node0/cpulist": "0"}))
    before = Walk(RecordedSource(world)).run()
    after, notes = redact(before)
    assert after["links"].keys() == before["links"].keys()
    if host != "x86_64":
        assert any(f'"{host}"' in note for note in notes) == (
            host != "serial" or "serial" in json.dumps(before["files"])
        )


def test_kinds_of_partitions_and_of_devices_are_no_secret() -> None:
    esp, wmi = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b", "05901221-D566-11D1-B2F0-00A0C9062910"
    wmi_path = f"/sys/devices/platform/PNP0C14:00/wmi_bus/wmi/{wmi}"
    world = merge(
        bare(),
        disk("sda", AT, properties={"ID_PART_ENTRY_TYPE": esp, "ID_PART_ENTRY_UUID": UUID}),
        files({f"{wmi_path}/guid": f"{wmi}\n"}),
    )
    found = json.dumps(recorded(world))
    assert esp in found
    assert wmi in found
    assert UUID not in found


HOST0, PORT = (
    "/sys/devices/pci0000:00/0000:00:1f.0/host0",
    "/sys/devices/pci0000:00/0000:00:02.0/infiniband/mlx5_0/ports/1",
)
SCSI, VMBUS = f"{HOST0}/target0:0:0/0:0:0:0", "/sys/devices/LNXSYSTM:00/VMBUS:00/8c2b1f4e-93d7-4a06-b5c1-0e7f2d6a9b38"
HIDDEN = [  # where the kernel tells an id that is no serial number by its name, or an address
    (f"{PORT}/gids/0", "fe80:0000:0000:0000:e41d:2d03:007b:a2f1", "e41d:2d03:007b:a2f1"),
    (f"{PORT}/gids/1", "0000:0000:0000:0000:0000:ffff:0a0b:0c0d", "0a0b:0c0d"),
    ("/sys/devices/virtual/net/br0/bridge/root_id", "8000.3cfdfe9b31d4", BARE_MAC),
    ("/sys/devices/virtual/net/br0/bonding/arp_ip_target", "10.11.12.13 10.11.12.14", IP4),
    ("/sys/devices/virtual/net/tunl0/address", "0a:0b:0c:0d", "0a:0b:0c:0d"),
    (
        "/sys/devices/virtual/net/ip6tnl0/broadcast",
        "20:01:04:70:1f:0b:00:09:00:00:00:00:00:00:00:02",
        "04:70:1f:0b:00:09",
    ),
    (f"{HOST0}/scsi_host/host0/serialnum", "VM81234567", "VM81234567"),
    (f"{HOST0}/scsi_host/host0/serial_num", "RFD1234K567", "RFD1234K567"),
    (f"{HOST0}/scsi_host/host0/board_tracer", "SV81234567", "SV81234567"),
    (f"{SCSI}/enclosure/0:0:0:0/id", "0x500304801e8a0c3f", "500304801e8a0c3f"),
    (f"{SCSI}/sas_device/end_device-0:0/enclosure_identifier", "0x500304801e8a0c3f", "500304801e8a0c3f"),
    (f"{HOST0}/iscsi_host/host0/ipaddress", IP4, IP4),
    ("/sys/devices/virtual/rbd/0/client_addr", f"{IP4}:0/3041", IP4),
    ("/sys/devices/virtual/block/dm-3/dm/name", "stratis-1-private-6f1e2d3c4b5a69788796a5b4c3d2e1f0-flex", MACHINE_ID),
    ("/sys/devices/pci0000:00/0000:00:02.0/83b8f4f2-509f-382f-3c1e-e6bfe0fa1001/remove_id", "1", "83b8f4f2-509f"),
    (f"{VMBUS}/device_id", "{8c2b1f4e-93d7-4a06-b5c1-0e7f2d6a9b38}", "8c2b1f4e-93d7-4a06-b5c1-0e7f2d6a9b38"),
]


@pytest.mark.parametrize(("path", "text", "secret"), HIDDEN)
def test_what_is_called_otherwise_is_found_by_its_place_or_shape(path: str, text: str, secret: str) -> None:
    found = recorded(merge(bare(), files({path: f"{text}\n"})))
    assert plain(secret) not in plain(json.dumps(found))
    assert len([name for name in found["files"] if name.rpartition("/")[2] == path.rpartition("/")[2]]) == 1


@pytest.mark.parametrize(
    ("kind", "source", "after"),
    [
        ("nfs4", f"{SERVER}:/export", "host-1:/export"),
        ("nfs4", f"[{IP6}]:/export", "[2001:db8::1]:/export"),
        ("cifs", f"//{SERVER}/share", "//host-1/share"),
        ("fuse.sshfs", f"backup@{SERVER}:/data", "backup@host-1:/data"),
        ("fuse.curlftpfs", f"curlftpfs#ftp://joe:sesame@{SERVER}/", "curlftpfs#ftp://host-1/"),
        ("fuse.mergerfs", "disk1:disk2", "disk1:disk2"),
    ],
)
def test_file_servers_and_who_opens_them(kind: str, source: str, after: str) -> None:
    found = recorded(merge(bare(), mounts(("/mnt", "0:44", kind, source))))
    assert f" - {kind} {after} " in found["files"]["/proc/self/mountinfo"]


@pytest.mark.parametrize("serial", ["S64FNE0R500123", "2142308F1234", "214230801234"])
def test_an_nvmes_serial_number_in_hexadecimal(serial: str) -> None:
    coded = serial.encode().hex()
    found = json.dumps(recorded(merge(bare(), nvme(serial=serial, wwid=f"nvme.c0a9-{coded}-4354-00000001"))))
    assert serial not in found
    assert coded not in found


def test_a_kind_of_hyper_vs_devices_is_no_secret() -> None:
    kind = "f8615163-df3e-46c5-913f-f2d2f965ed0e"
    told = {f"{VMBUS}/class_id": f"{{{kind}}}\n", f"{VMBUS}/modalias": f"vmbus:{kind.replace('-', '')}\n"}
    assert {*told.values()} <= {*recorded(merge(bare(), files(told)))["files"].values()}


def test_addresses_that_are_the_same_everywhere_stay() -> None:
    world = merge(bare(), nic("lo", attributes={"address": "00:00:00:00:00:00", "broadcast": "ff:ff:ff:ff:ff:ff"}))
    world = merge(
        world,
        files(
            {"/sys/devices/virtual/net/lo/bridge/group_addr": "01:80:c2:00:00:00", "/sys/devices/x/addr": "127.0.0.1"}
        ),
    )
    found = json.dumps(recorded(world))
    for address in ("00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "01:80:c2:00:00:00", "127.0.0.1"):
        assert address in found


def test_a_redacted_recording_is_left_as_it_is() -> None:
    once = recorded(WORLD_OF_SECRETS)
    assert RecordedSource(once).redacted
    again = Walk(RecordedSource(once)).run()
    assert again | {"redacted": True} == once


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("traddr=10.0.0.1,trsvcid=4420", ["10.0.0.1"]),
        (f"[{IP6}]:/export {LINK_LOCAL}", [IP6, LINK_LOCAL]),
        ("127.0.0.1 ::1 0.0.0.0 :: 255.255.255.255 224.0.0.1 ff02::1", []),
        ("0000:00:1f.2 1.2.3 1.2.3.4.5 3c:fd:fe:9b:31:d4 12:30", []),
    ],
)
def test_addresses_in_text(text: str, found: list[str]) -> None:
    assert addresses(text) == found


TELLING = st.text(string.ascii_letters + string.digits, min_size=8, max_size=24).filter(
    lambda s: any(c.isalpha() for c in s) and any(c.isdigit() for c in s) and len(set(s.lower())) > 2
)
AROUND = st.text(st.characters(exclude_characters="/\n", codec="utf-8"), max_size=20)


@given(
    TELLING, st.lists(st.tuples(AROUND, st.sampled_from(["", "-", ":", "_", " ", r"\x20"]), st.booleans()), max_size=4)
)
def test_a_serial_number_is_found_however_it_is_written(serial: str, places: list[tuple[str, str, bool]]) -> None:
    assume(not any(plain(serial) in plain(around) for around, _, _ in places))
    secrets = Secrets(["sys", "devices"])
    secrets.add(serial)
    for around, separator, upper in places:
        written = separator.join(serial)
        text = f"{around}{written.upper() if upper else written.lower()}{around}"
        assert plain(serial) not in plain(secrets.within(text))


def test_of_serial_numbers_that_begin_alike_each_is_told_from_the_others_and_from_what_is_none() -> None:
    secrets = Secrets([])
    for serial in ("ABX12CD9900", "ABX12CD9900-K7"):
        secrets.add(serial)
    said = secrets.within("ABX12CD9900-K7 ABX12CD9900, ABX12CD9901 and ABX12C")
    assert said == "serial-2 serial-1, ABX12CD9901 and ABX12C"


@pytest.mark.parametrize("serial", ["1234567", "MICROSOFT", "000X-000X", "P129S0F0"])
def test_a_serial_number_that_may_be_something_else_is_replaced_as_a_whole_only(serial: str) -> None:
    secrets = Secrets(["enp129s0f0", "sys"])
    secrets.add("Q7K2M4X8")
    secrets.add(serial)
    assert secrets.within(f"Q7K2M4X8 {serial}") == f"serial-1 {serial}"
    assert secrets.whole(f"{serial}\n") == "serial-2\n"


@pytest.mark.parametrize(
    ("secret", "text", "said"),
    [
        ("aabbccddeeff", "AA:BB:cc:dd:ee:ff", "02:00:00:00:00:01"),
        ("20481234", "120481234 204812345 20481234", "120481234 204812345 serial-1"),
        ("ABX12CD9", "ABX1/2CD9 ABX1\n2CD9 ABX1-2CD9", "ABX1/2CD9 ABX1\n2CD9 serial-1"),
        (
            "5000c500a1b2c3d4",
            "50:00:c5:00:a1:b2:c3:d4 5000-C500-A1B2-C3D4",
            "00:00:00:00:00:00:00:01 0000-0000-0000-0001",
        ),
    ],
)
def test_where_a_serial_number_stands(secret: str, text: str, said: str) -> None:
    secrets = Secrets(["sys"])
    secrets.add("")
    secrets.add(secret, shape=len(secret) == 12)
    assert secrets.within(text) == said


def test_hosts_and_addresses_that_are_told_twice_and_otherwise() -> None:
    secrets = Secrets(["sys", "eth0"])
    for name in ("Rack7-N3.example.com", "rack7-n3", "rack7-n3.example.org", "", "7.example.com", "other"):
        assert secrets.add_host(name)
    assert not secrets.add_host("ETH0")
    for address in ("192.0.2.7", "192.0.2.8", "192.0.2.7"):
        secrets.add_address(address)
    said = secrets.within("RACK7-n3 rack7--n3 rack7-n3.EXAMPLE.com rack7-n3.example.org other 7 eth0")
    assert said == "host-1 host-1 host-1 host-1 host-2 7 eth0"
    assert secrets.within("192.0.2.7 192.0.2.8 192.0.2.9") == "198.18.0.1 198.18.0.2 192.0.2.9"


@given(st.lists(st.text(max_size=12), max_size=6), st.text(max_size=60))
def test_replacing_ends_and_does_so_alike(found: list[str], text: str) -> None:
    def once() -> str:
        secrets = Secrets(["sys"])
        for secret in found:
            secrets.add(secret)
        return secrets.within(text) + secrets.whole(text) + secrets.words(text, found)

    assert once() == once()
