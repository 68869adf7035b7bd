"""Tells whole disks from other block devices by their names and paths in /sys. Finds the device with a name in /dev."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from capacityd.model.errors import HostError
from capacityd.model.host import Host

_BLOCKS = "/sys/class/block"
_VIRTUAL = re.compile("/sys/devices/(virtual/(?!nvme-|net/)|pseudo_|tcm_loop_|vdpa)")
"""The beginning of the paths in /sys of block devices that software makes:

- virtual/: devices whose driver sets no parent device, and virtio disks of programs (VDUSE). Three folders are left
  out, because they contain real disks: virtual/nvme-subsystem (NVMe with several paths), virtual/nvme-fabrics (NVMe
  over a network) and virtual/net (FCoE over a VLAN)
- pseudo_: SCSI disks in memory (scsi_debug)
- tcm_loop_: SCSI disks that show disks and files of this machine (drivers/target/loopback)
- vdpa: simulated virtio disks (vdpa_sim)
"""
_SOFTWARE = ("dm-", "loop", "md", "ram", "zram")
"""Prefixes of names of block devices that software makes. No disk has a name with these prefixes."""
_NOT_DISKS = ("fd", "mtdblock", "rbd", "sr", "ubiblock")
"""Prefixes of names of block devices whose paths in /sys look like those of disks: floppy and optical drives (fd, sr),
flash chips (mtdblock, ubiblock) and network disks of Ceph (rbd)."""
_HARDWARE_IN_VIRTUAL = re.compile("fio[a-z]+")
"""Names of hardware in virtual/: the driver iomemory-vsl of Fusion-io's PCIe cards (fioa) sets no parent device. All
drivers of hardware in the kernel itself set one (device_add_disk)."""
_CARD = re.compile("mmcblk[0-9]+")
"""The name of a memory card's main area. Its other areas have block devices of their own: mmcblk0boot0, mmcblk0gp0, …
(drivers/mmc/core/mmc.c)."""


def is_no_disk_name(name: str) -> bool:
    """Whether a block device's name shows that the device is not a whole disk."""
    is_area_of_card = disk_of_area(name) != name
    return is_area_of_card or name.startswith((*_SOFTWARE, *_NOT_DISKS))


def disk_of_area(name: str) -> str:
    """The name of the memory card with this area, such as mmcblk0 for mmcblk0boot0. Other names are returned as is."""
    card = _CARD.match(name)
    return card[0] if card else name


def is_virtual(name: str, real: str) -> bool:
    """Whether software makes a block device. real: the device's path in /sys without links."""
    if _HARDWARE_IN_VIRTUAL.fullmatch(name):
        return False
    return _VIRTUAL.match(real) is not None


def block_device_path(host: Host, node: str) -> str:
    """The path in /sys, without links, of a block device. Raises HostError, also if /sys does not know the device.

    node: a path such as /dev/sda2 or /dev/mapper/root, or a link to such a path.
    """
    path = (
        _path_by_mapper_name(host, node)
        or _path_by_kernel_name(host, node)
        or _path_by_link(host, node)
        or _path_by_udev_link(host, node)
    )
    if path is None:
        raise HostError(f"/sys knows no block device {node}")
    return path


def bottom_devices(host: Host, block: str) -> Iterator[str]:
    """Yields the devices at the bottom of a stack of block devices (dm, md, bcache), such as disks and loop devices.

    block: the device at the top. This device and the yielded devices are paths in /sys without links. Instead of a
    partition, yields the device with the partition. Raises HostError.
    """
    is_partition = host.text(f"{block}/partition") is not None
    whole = os.path.dirname(block) if is_partition else block
    lower_names = host.listdir(f"{whole}/slaves")
    if not lower_names:
        yield whole
    for lower in lower_names:
        yield from bottom_devices(host, link_target(host, f"{whole}/slaves/{lower}"))


def link_target(host: Host, link: str) -> str:
    """The path of a link's target. Raises HostError if the link is dangling."""
    path = host.resolve(link)
    if path is None:
        raise HostError(f"{link} is a dangling link")
    return path


def _path_by_kernel_name(host: Host, node: str) -> str | None:
    """The path in /sys of the device to which the kernel gives this name; None if there is none."""
    # If /dev is unmounted after swapon(8), /proc/swaps shows /dev/zram0 as /zram0.
    name = node.removeprefix("/dev/").removeprefix("/")
    name_in_sys = name.replace("/", "!")  # /dev/cciss/c0d0 is cciss!c0d0 in /sys
    return host.resolve(f"{_BLOCKS}/{name_in_sys}")


def _path_by_mapper_name(host: Host, node: str) -> str | None:
    """The path in /sys of the device to which the device mapper gives this name; None if there is none."""
    if not node.startswith("/dev/mapper/"):
        return None
    wanted = node.removeprefix("/dev/mapper/")
    for name in host.listdir(_BLOCKS):
        if name.startswith("dm-") and host.text(f"{_BLOCKS}/{name}/dm/name") == wanted:
            return host.resolve(f"{_BLOCKS}/{name}")
    return None


def _path_by_link(host: Host, node: str) -> str | None:
    """The path in /sys of the device that a link such as /dev/disk/by-uuid/… leads to; None if there is none."""
    target = host.resolve(node)
    if target is None:
        return None
    return host.resolve(f"{_BLOCKS}/{os.path.basename(target)}")


def _path_by_udev_link(host: Host, node: str) -> str | None:
    """The path in /sys of the device for which udev made this link; None if udev knows no such device.

    The /dev of a service with PrivateDevices= lacks udev's links, but udev's database lists them.
    """
    if not node.startswith("/dev/"):
        return None
    for name in host.listdir(_BLOCKS):
        path = f"{_BLOCKS}/{name}"
        links = host.property(path, "DEVLINKS") or ""
        if node in links.split():
            return host.resolve(path)
    return None
