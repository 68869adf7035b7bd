"""filesystem: mounted file systems and their sizes. Each counts once, even if it is mounted several times.

By default, only local file systems count. The kind is determined from the mount table, not by statvfs(2), which hangs
if the server of a network file system does not respond.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import cast

from capacityd.host.automounts import automount
from capacityd.host.block_devices import block_device_path, bottom_devices
from capacityd.host.filesystems import Filesystem, filesystems
from capacityd.host.system_disks import is_of_system, system_filesystems
from capacityd.linux.filesystem_types import KINDS, has_device, kind_of
from capacityd.linux.mountinfo import MOUNT_TABLE
from capacityd.linux.paths import is_inside
from capacityd.model.errors import HostError
from capacityd.model.host import Host, SystemDevices
from capacityd.model.reasons import KernelEvents
from capacityd.model.text import printable
from capacityd.schema.device import Device, DeviceDetector, DeviceKey
from capacityd.schema.matchers import Value
from capacityd.schema.mistakes import FINAL_SLASH, NOT_ABSOLUTE
from capacityd.schema.value_types import Amount, Choice, Flag, Kind, Text

_PSEUDO_FOLDERS = ("/proc", "/sys")
"""Folders in which only interfaces of the kernel are mounted."""
_KINDS_WITHOUT_DISK: Mapping[str, str] = {"loop": "image", "ram": "memory", "zram": "memory"}
"""Block devices in a file or in memory: name without the number -> kind of a file system on the device. The bytes of
such a file system already count as part of the file's file system, or as memory."""


def find(host: Host) -> Iterator[Device]:
    """Yields every mounted file system except for pods' volumes, which do not belong to the machine.

    Also yields each file system that an automount will mount at the first access. Some of its values are unknown.
    """
    read_system_filesystems = cache(partial(system_filesystems, host))  # lists them only once for all file systems
    for filesystem in filesystems(host):
        if filesystem.mount.is_trigger:  # an automount: the file system itself is not mounted yet
            for point in filesystem.points:
                yield _unmounted(host, point, source=filesystem.mount.source)
        elif filesystem.points:  # a volume that only pods use has no mount point of the machine
            yield _mounted(host, filesystem, read_system_filesystems)


def _mounted(host: Host, filesystem: Filesystem, read_system_filesystems: Callable[[], SystemDevices]) -> Device:
    """The device of a mounted file system. The device's detector_data is the Filesystem."""
    mount = filesystem.mount
    block_device = host.resolve(f"/sys/dev/block/{mount.major_minor}")  # None: on no block device in /sys
    kind = kind_of(mount.type, on_device=has_device(mount.major_minor))
    if kind == "local":
        kind = _kind_by_devices(host, mount.source, block_device)
    points = tuple(map(printable, filesystem.points))
    mount_value: Value = points[0] if len(points) == 1 else points
    return Device(
        path=block_device or MOUNT_TABLE,  # the mount table shows that the file system exists
        name=points[0],
        read_system_devices=read_system_filesystems,
        cached_values={
            "mount": mount_value,
            "type": printable(mount.type),
            "kind": kind,
            "source": printable(mount.source),
            "read_only": mount.read_only,
        },
        detector_data=filesystem,
    )


def _kind_by_devices(host: Host, source: str, block_device: str | None) -> str:
    """The kind of a file system on block devices: "image" or "memory" if all devices at the bottom are of this kind,
    such as loop0 below LUKS; otherwise "local".

    block_device: its path in /sys; None for btrfs and bcachefs, whose source names a device.
    """
    if block_device is None and not source.startswith("/dev/"):
        return "local"  # ZFS, or a flash chip
    first_device, _, _ = source.partition(":")  # bcachefs may list all its devices there
    kinds = set()
    try:
        for device in bottom_devices(host, block_device or block_device_path(host, first_device)):
            name = os.path.basename(device).rstrip("0123456789")
            kinds.add(_KINDS_WITHOUT_DISK.get(name, "local"))
    except HostError:  # the devices are unknown
        return "local"
    return kinds.pop() if len(kinds) == 1 else "local"


def _unmounted(host: Host, point: str, *, source: str) -> Device:
    """The device of a file system that an automount will mount at the first access.

    Only a unit of systemd says what will be mounted. The device's detector_data is a text: why its other values are
    unknown. source: the automount's source in the mount table.
    """
    unit = automount(host, point, source)
    cached_values: dict[str, Value] = {"mount": printable(point), "system": is_of_system(point)}
    if unit.type:  # "": unknown
        cached_values["type"] = unit.type
        cached_values["kind"] = kind_of(unit.type, on_device=unit.source.startswith("/dev/"))
    elif any(is_inside(point, folder) for folder in _PSEUDO_FOLDERS):
        cached_values["kind"] = "pseudo"
    why_unknown = f"the automount {unit.name} mounts it at the first access, which has not happened"
    return Device(path=MOUNT_TABLE, name=printable(point), cached_values=cached_values, detector_data=why_unknown)


def _known_key(name: str, kind: Kind, about: str) -> DeviceKey:
    """The key of this name, whose value find() has read.

    Its value is unknown if the file system is not mounted yet, and the automount's unit lacks the value.
    """

    def read(_: Host, device: Device) -> Value:
        if name not in device.cached_values:
            raise HostError(str(device.detector_data))  # why_unknown of _unmounted()
        return device.cached_values[name]

    return DeviceKey(kind, read, about)


def _system(_: Host, device: Device) -> Value:
    """Whether the machine needs the file system, or one of its folders that is also mounted elsewhere (bind mount)."""
    if device.read_system_devices is None:  # not mounted yet
        return device.cached_values["system"]
    filesystem = cast(Filesystem, device.detector_data)
    if any(map(is_of_system, filesystem.points)):
        return True
    return device.read_system_devices().has(filesystem.mount.major_minor)  # system_filesystems() lists major:minor


def _size(host: Host, device: Device) -> Value:
    """The size in bytes by statvfs(2). Includes used space and root's reserve, but not the file system's own tables.

    None if a file system of the kind "pseudo" reports no size. Raises HostError if any other file system reports no
    size, for example that of a FUSE program.
    """
    if isinstance(device.detector_data, str):  # not mounted yet: why_unknown of _unmounted()
        raise HostError(device.detector_data)
    filesystem = cast(Filesystem, device.detector_data)
    error: HostError | None = None
    for point in filesystem.points:
        try:
            size = host.filesystem_size(point, mount_ids=filesystem.mount_ids)
        except HostError as e:
            error = error or e
            continue
        if size:
            return size
        if device.cached_values["kind"] == "pseudo":
            return None
        # This error concerns the file system itself, so it replaces the error of an earlier, unreadable mount point.
        error = HostError(f"the file system on {point} reports no size")
    raise error or HostError("the file system is not mounted anywhere")


DETECTOR = DeviceDetector(
    name="filesystem",
    about='mounted file systems on disks, unless the table has kind = "network" or another',
    find=find,
    keys={
        # / counts even if only a folder of the file system is mounted there, as by OSTree.
        "mount": _known_key(
            "mount",
            Text(rejects=(NOT_ABSOLUTE, FINAL_SLASH)),
            "mount point of the whole file system or of a btrfs subvolume, or /; if there are "
            "several mount points, each of them matches",
        ),
        "type": _known_key("type", Text(), "such as ext4, xfs or btrfs"),
        "kind": _known_key(
            "kind",
            Choice(KINDS),
            "local, image (squashfs, loop devices, …), memory (tmpfs, zram), network (NFS, FUSE, …), overlay or "
            "pseudo (all others)",
        ),
        "source": _known_key("source", Text(), "the mounted device or share, such as /dev/sda1 or /dev/mapper/data"),
        "read_only": _known_key(
            "read_only", Flag(), "whether the file system itself is read-only, at every mount point"
        ),
        "system": DeviceKey(
            Flag(),
            _system,
            "whether the file system is the machine's own (mounted at / or /var, or in /boot, /efi, /etc, /gnu, /nix "
            "or /usr), or stores data of the kubelet or of containers",
        ),
        "size": DeviceKey(
            Amount("size"),
            _size,
            "used, free and reserved for root (5% of ext4); for ZFS, each dataset includes the free space of its pool",
        ),
    },
    identifying_keys=("mount", "source"),
    model_keys=("type",),
    defaults={"kind": "local"},
    kernel_events=frozenset({KernelEvents.MOUNTS}),
    suggestion_filter={"system": False},
    shown_by_default=False,
)
