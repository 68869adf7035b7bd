"""The path in /sys of a block device that has a name in /dev."""

from __future__ import annotations

from capacityd.model.errors import HostError
from capacityd.model.host import Host, basename

_BLOCKS = "/sys/class/block"


def block_device_path(host: Host, node: str) -> str:
    """The path in /sys, without links, of a block device. node: such as /dev/sda2, /dev/mapper/root or a link to one.

    Raises HostError, also if there is no such device.
    """
    path = _named_by_mapper(host, node) or _named_by_kernel(host, node)
    if path is None and (target := basename(host.resolve(node))):  # /dev/disk/by-uuid/…
        path = host.resolve(f"{_BLOCKS}/{target}")
    if path is None and node.startswith("/dev/"):
        path = _linked_by_udev(host, node)
    if path is None:
        raise HostError(f"/sys knows no block device {node}")
    return path


def _named_by_kernel(host: Host, node: str) -> str | None:
    """The path of the device to which the kernel gives this name; None if there is none."""
    # Without /dev/, because a swap area keeps the path /zram0 if the mount of /dev that it was opened on has gone.
    name = node.removeprefix("/dev").removeprefix("/").replace("/", "!")
    return host.resolve(f"{_BLOCKS}/{name}")


def _named_by_mapper(host: Host, node: str) -> str | None:
    """The path of the device to which the device mapper gives this name; None if there is none."""
    if not node.startswith("/dev/mapper/"):
        return None
    wanted = node.removeprefix("/dev/mapper/")
    for name in host.listdir(_BLOCKS):
        if name.startswith("dm-") and host.text(f"{_BLOCKS}/{name}/dm/name") == wanted:
            return host.resolve(f"{_BLOCKS}/{name}")
    return None


def _linked_by_udev(host: Host, node: str) -> str | None:
    """The path of the device for which udev made this link; None if udev knows none.

    The links themselves do not lead there in the service, because its /dev has none.
    """
    for name in host.listdir(_BLOCKS):
        path = f"{_BLOCKS}/{name}"
        if node in (host.property(path, "DEVLINKS") or "").split():
            return host.resolve(path)
    return None
