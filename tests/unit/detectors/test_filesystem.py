"""Which mounted file systems count, and the values of their keys. The last tests use real mounts in a namespace."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from capacityd.host import filesystems
from capacityd.host.recording.replay import RecordedHost
from capacityd.linux import sandbox
from capacityd.model.errors import HostError
from capacityd.model.reading import Absent, Unknown
from tests.support.forked import can_be_alone, forked, run_alone
from tests.support.machines import Recording, disk, errors, files, machine, merge, mount_table
from tests.support.reachable import make_reachable
from tests.support.readings import counted, quantity, read, values

GIB = "GiB"


def table(*lines: str, **sizes: int) -> Recording:
    """A mount table of these lines. sizes: the sizes in GiB, by mount point with "_" in place of "/"."""
    bytes_ = {name.replace("_", "/"): size << 30 for name, size in sizes.items()}
    return merge(mount_table(*lines), {"filesystem_sizes": bytes_})


ROOT = "8:1 / / ext4 /dev/sda1 rw"
DATA = "8:17 / /srv/data xfs /dev/sdb1 rw"
# File systems of every kind, also those of pods and containers.
WORLD = table(
    ROOT,
    DATA,
    "0:5 / /proc proc proc rw",
    "0:6 / /run tmpfs tmpfs rw,size=100k",
    "0:7 / /mnt/nfs nfs4 server:/export rw",
    "0:8 / /mnt/ssh fuse.sshfs user@host: rw",
    "0:9 / /var/lib/merged overlay overlay rw",
    "7:0 / /snap/core squashfs /dev/loop0 ro",
    "0:10 /@ /pool btrfs /dev/sdc rw",
    "0:10 /@home /home btrfs /dev/sdc rw",
    "8:33 / /mnt/windows fuseblk /dev/sdd1 ro",
    "0:11 / /mnt/what newfs what rw",
    "253:6 / /var/lib/k0s/kubelet/pods/x/volumes/y ext4 /dev/rbd1 rw",
    "253:7 / /var/snap/microk8s/common/var/lib/kubelet/plugins/kubernetes.io/csi/x ext4 /dev/rbd2 rw",
    "253:8 / /run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/x/rootfs ext4 /dev/dm-8 rw",
    "253:9 / /var/lib/containers/storage/devicemapper/mnt/x xfs /dev/dm-9 rw",
    _=50,  # GiB at /
    _srv_data=100,
    _pool=200,
    _mnt_windows=1,
    _run=1,
    _mnt_nfs=7,
)
SDA1 = "/sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda/sda1"
HOST = machine(disk("sda", partitions=["sda1"]), WORLD, {"properties": {SDA1: {"ID_FS_LABEL": "root"}}})


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ({}, ["/", "/srv/data", "/home", "/mnt/windows"]),
        ({"mount": "/srv/*"}, ["/srv/data"]),
        ({"mount": "/pool"}, ["/home"]),  # two mount points of one file system
        ({"type": ["ext4", "xfs"]}, ["/", "/srv/data"]),
        ({"source": "/dev/sd[ab]1"}, ["/", "/srv/data"]),
        ({"system": False}, ["/srv/data", "/home", "/mnt/windows"]),
        ({"read_only": True}, ["/mnt/windows"]),
        ({"size": ">=100GiB"}, ["/srv/data", "/home"]),
        ({"type": "nfs4"}, []),
        ({"mount": "/", "properties.ID_FS_LABEL": "root"}, ["/"]),
    ],
)
def test_each_key_matches_its_file_systems(keys: dict[str, object], names: list[str]) -> None:
    assert counted(HOST, "filesystem", keys) == names


NETWORK = "9p afs beegfs ceph cifs fuse fuse.s3fs fuse.sshfs gfs2 glusterfs lustre nfs nfs4 ocfs2 smb3 virtiofs"


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("local", "bcachefs btrfs jffs2 ubifs zfs"),
        ("image", "erofs iso9660 squashfs udf fuse.snapfuse fuse.squashfuse fuse.squashfuse_ll"),
        ("memory", "rootfs tmpfs"),
        ("network", NETWORK),
        ("overlay", "aufs ecryptfs overlay fuse.fuse-overlayfs fuse.mergerfs fuse.unionfs"),
        ("pseudo", "proc sysfs cgroup2 ramfs new fuse.lxcfs fuse.portal fuse.gvfsd-fuse fuse.sysboxfs"),
    ],
)
def test_without_a_device_the_kind_is_that_of_the_type(kind: str, types: str) -> None:
    lines = [f"0:{n} / /{name} {name} x rw" for n, name in enumerate(types.split(), 1)]
    host = machine(table(*lines))
    assert counted(host, "filesystem", {"kind": kind}) == [f"/{name}" for name in types.split()]


def test_with_a_device_a_type_that_is_not_known_is_local() -> None:
    devices = ["8:1 / /a ext5 x rw", "8:2 / /b gfs2 x rw", "7:0 / /c udf x ro", "8:3 / /d fuseblk x rw"]
    kinds = {"/a": "local", "/b": "network", "/c": "image", "/d": "local"}
    assert values(machine(table(*devices)), "filesystem", "kind") == kinds


# Only parts of this file system are mounted.
PARTS = ["8:1 /a /x ext4 /dev/sda1 rw", "8:1 /b /y ext4 /dev/sda1 rw", "8:1 /b/c /z ext4 /dev/sda1 rw"]


@pytest.mark.parametrize(
    ("lines", "mount"),
    [
        (PARTS, {"/x": ("/x", "/y")}),
        ([r"8:1 / /mnt/a\040b ext4 /dev/x\134y rw"], {"/mnt/a b": "/mnt/a b"}),
        ([r"8:2 / /mnt/\033[2J\012 ext4 /dev/y rw"], {r"/mnt/\x1b[2J\n": r"/mnt/\x1b[2J\n"}),
    ],
)
def test_each_mount_point_is_listed_once_and_without_octal_escapes(lines: list[str], mount: dict[str, object]) -> None:
    assert values(machine(table(*lines)), "filesystem", "mount") == mount


def test_a_file_system_with_two_mount_points_is_one_device() -> None:
    """The shorter mount point is its name. If one of the mount points is the system's, so is the file system."""
    host = machine(table("8:1 / /longer ext4 /dev/sda1 rw,ro", "8:1 / /usr ext4 /dev/sda1 rw", _longer=3))
    assert values(host, "filesystem", "mount") == {"/usr": ("/usr", "/longer")}
    assert values(host, "filesystem", "system") == {"/usr": True}
    assert values(host, "filesystem", "read_only") == {"/usr": True}
    assert values(host, "filesystem", "size") == {"/usr": 3 << 30}, "one of the mount points can be measured"
    efi = machine(table("8:1 / /efi vfat /dev/sda1 rw", "8:1 / /b vfat /dev/sda1 rw"))
    assert values(efi, "filesystem", "system") == {"/b": True}


def test_sizes_add_up_and_none_counts_twice() -> None:
    assert quantity(HOST, "filesystem", {"type": ["xfs", "btrfs"]}, measure="size", unit=GIB) == 300  # 100 + 200


def test_the_service_reads_the_same_values_in_its_sandbox_as_outside() -> None:
    """The sandbox bind-mounts parts of / (ProtectHome=tmpfs with BindReadOnlyPaths=/home, PrivateTmp, ...)."""
    sizes = {"_": 50, "_srv_data": 100}
    bind_mounts = [
        "0:30 / /home tmpfs tmpfs ro",
        "8:1 /home /home ext4 /dev/sda1 rw",
        "8:1 /tmp/systemd-private-1/tmp /tmp ext4 /dev/sda1 rw",
        "8:1 / / ext4 /dev/sda1 rw",
        "8:17 /part /srv/part xfs /dev/sdb1 rw",
    ]
    outside, inside = machine(table(ROOT, DATA, **sizes)), machine(table(ROOT, DATA, *bind_mounts, **sizes))
    for key in ("mount", "size", "system", "type"):
        by_device = values(inside, "filesystem", key)
        assert {point: by_device[point] for point in ("/", "/srv/data")} == values(outside, "filesystem", key)
    assert counted(inside, "filesystem", {"mount": "/home"}) == []


def test_a_network_file_system_is_measured_only_if_it_may_count() -> None:
    """statvfs would hang if the server of the file system is gone."""
    broken = machine(WORLD, {"unknown": {"filesystem_sizes /mnt/nfs": ["ETIMEDOUT", "did not respond within 5 s"]}})
    assert quantity(broken, "filesystem", {"system": False}, measure="size", unit=GIB) == 301  # 100 + 200 + 1
    reading = read(broken, "filesystem", {"kind": "network", "type": "nfs4"}, measure="size", unit=GIB)
    assert isinstance(reading, Unknown)
    assert "did not respond" in reading.reason


def test_unreadable_is_unknown_and_no_file_system_is_absent() -> None:
    assert isinstance(read(machine(WORLD, errors({"/proc/self/mountinfo": "EIO"})), "filesystem"), Unknown)
    assert isinstance(read(machine(files({"/proc/self/mountinfo": "nonsense\n"})), "filesystem"), Unknown)
    assert isinstance(read(machine(table(ROOT)), "filesystem", measure="size", unit=GIB), Unknown)  # no size
    assert isinstance(read(machine(table("0:2 / / rootfs rootfs rw")), "filesystem"), Absent)


# Prints the mount points, the kind and the size of each file system that SETUP has mounted.
LIVE = """
import json, os, sys
from capacityd.host.live import LiveHost
from capacityd.detectors import load_detector
from capacityd.model.errors import HostError
from capacityd.discovery.reader import value_of
table = {}
for device in load_detector("filesystem").find(LiveHost()):
    if device.cached_values["source"].startswith(("real", "hidden", "gone")):
        try:
            size = value_of(LiveHost(), load_detector("filesystem"), device, "size")
        except HostError as e:
            size = str(e)
        table[device.cached_values["source"]] = [device.cached_values["mount"], device.cached_values["kind"], size]
print(json.dumps(table))
"""
# Mounts file systems that are visible (real…) or hidden below others (hidden…).
SETUP = """
top=/mnt; mount -t tmpfs -o size=4096k top $top; cd $top; mkdir real hidden bind part over other
mount -t tmpfs -o size=1024k real real; mkdir real/inside
mount --bind real bind; mount --bind real/inside part
mount -t tmpfs -o size=2048k hidden1 hidden; mount -t tmpfs -o size=512k real2 hidden
mkdir other/sub; mount -t tmpfs -o size=2048k hidden2 other/sub; mount -t tmpfs real3 other -o size=256k
mkdir "$(printf 'caf\\351')" "$(printf 'a\\302\\240b')" "$(printf 'c\\td')"
mount -t tmpfs -o size=128k real4 "$(printf 'caf\\351')"; mount -t tmpfs -o size=128k real5 "$(printf 'a\\302\\240b')"
mount -t tmpfs -o size=128k real6 "$(printf 'c\\td')"; mount -t tmpfs -o size=0 real7 over
mount --bind over over"""


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
def test_each_real_file_system_is_listed_once() -> None:
    """Each file system that a path leads to is listed once, with all mount points that show it whole."""
    document: dict[str, Any] = json.loads(run_alone(SETUP, LIVE))
    points = {}
    for name, (mount, _, _) in document.items():
        paths = [mount] if isinstance(mount, str) else mount
        points[name] = [path.rpartition("/")[2] for path in paths]
    assert points == {
        "real": ["bind", "real"],
        "real2": ["hidden"],
        "real3": ["other"],
        "real4": [r"caf\xe9"],
        "real5": [r"a\xa0b"],
        "real6": [r"c\td"],
        "real7": ["over"],
    }
    sizes = {name: size for name, (_, _, size) in document.items()}
    assert sizes.pop("real7").endswith("/over reports no size")
    kibibytes = {"real": 1024, "real2": 512, "real3": 256, "real4": 128, "real5": 128, "real6": 128}
    assert sizes == {name: size << 10 for name, size in kibibytes.items()}


@pytest.mark.parametrize(
    ("lines", "visible"),  # a line: the mount's id, its parent's id, the mount point, and the device number
    [
        (["30 1 / 8:1", "31 30 /a 8:2", "32 31 /a 8:3"], "8:1 8:3"),
        (["30 1 / 8:1", "32 31 /a 8:3", "31 30 /a 8:2"], "8:1 8:3"),  # the parents decide, not the order
        (["30 1 / 8:1", "31 30 /a/sub 8:2", "32 30 /a 8:3"], "8:1 8:3"),
        (["30 1 / 8:1", "32 30 /a 8:3", "31 32 /a/sub 8:2"], "8:1 8:3 8:2"),
        (["30 1 / 8:1", "31 30 /a 8:2", "32 30 /a/sub 8:3", "33 31 /a/sub 8:4"], "8:1 8:2 8:4"),
        (["30 1 / 8:1", "31 30 /a 8:2", "32 30 /ab 8:3"], "8:1 8:2 8:3"),  # only the names are alike
        (["30 1 / 8:1", "31 30 / 8:2"], "8:1"),  # a path starts at the root directory, whatever covers it
        (["31 9 /a 8:2", "32 9 /a 8:3", "30 1 / 8:1"], "8:3 8:1"),  # without parents, the order decides
    ],
)
def test_a_hidden_file_system_does_not_count(lines: list[str], visible: str) -> None:
    fields = [line.split() for line in lines]
    text = "".join(f"{id_} {parent} {number} / {point} rw - xfs {number} rw\n" for id_, parent, point, number in fields)
    host = machine(files({"/proc/self/mountinfo": text}))
    assert list(values(host, "filesystem", "source").values()) == visible.split()


IDLE = "0:30 / /srv/data autofs {} rw,fd=30,pgrp=1,timeout=0,minproto=5,maxproto=5,direct"
BINFMT = "0:31 / /proc/sys/fs/binfmt_misc autofs systemd-1 rw,fd=31,direct"
DATA_UNIT = "[Mount]\nWhat={}\nWhere=/srv/data\nType={}\n"


def idle(source: str = "systemd-1", what: str = "", type_: str = "") -> RecordedHost:
    """A machine with an automount at /srv/data that is not mounted yet. what, type_: of its unit, if it has one."""
    unit = {"/run/systemd/generator/srv-data.mount": DATA_UNIT.format(what, type_)} if what else {}
    return machine(merge(table(ROOT, IDLE.format(source), BINFMT, _=50), {"files": unit}))


IDLE_NFS, IDLE_XFS = idle(what="server:/export", type_="nfs4"), idle(what="/dev/sdb1", type_="xfs")


@pytest.mark.parametrize(
    ("automount", "host"),
    [
        ("/etc/auto.direct", idle(source="/etc/auto.direct")),
        ("srv-data.automount", idle()),
        ("srv-data.automount", IDLE_XFS),
        ("srv-data.automount", idle(what="/dev/disk/by-uuid/1", type_="auto")),
    ],
)
def test_a_file_system_behind_an_idle_automount_is_unknown(automount: str, host: RecordedHost) -> None:
    for keys in ({"mount": "/srv/data"}, {"mount": "/srv/*", "size": ">1GiB"}, {}):
        reading = read(host, "filesystem", keys, measure="size", unit=GIB)
        assert isinstance(reading, Unknown)
        assert f"the automount {automount} mounts it" in reading.reason


@pytest.mark.parametrize(
    ("host", "keys"),
    [(IDLE_NFS, {}), (IDLE_XFS, {"mount": "/"}), (IDLE_XFS, {"type": "ext4"}), (IDLE_XFS, {"system": True})],
)
def test_an_idle_automount_does_not_concern_tables_that_exclude_it(host: RecordedHost, keys: dict[str, object]) -> None:
    assert counted(host, "filesystem", keys) == ["/"]


def test_a_mounted_automount_is_the_file_system() -> None:
    host = machine(table(ROOT, IDLE.format("systemd-1"), DATA, _=50, _srv_data=100))
    assert counted(host, "filesystem") == ["/", "/srv/data"]
    assert quantity(host, "filesystem", measure="size", unit=GIB) == 150


def test_an_indirect_automount_is_no_file_system() -> None:
    indirect = "0:30 / /net autofs -hosts rw,fd=30,indirect"
    assert counted(machine(table(ROOT, indirect)), "filesystem") == ["/"]


@pytest.mark.parametrize(("kind", "type_"), [("local", "fuseblk"), ("network", "fuse.x"), ("memory", "tmpfs")])
def test_a_file_system_that_reports_no_size_has_an_unknown_size(kind: str, type_: str) -> None:
    number = "8:1" if kind == "local" else "0:9"
    host = machine(table(f"{number} / /a {type_} x rw", _a=0))
    assert isinstance(read(host, "filesystem", {"kind": kind}, measure="size"), Unknown)
    assert isinstance(read(host, "filesystem", {"kind": kind, "size": ">1GiB"}), Unknown)


def test_a_kernel_interface_has_no_size() -> None:
    assert values(machine(table("0:9 / /proc proc proc rw", _proc=0)), "filesystem", "size") == {"/proc": None}


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_the_error_below_a_closed_folder_names_the_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root in a shell may enter the folder. The service may not, because it has no capabilities."""
    make_reachable(tmp_path)
    closed = tmp_path / "closed"
    (closed / "mounted").mkdir(parents=True)
    closed.chmod(0o750)
    os.chown(closed, 12345, 12345)
    (tmp_path / "status").write_text("NoNewPrivs:\t1\n")
    monkeypatch.setattr(sandbox, "_STATUS", str(tmp_path / "status"))

    def message() -> str:
        os.setgroups([])
        os.setgid(54321)
        os.setuid(54321)
        with pytest.raises(HostError) as raised:
            filesystems.filesystem_size(f"{closed}/mounted", ["1"])
        return str(raised.value)

    why = f"the size of {closed}/mounted could not be read: Permission denied (the sandbox of capacityd.service hides"
    assert forked(message).startswith(why)


HANGING = """
import signal, tempfile
from capacityd.host import filesystems, time_limit
from capacityd.model.errors import HostError
from tests.support.fuse import mounted
time_limit.TIMEOUT = 0.2
signal.alarm(20)
point = tempfile.mkdtemp()
with mounted(point), open("/proc/self/mountinfo") as table:
    try:
        filesystems.filesystem_size(point, [line.split()[0] for line in table])
    except HostError as e:
        print(str(e).replace(point, "/POINT"))
"""


@pytest.mark.skipif(not can_be_alone() or not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="needs /dev/fuse")
def test_a_file_system_that_hangs_is_unknown() -> None:
    assert run_alone("true", HANGING) == "the file system on /POINT did not respond within 0.2 s\n"
