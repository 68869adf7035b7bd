"""The disks and interfaces that the operating system depends on, below its file systems, swap and default route.

Nothing is guessed: if the underlying hardware is unknown, the result says that it may be incomplete
(SystemDevices.incomplete_because). Otherwise, pods could get a disk that the machine needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from capacityd.host.disks import VIRTUAL, is_hardware_in_virtual
from capacityd.linux.filesystems import Backing, backing, has_device
from capacityd.linux.mountinfo import MOUNT_TABLE, Mount, mount_of, unescaped
from capacityd.model.errors import HostError
from capacityd.model.host import Host, SystemDevices, basename, resolve_link

OS_MOUNT_POINTS = ("/", "/boot", "/boot/efi", "/efi", "/etc", "/usr", "/var")
_NO_DISK = (Backing.MEMORY, Backing.SERVER)
_EXTENSIONS = ("confext", "sysext")  # mounted over /etc and /usr by systemd-sysext(8), from files on / and /var
_ELSEWHERE = ("ram", "zram", "nbd", "rbd", "etherd")  # block devices in memory or across the network
_NETS = "/sys/class/net"


def automount_unit(point: str) -> str:
    """The automount unit that systemd-gpt-auto-generator(8) creates for /boot or /efi, always on the root file system's
    disk."""
    return f"/run/systemd/generator.late{point}.automount"


def system_disks(host: Host) -> SystemDevices:
    """The whole disks below the machine's own file systems and swap, found through partitions, dm and md."""
    names: set[str] = set()
    reasons: list[str] = []
    try:
        mounts = [m for m in map(mount_of, host.lines(MOUNT_TABLE)) if m]
        if not any(m.point == "/" for m in mounts):
            reasons.append(f"cannot determine the system's disks: {MOUNT_TABLE} has no /")
        used = [m for m in mounts if m.point in OS_MOUNT_POINTS]
        used += _swaps(host, mounts)
        mounted = {m.point for m in used if m.type != "autofs"}
        for mount in used:
            if backing(mount.type) in _NO_DISK or (mount.type == "overlay" and mount.source in _EXTENSIONS):
                continue
            if mount.type == "autofs" and (mount.point in mounted or host.resolve(automount_unit(mount.point))):
                continue  # mounted by another line, or on the root's disk; an automount of fstab may be on any disk
            try:
                for block in _blocks(host, mount.number, mount.source):
                    for disk in _disks_below(host, block):
                        names.add(disk)  # disks found before an error also count
            except HostError as e:
                reasons.append(f"cannot determine the disk of {mount.point} ({mount.type} from {mount.source}): {e}")
    except HostError as e:
        reasons.append(f"cannot determine the system's disks: {e}")
    return SystemDevices(frozenset(names), reasons[0] if reasons else "")


def _swaps(host: Host, mounts: Sequence[Mount]) -> Iterator[Mount]:
    """Swap areas as mounts. For a swap file, the mount of the file system that contains it."""
    for line in host.lines("/proc/swaps")[1:]:
        name, kind = [*line.split(), "", ""][:2]
        name = unescaped(name)
        if kind == "file":
            # The last mount with the longest point: a later mount hides an earlier one.
            holders = [m for m in mounts if m.point == "/" or name.startswith(f"{m.point}/")]
            if holders:
                longest = max(len(m.point) for m in holders)
                yield next(m for m in reversed(holders) if len(m.point) == longest)
                continue
        yield Mount(id="", number="0:0", root="/", point=name, type="swap", source=name, options="")


def _blocks(host: Host, number: str, source: str) -> list[str]:
    """The block devices of a mount, as paths in /sys. Raises HostError if they are unknown."""
    if has_device(number):
        block = host.resolve(f"/sys/dev/block/{number}")
        if block is None:
            raise HostError(f"/sys/dev/block/{number} does not exist")
        return [block]
    # btrfs, ZFS, overlay and others have numbers with major 0: only the source names their devices.
    if not source.startswith("/dev/"):
        raise HostError("its source is not a block device")
    named = [_block(host, part) for part in source.split(":")]  # bcachefs names all its devices, btrfs only the first
    for pool in host.listdir("/sys/fs/btrfs"):
        devices = f"/sys/fs/btrfs/{pool}/devices"
        members = {_target(host, f"{devices}/{name}") for name in host.listdir(devices)}
        if not members.isdisjoint(named):
            return sorted(members)
    return named


def _block(host: Host, source: str) -> str:
    """The path in /sys of a block device named like /dev/sda2 or /dev/mapper/root."""
    kernel = source.removeprefix("/dev/").replace("/", "!")
    block = host.resolve(f"/sys/class/block/{kernel}")
    if source.startswith("/dev/mapper/"):
        wanted = source.removeprefix("/dev/mapper/")
        for name in host.listdir("/sys/class/block"):
            if name.startswith("dm-") and host.text(f"/sys/class/block/{name}/dm/name") == wanted:
                block = host.resolve(f"/sys/class/block/{name}")
    if block is None and (node := basename(host.resolve(source))):  # /dev/disk/by-uuid/…
        block = host.resolve(f"/sys/class/block/{node}")
    if block is None:
        raise HostError(f"/sys knows no block device {source}")
    return block


def _target(host: Host, link: str) -> str:
    """The path of a link's target. Raises HostError if the link is dangling."""
    path = host.resolve(link)
    if path is None:
        raise HostError(f"{link} is a dangling link")
    return path


def _disks_below(host: Host, block: str, above: Collection[str] = ()) -> Iterator[str]:
    """Yields the names of the disks below a block device. above: devices on the way down, to detect a cycle.

    Raises HostError after yielding the disks found before it, if a device below is not a disk.
    """
    if block in above:
        return
    path = block
    if host.text(f"{block}/partition") is not None:
        path = block.rpartition("/")[0]
    lower_names = host.listdir(f"{path}/slaves")
    for name in lower_names:
        yield from _disks_below(host, _target(host, f"{path}/slaves/{name}"), (*above, block))
    name = path.rpartition("/")[2]
    if lower_names or name.partition("!")[0].rstrip("0123456789") in _ELSEWHERE:
        return
    if path.startswith(VIRTUAL) and not is_hardware_in_virtual(name):
        raise HostError(f"the devices below {name} are unknown")  # loop, drbd, zd: may be a file on any disk
    yield name


def system_interfaces(host: Host) -> SystemDevices:
    """The interfaces that carry a default route, and those below: members of bonds and bridges, parents of VLANs."""
    names: set[str] = set()
    try:
        routes = host.default_interfaces()
        # At boot, the route may appear later. Until then, a "no" would count the system's own link.
        reason = "" if routes else "cannot determine the system's interface: no default route"
        for route in routes:
            interfaces = _interfaces_below(host, route)
            names.update(interfaces)
            if not any(resolve_link(host, f"{_NETS}/{name}/device") for name in interfaces):
                # A tunnel's packets leave through another interface.
                reason = reason or f"cannot determine the system's interface: default route through {route}"
    except HostError as e:
        reason = f"cannot determine the system's interfaces: {e}"
    return SystemDevices(frozenset(names), reason)


def _interfaces_below(host: Host, name: str) -> list[str]:
    """An interface and all interfaces below it. Raises HostError."""
    names: dict[str, None] = {}
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name not in names:
            names[name] = None
            waiting += [n.removeprefix("lower_") for n in host.listdir(f"{_NETS}/{name}") if n.startswith("lower_")]
    return [*names]
