"""What facts of mounted file systems the detector must know; real ones, in a mount namespace, at the end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from capacityd.host.recorded import RecordedHost
from capacityd.kinds import Unit
from capacityd.model import Absent, Quantity, Unknown
from tests.unit.forked import can_be_alone, run_alone
from tests.unit.looking import counted, look, values
from tests.unit.machines import Recording, disk, errors, machine, merge

GIB = Unit("GiB", 2**30)


def table(*lines: str, **sizes: int) -> Recording:
    """What is mounted: "id number root point type source options". sizes: by mount point, with "_" for "/", in GiB."""
    text = ""
    for line in lines:
        number, device, root, point, kind, source, options = line.split()
        text += f"{number} 1 {device} {root} {point} rw,relatime shared:1 - {kind} {source} {options}\n"
    bytes_ = {name.replace("_", "/"): size << 30 for name, size in sizes.items()}
    return {"files": {"/proc/self/mountinfo": text}, "filesystem_sizes": bytes_}


ROOT = "20 8:1 / / ext4 /dev/sda1 rw"
DATA = "21 8:17 / /srv/data xfs /dev/sdb1 rw"
WORLD = table(
    ROOT,
    DATA,
    "22 0:5 / /proc proc proc rw",
    "23 0:6 / /run tmpfs tmpfs rw,size=100k",
    "24 0:7 / /mnt/nfs nfs4 server:/export rw",
    "25 0:8 / /mnt/ssh fuse.sshfs user@host: rw",
    "26 0:9 / /var/lib/merged overlay overlay rw",
    "27 7:0 / /snap/core squashfs /dev/loop0 ro",
    "28 0:10 /@ /pool btrfs /dev/sdc rw",
    "29 0:10 /@home /home btrfs /dev/sdc rw",
    "30 8:33 / /mnt/windows fuseblk /dev/sdd1 ro",
    "31 0:11 / /mnt/what newfs what rw",
    "32 253:5 / /var/lib/kubelet/pods/x/volumes/y ext4 /dev/rbd0 rw",
    "33 253:6 / /var/lib/k0s/kubelet/pods/x/volumes/y ext4 /dev/rbd1 rw",
    "34 253:7 / /var/snap/microk8s/common/var/lib/kubelet/plugins/kubernetes.io/csi/x ext4 /dev/rbd2 rw",
    "35 253:8 / /run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/x/rootfs ext4 /dev/dm-8 rw",
    "36 253:9 / /var/lib/containers/storage/devicemapper/mnt/x xfs /dev/dm-9 rw",
    _=50,
    _srv_data=100,
    _pool=200,
    _mnt_windows=1,
    _run=1,
    _mnt_nfs=7,
)
HOST = machine(disk("sda", partitions=["sda1"]), WORLD)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, ["/", "/srv/data", "/home", "/mnt/windows"]),
        ({"mount": "/srv/*"}, ["/srv/data"]),
        ({"mount": "/pool"}, ["/home"]),
        ({"type": ["ext4", "xfs"]}, ["/", "/srv/data"]),
        ({"source": "/dev/sd[ab]1"}, ["/", "/srv/data"]),
        ({"system": False}, ["/srv/data", "/home", "/mnt/windows"]),
        ({"read_only": True}, ["/mnt/windows"]),
        ({"size": ">=100GiB"}, ["/srv/data", "/home"]),
        ({"kind": "network"}, ["/mnt/nfs", "/mnt/ssh"]),
        ({"kind": "memory"}, ["/run"]),
        ({"kind": ["overlay", "image"]}, ["/var/lib/merged", "/snap/core"]),
        ({"kind": "pseudo"}, ["/proc", "/mnt/what"]),
        ({"type": "nfs4"}, []),
    ],
)
def test_matches(asked: dict[str, object], found: list[str]) -> None:
    assert counted(HOST, "filesystem", asked) == found


@pytest.mark.parametrize("point", ["/var/lib/kubelet", "/var/lib/containerd", "/var/lib/containers", "/data/pods/x"])
def test_a_disk_of_its_own_for_pods_and_containers_counts(point: str) -> None:
    assert counted(machine(table(f"1 8:1 / {point} xfs /dev/sda1 rw")), "filesystem") == [point]


def test_one_that_the_machine_has_and_pods_too_is_the_machines() -> None:
    both = table(
        "1 8:1 / /var/lib/kubelet/pods/x/volumes/y xfs /dev/sda1 rw",
        "2 8:1 / /a/very/long/path/to/where/the/machine/itself/has/it xfs /dev/sda1 rw",
    )
    name = "/a/very/long/path/to/where/the/machine/itself/has/it"
    assert values(machine(both), "filesystem", "mount") == {name: name}


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("local", "bcachefs btrfs jffs2 ubifs zfs"),
        ("image", "cramfs erofs iso9660 romfs squashfs udf"),
        ("memory", "ramfs rootfs tmpfs"),
        (
            "network",
            "9p afs beegfs ceph cifs fuse fuse.sshfs gfs2 glusterfs lustre ncpfs nfs nfs4 ocfs2 smb3 smbfs virtiofs",
        ),
        ("overlay", "aufs ecryptfs overlay unionfs"),
        ("pseudo", "proc sysfs cgroup2 new"),
    ],
)
def test_kinds(kind: str, types: str) -> None:
    made = machine(table(*(f"{n} 0:{n} / /{name} {name} x rw" for n, name in enumerate(types.split(), 1))))
    assert counted(made, "filesystem", {"kind": kind}) == [f"/{name}" for name in types.split()]


def test_a_type_that_nobody_knows_is_local_if_it_has_a_device() -> None:
    made = machine(table("1 8:1 / /a ext5 /dev/sda1 rw", "2 8:2 / /b gfs2 /dev/sda2 rw", "3 7:0 / /c udf /dev/sr0 ro"))
    assert counted(made, "filesystem") == ["/a"]


def test_one_that_is_mounted_twice() -> None:
    """It goes by the shorter name, is the system's by any, and read-only only as a whole."""
    made = machine(table("1 8:1 / /mnt/x ext4 /dev/sda1 rw,ro", "2 8:1 / /usr ext4 /dev/sda1 rw"))
    assert values(made, "filesystem", "mount") == {"/usr": ("/usr", "/mnt/x")}
    assert values(made, "filesystem", "system") == {"/usr": True}
    assert values(made, "filesystem", "read_only") == {"/usr": True}
    assert "the size of /usr" in str(values(made, "filesystem", "size")["/usr"])


def test_optional_fields_are_optional() -> None:
    made = machine({"files": {"/proc/self/mountinfo": "1 2 8:1 / / rw - ext4 /dev/sda1\n"}})
    assert values(made, "filesystem", "source") == {"/": "/dev/sda1"}
    assert values(made, "filesystem", "read_only") == {"/": False}


def test_sizes_add_up_and_none_counts_twice() -> None:
    reading = look(HOST, "filesystem", {"type": ["xfs", "btrfs"]}, measure="size", unit=GIB)
    assert isinstance(reading, Quantity)
    assert [(e.device, e.contributes) for e in reading.evidence] == [("/srv/data", 100), ("/home", 200)]


def test_what_the_sandbox_of_the_service_makes_of_it_reads_the_same() -> None:
    """ProtectHome=tmpfs with BindReadOnlyPaths=/home, PrivateTmp, ProtectSystem: bind mounts of parts of /."""
    inside = table(
        ROOT,
        DATA,
        "40 0:30 / /home tmpfs tmpfs ro",
        "41 8:1 /home /home ext4 /dev/sda1 rw",
        "42 8:1 /tmp/systemd-private-1/tmp /tmp ext4 /dev/sda1 rw",
        "43 8:1 / / ext4 /dev/sda1 rw",
        "44 8:17 /part /srv/part xfs /dev/sdb1 rw",
        _=50,
        _srv_data=100,
    )
    outside = machine(table(ROOT, DATA, _=50, _srv_data=100))
    for key in ("mount", "size", "system", "type"):
        assert values(machine(inside), "filesystem", key)["/"] == values(outside, "filesystem", key)["/"]
        assert (
            values(machine(inside), "filesystem", key)["/srv/data"] == values(outside, "filesystem", key)["/srv/data"]
        )
    assert counted(machine(inside), "filesystem", {"mount": "/home"}) == []


def test_one_that_is_mounted_in_parts_only_is_one() -> None:
    parts = table("1 8:1 /a /x ext4 /dev/sda1 rw", "2 8:1 /b /y ext4 /dev/sda1 rw", "3 8:1 /b/c /z ext4 /dev/sda1 rw")
    assert values(machine(parts), "filesystem", "mount") == {"/x": ("/x", "/y")}


def test_a_network_file_system_is_not_asked_for_its_size_unless_it_is_meant() -> None:
    """Its server may be gone, and then it hangs."""
    broken = machine(WORLD, {"unknown": {"filesystem_sizes /mnt/nfs": ["ETIMEDOUT", "did not answer within 5 s"]}})
    reading = look(broken, "filesystem", {"system": False}, measure="size", unit=GIB)
    assert isinstance(reading, Quantity)
    asked = look(broken, "filesystem", {"kind": "network", "type": "nfs4"}, measure="size", unit=GIB)
    assert isinstance(asked, Unknown)
    assert "did not answer" in asked.reason


def test_properties_are_those_of_the_partition() -> None:
    path = "/sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda/sda1"
    host = machine(disk("sda", partitions=["sda1"]), WORLD, {"properties": {path: {"ID_FS_LABEL": "root"}}})
    assert counted(host, "filesystem", {"mount": "/", "properties.ID_FS_LABEL": "root"}) == ["/"]


def test_spaces_and_hostile_names() -> None:
    odd = table(r"1 8:1 / /mnt/a\040b ext4 /dev/x\134y rw", "2 8:2 / /mnt/\x1b[2J ext4 /dev/y rw")
    assert values(machine(odd), "filesystem", "mount") == {"/mnt/a b": "/mnt/a b", "/mnt/\\x1b[2J": "/mnt/\\x1b[2J"}
    newline = table(r"1 8:1 / /mnt/a\012b ext4 /dev/x rw")
    assert list(values(machine(newline), "filesystem", "type")) == ["/mnt/a\\nb"]


@pytest.mark.parametrize(
    "text", ["", "nonsense\n", "1 2 3:4 / /x rw - ext4\n", "1 2 3:4 / /x\n", "1 2 3:4 / /x - ext4 y rw\n"]
)
def test_a_table_that_cannot_be_understood_is_unknown(text: str) -> None:
    reading = look(machine({"files": {"/proc/self/mountinfo": text}}), "filesystem")
    assert isinstance(reading, Unknown)
    assert ("can't be understood" if text else "does not tell") in reading.reason


def test_what_cannot_be_read_is_unknown() -> None:
    assert isinstance(look(machine(WORLD, errors({"/proc/self/mountinfo": "EIO"})), "filesystem"), Unknown)
    assert isinstance(look(machine(table(ROOT)), "filesystem", measure="size", unit=GIB), Unknown)
    none = RecordedHost(merge(WORLD, table("1 0:2 / / rootfs rootfs rw")))
    assert isinstance(look(none, "filesystem"), Absent)


LIVE = """
import json, os, sys
from capacityd.host.live import LiveHost
from capacityd.detectors import load
from capacityd.errors import HostError
from capacityd.reading import value_of
found = {}
for device in load("filesystem").find(LiveHost()):
    if device.said["source"].startswith(("real", "hidden", "gone")):
        try:
            size = value_of(LiveHost(), load("filesystem"), device, "size")
        except HostError as e:
            size = str(e)
        found[device.said["source"]] = [device.said["mount"], device.said["kind"], size]
print(json.dumps(found))
"""
SETUP = """
top=$(mktemp -d); mount -t tmpfs -o size=4096k top $top; cd $top; mkdir real hidden bind part over other
mount -t tmpfs -o size=1024k real real; mkdir real/inside
mount --bind real bind; mount --bind real/inside part
mount -t tmpfs -o size=2048k hidden hidden; mount -t tmpfs -o size=512k real2 hidden
echo $top >&2"""


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_real_mounts() -> None:
    """Each once, at all places where it is as a whole; one below another mount is unknown, not the other's size."""
    found: dict[str, Any] = json.loads(run_alone(SETUP, LIVE))
    points = {
        name: [p.rpartition("/")[2] for p in ([m] if isinstance(m, str) else m)] for name, (m, _, _) in found.items()
    }
    assert points == {"real": ["bind", "real"], "hidden": ["hidden"], "real2": ["hidden"]}
    assert {name: size for name, (_, _, size) in found.items() if name != "hidden"} == {
        "real": 1 << 20,
        "real2": 512 << 10,
    }
    assert found["hidden"][2].endswith("/hidden is hidden by another mount")
