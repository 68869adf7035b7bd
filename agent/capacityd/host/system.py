"""Which disks and interfaces the machine itself stands on: those below its file systems, swap and default route.

Nothing here guesses. What can't be followed down to the hardware is left as a doubt in the answer (host.System), since
calling such a disk free would hand out the one that the machine runs on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from capacityd.errors import HostError
from capacityd.host import Host, System, last_name
from capacityd.host.mountinfo import TABLE, Mount, mount_of, unescaped

OURS = ("/", "/boot", "/boot/efi", "/efi", "/etc", "/usr", "/var")
_NO_DISK = ("9p", "ceph", "cifs", "nfs", "nfs4", "ramfs", "rootfs", "smb3", "tmpfs", "virtiofs")
_EXTENSIONS = ("confext", "sysext")  # what systemd-sysext(8) lays over /etc and /usr, made of files on / and /var
_ELSEWHERE = ("ram", "zram", "nbd", "rbd", "etherd")  # block devices in memory or across the network
_VIRTUAL = "/sys/devices/virtual/block/"
_NETS = "/sys/class/net"


def generated(point: str) -> str:
    """The unit by which systemd-gpt-auto-generator(8) has something mounted on /boot or /efi when somebody first looks.
    It takes partitions of the root's disk only."""
    return f"/run/systemd/generator.late{point}.automount"


def system_disks(host: Host) -> System:
    """The whole disks below the machine's own file systems and its swap, through partitions, dm and md."""
    names: set[str] = set()
    doubts: list[str] = []
    try:
        mounts = [m for m in map(mount_of, host.lines(TABLE)) if m]
        if not any(m.point == "/" for m in mounts):
            doubts.append(f"{TABLE} does not tell what / is on, so neither which disk is the system's")
        wanted = [m for m in mounts if m.point in OURS]
        wanted += _swaps(host, mounts)
        mounted = {m.point for m in wanted if m.type != "autofs"}
        for mount in wanted:
            if mount.type in _NO_DISK or (mount.type == "overlay" and mount.source in _EXTENSIONS):
                continue
            if mount.type == "autofs" and (mount.point in mounted or host.resolve(generated(mount.point))):
                continue  # told by a line of its own, or on the disk of the root; one of fstab may be of any disk
            try:
                for block in _blocks(host, mount.number, mount.source):
                    _go_down(host, block, names, set())
            except HostError as e:
                doubts.append(f"can't tell which disk {mount.point} is on ({mount.type} from {mount.source}): {e}")
    except HostError as e:
        doubts.append(f"can't tell which disks are the system's: {e}")
    return System(frozenset(names), doubts[0] if doubts else "")


def _swaps(host: Host, mounts: Sequence[Mount]) -> Iterator[Mount]:
    """Swap as if it were mounted; a swap file stands where the file system stands that holds it."""
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
        yield Mount(id="", number="0:0", root="/", point=name, type="swap", source=name, read_only=False)


def _blocks(host: Host, number: str, source: str) -> list[str]:
    """The block devices that a mount is on, as paths in /sys. Raises HostError if they can't be told."""
    if not number.startswith("0:"):
        found = host.resolve(f"/sys/dev/block/{number}")
        if found is None:
            raise HostError(f"/sys/dev/block/{number} does not exist")
        return [found]
    # Major 0 is a number that btrfs, ZFS, overlay and others make up: only the source tells.
    if not source.startswith("/dev/"):
        raise HostError("its source is no block device")
    named = [_block(host, part) for part in source.split(":")]  # bcachefs names all its devices, btrfs only the first
    for pool in host.names("/sys/fs/btrfs"):
        devices = f"/sys/fs/btrfs/{pool}/devices"
        members = {m for name in host.names(devices) if (m := host.resolve(f"{devices}/{name}"))}
        if not members.isdisjoint(named):
            return sorted(members)
    return named


def _block(host: Host, source: str) -> str:
    """The path in /sys of a block device named as /dev/sda2 or /dev/mapper/root."""
    kernel = source.removeprefix("/dev/").replace("/", "!")
    found = host.resolve(f"/sys/class/block/{kernel}")
    if source.startswith("/dev/mapper/"):
        wanted = source.removeprefix("/dev/mapper/")
        for name in host.names("/sys/class/block"):
            if name.startswith("dm-") and host.text(f"/sys/class/block/{name}/dm/name") == wanted:
                found = host.resolve(f"/sys/class/block/{name}")
    if found is None and (node := last_name(host.resolve(source))):  # /dev/disk/by-uuid/…
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
    below = host.names(f"{block}/slaves")
    for name in below:
        lower = host.resolve(f"{block}/slaves/{name}")
        if lower is None:
            raise HostError(f"{block}/slaves/{name} leads nowhere")
        _go_down(host, lower, names, seen)
    name = block.rpartition("/")[2]
    if below or name.partition("!")[0].rstrip("0123456789") in _ELSEWHERE:
        return
    if block.startswith(_VIRTUAL):
        raise HostError(f"what is below {name} can't be told")  # loop, drbd, zd: it may be a file on any disk
    names.add(name)


def system_interfaces(host: Host) -> System:
    """The interfaces that carry a default route, and those below: members of bonds and bridges, parents of VLANs."""
    names: set[str] = set()
    try:
        routes = host.default_interfaces()
        if not routes:
            # At boot that may just be too early: a "no" would count the machine's own link for a moment.
            return System(frozenset(), "there is no default route, so it can't be told which interface is the system's")
        tunnels = sorted(name for name in routes if not _reaches_hardware(host, name, names))
    except HostError as e:
        return System(frozenset(names), f"can't tell which interfaces are the system's: {e}")
    if tunnels:  # its packets leave through some other interface
        return System(frozenset(names), f"a default route is through {tunnels[0]}; what is below that can't be told")
    return System(frozenset(names))


def _reaches_hardware(host: Host, name: str, names: set[str]) -> bool:
    """Adds an interface and all below it. Whether any of them is hardware."""
    found, seen, waiting = False, set(), [name]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            found = found or host.resolve(f"{_NETS}/{name}/device") is not None
            waiting += [n.removeprefix("lower_") for n in host.names(f"{_NETS}/{name}") if n.startswith("lower_")]
    names |= seen
    return found
