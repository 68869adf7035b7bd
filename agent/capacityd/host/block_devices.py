"""The path in /sys of a block device that has a name in /dev."""

from __future__ import annotations

import os

from capacityd.model.errors import HostError
from capacityd.model.host import Host

_BLOCKS = "/sys/class/block"


def block_device_path(host: Host, node: str) -> str:
    """The path in /sys, without links, of a block device. node: such as /dev/sda2, /dev/mapper/root or a link to one.

    Raises HostError, also if there is no such device.
    """
    path = (
        _named_by_mapper(host, node)
        or _named_by_kernel(host, node)
        or _target_of_link(host, node)
        or _linked_by_udev(host, node)
    )
    if path is None:
        raise HostError(f"/sys knows no block device {node}")
    return path


def _named_by_kernel(host: Host, node: str) -> str | None:
    """The path in /sys of the device to which the kernel gives this name; None if there is none."""
    # A swap area has a path such as /zram0, without /dev, if /dev was unmounted after swapon(8) had opened the area.
    name = node.removeprefix("/dev").removeprefix("/").replace("/", "!")  # /dev/cciss/c0d0 is cciss!c0d0 in /sys
    return host.resolve(f"{_BLOCKS}/{name}")


def _named_by_mapper(host: Host, node: str) -> str | None:
    """The path in /sys of the device to which the device mapper gives this name; None if there is none."""
    if not node.startswith("/dev/mapper/"):
        return None
    wanted = node.removeprefix("/dev/mapper/")
    for name in host.listdir(_BLOCKS):
        if name.startswith("dm-") and host.text(f"{_BLOCKS}/{name}/dm/name") == wanted:
            return host.resolve(f"{_BLOCKS}/{name}")
    return None


def _target_of_link(host: Host, node: str) -> str | None:
    """The path in /sys of the device that a link such as /dev/disk/by-uuid/… leads to; None if it leads to none."""
    target = os.path.basename(host.resolve(node) or "")
    return host.resolve(f"{_BLOCKS}/{target}") if target else None


def _linked_by_udev(host: Host, node: str) -> str | None:
    """The path in /sys of the device for which udev made this link; None if udev knows no such device.

    The /dev of a service with PrivateDevices= lacks udev's links, but udev's database lists them.
    """
    if not node.startswith("/dev/"):
        return None
    for name in host.listdir(_BLOCKS):
        path = f"{_BLOCKS}/{name}"
        if node in (host.property(path, "DEVLINKS") or "").split():
            return host.resolve(path)
    return None
