"""filesystem: mounted file systems and their sizes. Each counts once, even if mounted several times; local ones by
default.

statvfs(2) hangs on a network file system whose server does not respond, so only the mount table decides the kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from capacityd.host.automounts import automount
from capacityd.host.filesystems import Filesystem, filesystems
from capacityd.host.system_disks import NODE_FOLDERS, OS_FOLDERS, OS_TREES, is_of_system, system_filesystems
from capacityd.linux.filesystems import KINDS, has_device, is_of_pods, kind_of
from capacityd.linux.mountinfo import MOUNT_TABLE, is_inside
from capacityd.model.config import Resource
from capacityd.model.device import Device, DeviceDetector, Key
from capacityd.model.errors import HostError
from capacityd.model.event_filters import EventFilters, MountFilter, Pattern
from capacityd.model.host import Host, SystemDevices
from capacityd.model.matchers import Value
from capacityd.model.mistakes import FINAL_SLASH, NOT_ABSOLUTE
from capacityd.model.reasons import KernelEvents
from capacityd.model.text import printable
from capacityd.model.value_types import Amount, Choice, Flag, Text

_ON_DEVICE = ("/dev/", "UUID=", "LABEL=", "PARTUUID=", "PARTLABEL=", "ID=")
"""How the sources of file systems on a block device start in units and in fstab(5)."""
_KERNEL_FOLDERS = ("/proc", "/sys")


def find(host: Host) -> Iterator[Device]:
    """Yields every mounted file system except for pods' volumes, which do not belong to the machine.

    A file system behind an automount that is waiting for an access is also yielded, with unknown values.
    """

    @cache
    def system() -> SystemDevices:
        return system_filesystems(host)

    for filesystem in filesystems(host):
        points = tuple(point for point in filesystem.points if not is_of_pods(point, filesystem.type))
        if points and filesystem.is_trigger:
            yield from (_unmounted(host, filesystem, point) for point in points)
        elif points:
            partition = host.resolve(f"/sys/dev/block/{filesystem.number}")
            cached_values: dict[str, Value] = {
                "mount": printable(points[0]) if len(points) == 1 else tuple(map(printable, points)),
                "points": points,
                "type": printable(filesystem.type),
                "kind": kind_of(filesystem.type, on_device=has_device(filesystem.number)),
                "source": printable(filesystem.source),
                "read_only": filesystem.read_only,
                "number": filesystem.number,
                "ids": tuple(sorted(filesystem.ids)),
            }
            yield Device(partition or MOUNT_TABLE, printable(points[0]), system, cached_values)


def _unmounted(host: Host, trigger: Filesystem, point: str) -> Device:
    """The file system behind an automount. Only a unit of systemd says what it is."""
    known = automount(host, point, trigger.source)
    reason = f"the automount {known.name} mounts it at the first access, which has not happened"
    cached_values: dict[str, Value] = {
        "mount": printable(point),
        "system": is_of_system(point),
        "unmounted": reason,
    }
    if known.type:
        cached_values["type"] = known.type
        cached_values["kind"] = kind_of(known.type, on_device=known.source.startswith(_ON_DEVICE))
    elif any(is_inside(point, folder) for folder in _KERNEL_FOLDERS):
        cached_values["kind"] = "pseudo"
    return Device(MOUNT_TABLE, printable(point), cached_values=cached_values)


def _value(key: str) -> Callable[[Host, Device], Value]:
    """Reads a key from the device's cached values. Raises HostError if an automount hides it."""

    def read(_: Host, device: Device) -> Value:
        if key not in device.cached_values:
            raise HostError(str(device.cached_values["unmounted"]))
        return device.cached_values[key]

    return read


def _system(_: Host, device: Device) -> Value:
    """Whether the machine needs the file system; it may do so by a mount of a part, such as a bind mount."""
    points = device.cached_values.get("points")
    if device.system_devices is None or not isinstance(points, tuple):
        return device.cached_values["system"]  # of an automount
    return any(map(is_of_system, points)) or device.system_devices().has(str(device.cached_values["number"]))


def _size(host: Host, device: Device) -> Value:
    """The size in bytes by statvfs(2). Includes used space and root's reserve, but not the file system's own tables.

    None for a kernel interface. Raises HostError if another file system reports no size, as some FUSE programs do.
    """
    if "unmounted" in device.cached_values:
        raise HostError(str(device.cached_values["unmounted"]))
    ids, points = device.cached_values["ids"], device.cached_values["points"]
    error: HostError | None = None
    for point in points if isinstance(points, tuple) else ():
        try:
            size = host.filesystem_size(point, ids if isinstance(ids, tuple) else ())
        except HostError as e:
            error = error or e
        else:
            if size or device.cached_values["kind"] == "pseudo":
                return size or None
            error = HostError(f"the file system on {point} reports no size")
    raise error or HostError("the file system is not mounted anywhere")


def _filters(resource: Resource) -> EventFilters:
    """Mounts of the kinds that the resource counts, at its mount points; and mounts that make one the system's."""
    counted = tuple(
        Pattern(kind, point)
        for table in resource.tables
        for kind in KINDS
        if table.may_match("kind", kind)
        for point in table.globs("mount")
    )
    if not resource.tests("system"):
        return EventFilters(MountFilter(counted))
    return EventFilters(MountFilter(counted, points=frozenset({*OS_FOLDERS, *NODE_FOLDERS}), trees=OS_TREES))


DETECTOR = DeviceDetector(
    name="filesystem",
    about='mounted file systems on disks, unless the table has kind = "network" or another',
    find=find,
    keys={
        "mount": Key(
            Text(mistakes=(NOT_ABSOLUTE, FINAL_SLASH)),
            _value("mount"),
            "mount point of the whole file system or of a btrfs subvolume, or /; if there are several, any of them "
            "matches",
        ),
        "type": Key(Text(), _value("type"), "such as ext4, xfs or btrfs"),
        "kind": Key(
            Choice(KINDS),
            _value("kind"),
            "local, image (squashfs, …), memory (tmpfs), network (NFS, FUSE, …), overlay or pseudo (all others)",
        ),
        "source": Key(Text(), _value("source"), "the mounted device or share, such as /dev/sda1 or /dev/mapper/data"),
        "read_only": Key(
            Flag(), _value("read_only"), "whether the file system itself is read-only, at every mount point"
        ),
        "system": Key(
            Flag(),
            _system,
            "whether it is the machine's own (mounted at / or /var, or in /boot, /efi, /etc, /gnu, /nix or /usr), "
            "or stores data of the kubelet or of containers",
        ),
        "size": Key(
            Amount("size"),
            _size,
            "the size, free or not, as df prints it; for ZFS, each dataset includes the free space of its pool",
        ),
    },
    identity=("mount", "source"),
    same_model=("type",),
    defaults={"kind": "local"},
    events=frozenset({KernelEvents.MOUNTS}),
    filters=_filters,
    suggest={"system": False},
    shown_by_default=False,
)
