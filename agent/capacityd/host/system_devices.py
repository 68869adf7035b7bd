"""The disks and interfaces that the operating system depends on: those below its file systems, swap and default route.

Nothing is guessed. Where the way down to the hardware can't be followed, the result says that it may be incomplete
(SystemDevices.incomplete_because), because a disk that is wrongly taken for free would be given to pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from capacityd.linux.filesystems import Backing, backing, has_device
from capacityd.linux.mountinfo import TABLE, Mount, mount_of, unescaped
from capacityd.model.errors import HostError
from capacityd.model.host import Host, SystemDevices, basename, resolve_link

OS_MOUNT_POINTS = ("/", "/boot", "/boot/efi", "/efi", "/etc", "/usr", "/var")
_NO_DISK = (Backing.MEMORY, Backing.SERVER)
_EXTENSIONS = ("confext", "sysext")  # what systemd-sysext(8) lays over /etc and /usr, made of files on / and /var
_ELSEWHERE = ("ram", "zram", "nbd", "rbd", "etherd")  # block devices in memory or across the network
_VIRTUAL = "/sys/devices/virtual/block/"
_NETS = "/sys/class/net"


def automount_unit(point: str) -> str:
    """The automount unit that systemd-gpt-auto-generator(8) creates for /boot or /efi, always on the root's disk."""
    return f"/run/systemd/generator.late{point}.automount"


def system_disks(host: Host) -> SystemDevices:
    """The whole disks below the machine's own file systems and its swap, through partitions, dm and md."""
    names: set[str] = set()
    reasons: list[str] = []
    try:
        mounts = [m for m in map(mount_of, host.lines(TABLE)) if m]
        if not any(m.point == "/" for m in mounts):
            reasons.append(f"cannot determine the system's disks: {TABLE} has no /")
        wanted = [m for m in mounts if m.point in OS_MOUNT_POINTS]
        wanted += _swaps(host, mounts)
        mounted = {m.point for m in wanted if m.type != "autofs"}
        for mount in wanted:
            if backing(mount.type) in _NO_DISK or (mount.type == "overlay" and mount.source in _EXTENSIONS):
                continue
            if mount.type == "autofs" and (mount.point in mounted or host.resolve(automount_unit(mount.point))):
                continue  # mounted by another line, or on the root's disk; an automount of fstab may be on any disk
            try:
                for block in _blocks(host, mount.number, mount.source):
                    _go_down(host, block, names, set())
            except HostError as e:
                reasons.append(f"cannot determine the disk of {mount.point} ({mount.type} from {mount.source}): {e}")
    except HostError as e:
        reasons.append(f"cannot determine the system's disks: {e}")
    return SystemDevices(frozenset(names), reasons[0] if reasons else "")


def _swaps(host: Host, mounts: Sequence[Mount]) -> Iterator[Mount]:
    """Swap areas as mounts; for a swap file, the mount of the file system that has it."""
    for line in host.lines("/proc/swaps")[1:]:
        name, kind = [*line.split(), "", ""][:2]
        name = unescaped(name)
        if kind == "file":
            # The last of the longest: a later mount hides the one below it.
            holders = [m for m in mounts if m.point == "/" or name.startswith(f"{m.point}/")]
            if holders:
                longest = max(len(m.point) for m in holders)
                yield next(m for m in reversed(holders) if len(m.point) == longest)
                continue
        yield Mount(id="", number="0:0", root="/", point=name, type="swap", source=name, options="")


def _blocks(host: Host, number: str, source: str) -> list[str]:
    """The block devices that a mount is on, as paths in /sys. Raises HostError if they are unknown."""
    if has_device(number):
        found = host.resolve(f"/sys/dev/block/{number}")
        if found is None:
            raise HostError(f"/sys/dev/block/{number} does not exist")
        return [found]
    # Major 0 is a number that btrfs, ZFS, overlay and others make up: only the source names the devices.
    if not source.startswith("/dev/"):
        raise HostError("its source is no block device")
    named = [_block(host, part) for part in source.split(":")]  # bcachefs names all its devices, btrfs only the first
    for pool in host.listdir("/sys/fs/btrfs"):
        devices = f"/sys/fs/btrfs/{pool}/devices"
        members = {m for name in host.listdir(devices) if (m := host.resolve(f"{devices}/{name}"))}
        if not members.isdisjoint(named):
            return sorted(members)
    return named


def _block(host: Host, source: str) -> str:
    """The path in /sys of a block device named as /dev/sda2 or /dev/mapper/root."""
    kernel = source.removeprefix("/dev/").replace("/", "!")
    found = host.resolve(f"/sys/class/block/{kernel}")
    if source.startswith("/dev/mapper/"):
        wanted = source.removeprefix("/dev/mapper/")
        for name in host.listdir("/sys/class/block"):
            if name.startswith("dm-") and host.text(f"/sys/class/block/{name}/dm/name") == wanted:
                found = host.resolve(f"/sys/class/block/{name}")
    if found is None and (node := basename(host.resolve(source))):  # /dev/disk/by-uuid/…
        found = host.resolve(f"/sys/class/block/{node}")
    if found is None:
        raise HostError(f"/sys knows no block device {source}")
    return found


def _go_down(host: Host, block: str, names: set[str], seen: set[str]) -> None:
    """Adds the disks below a block device. Raises HostError where the way down ends in something that is no disk."""
    if block in seen:
        return
    seen.add(block)
    if host.text(f"{block}/partition") is not None:
        block = block.rpartition("/")[0]
    below = host.listdir(f"{block}/slaves")
    for name in below:
        lower = host.resolve(f"{block}/slaves/{name}")
        if lower is None:
            raise HostError(f"{block}/slaves/{name} leads nowhere")
        _go_down(host, lower, names, seen)
    name = block.rpartition("/")[2]
    if below or name.partition("!")[0].rstrip("0123456789") in _ELSEWHERE:
        return
    if block.startswith(_VIRTUAL):
        raise HostError(f"the devices below {name} are unknown")  # loop, drbd, zd: it may be a file on any disk
    names.add(name)


def system_interfaces(host: Host) -> SystemDevices:
    """The interfaces that carry a default route, and those below: members of bonds and bridges, parents of VLANs."""
    names: set[str] = set()
    try:
        routes = host.default_interfaces()
        if not routes:
            # At boot the route may come later; a "no" would count the system's own link for a moment.
            return SystemDevices(frozenset(), "cannot determine the system's interface: no default route")
        tunnels = sorted(name for name in routes if not _reaches_hardware(host, name, names))
    except HostError as e:
        return SystemDevices(frozenset(names), f"cannot determine the system's interfaces: {e}")
    if tunnels:  # its packets leave through another interface
        return SystemDevices(
            frozenset(names), f"cannot determine the system's interface: default route through {tunnels[0]}"
        )
    return SystemDevices(frozenset(names))


def _reaches_hardware(host: Host, name: str, names: set[str]) -> bool:
    """Adds an interface and all below it. Whether any of them is hardware."""
    found, seen, waiting = False, set(), [name]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            found = found or resolve_link(host, f"{_NETS}/{name}/device") is not None
            waiting += [n.removeprefix("lower_") for n in host.listdir(f"{_NETS}/{name}") if n.startswith("lower_")]
    names |= seen
    return found
