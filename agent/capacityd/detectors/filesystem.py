"""filesystem: mounted file systems and their size, each once however often it is mounted. Local ones with a device.

The server of a network file system may be gone, and asking it for its size then hangs. So the kind, which the type
tells, is looked at before anything is asked of the file system itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from capacityd.errors import HostError
from capacityd.host import Host
from capacityd.host.mountinfo import TABLE
from capacityd.host.mounts import LOCAL, Filesystem, filesystems
from capacityd.host.system import OURS
from capacityd.kinds import Amount, Choice, Flag, Text
from capacityd.model import Device, DeviceDetector, Key, Value
from capacityd.pods import is_of_pods
from capacityd.printable import printable

_KINDS = ("local", "image", "memory", "network", "overlay", "pseudo")
_BY_TYPE = {
    **dict.fromkeys(("cramfs", "erofs", "iso9660", "romfs", "squashfs", "udf"), "image"),
    **dict.fromkeys(("ramfs", "rootfs", "tmpfs"), "memory"),
    **dict.fromkeys(("9p", "afs", "beegfs", "ceph", "cifs", "fuse", "gfs2", "glusterfs", "lustre"), "network"),
    **dict.fromkeys(("ncpfs", "nfs", "nfs4", "ocfs2", "smb3", "smbfs", "virtiofs"), "network"),
    **dict.fromkeys(("aufs", "ecryptfs", "overlay", "unionfs"), "overlay"),
    **dict.fromkeys(LOCAL, "local"),
}


def find(host: Host) -> Iterator[Device]:
    """All mounted file systems, but those of pods: their volumes come and go, and are nothing that the machine has."""
    for found in filesystems(host):
        points = tuple(point for point in found.points if not is_of_pods(point))
        if points:
            partition = host.resolve(f"/sys/dev/block/{found.number}")
            said: dict[str, Value] = {
                "mount": points[0] if len(points) == 1 else points,
                "type": found.type,
                "kind": _kind(found),
                "source": found.source,
                "read_only": found.read_only,
                "system": any(point in OURS for point in points),
                "ids": tuple(sorted(found.ids)),
            }
            yield Device(partition or TABLE, printable(points[0]), said=said)


def _kind(found: Filesystem) -> str:
    if kind := _BY_TYPE.get(found.type.partition(".")[0]):
        return kind
    return "pseudo" if found.number.startswith("0:") else "local"


def _said(key: str) -> Callable[[Host, Device], Value]:
    return lambda _, device: device.said[key]


def _size(host: Host, device: Device) -> Value:
    """As statvfs(2) tells it: what is taken or kept for root counts, too; the file system's own tables don't."""
    ids = device.said["ids"]
    points = device.said["mount"]
    why: HostError | None = None
    for point in (points,) if isinstance(points, str) else points if isinstance(points, tuple) else ():
        try:
            return host.filesystem_size(point, ids if isinstance(ids, tuple) else ())
        except HostError as e:
            why = why or e
    raise why or HostError("it is mounted nowhere")


DETECTOR = DeviceDetector(
    name="filesystem",
    about='mounted file systems with a disk below them, unless the table says kind = "network" or another',
    find=find,
    keys={
        "mount": Key(Text(), _said("mount"), "where it is mounted as a whole; any of several places matches"),
        "type": Key(Text(), _said("type"), "such as ext4, xfs or btrfs"),
        "kind": Key(
            Choice(_KINDS),
            _said("kind"),
            "local, image (squashfs, …), memory (tmpfs), network (NFS, FUSE, …), overlay or pseudo (all else)",
        ),
        "source": Key(Text(), _said("source"), "what was mounted, such as /dev/sda1 or /dev/mapper/data"),
        "read_only": Key(Flag(), _said("read_only"), "whether nothing can be written to it, wherever it is mounted"),
        "system": Key(Flag(), _said("system"), f"whether it is mounted on one of {', '.join(OURS)}"),
        "size": Key(
            Amount("size"),
            _size,
            "its size, free or not, as df tells it; each dataset of ZFS has what is free in its pool",
        ),
    },
    identity=("mount", "source"),
    alike=("type",),
    defaults={"kind": "local"},
    mounts=True,
    suggest={"system": False},
    listed=False,
)
