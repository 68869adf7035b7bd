"""The whole disks below a file system, a file or a block device.

| what rests on a disk | where the kernel names the disk |
|---|---|
| a file system on a block device (ext4, XFS, fuseblk and others) | major:minor in mountinfo |
| btrfs, bcachefs | the source in mountinfo; all devices in /sys/fs/btrfs/*/devices and /sys/fs/bcachefs/*/dev-* |
| the log or real-time device of XFS, the journal of reiserfs | logdev=, rtdev=, jdev= in mountinfo |
| an external journal of ext4 | its name in /proc/fs/jbd2, where an internal journal has an inode number |
| overlay | lowerdir=, upperdir=, workdir= and others in mountinfo; a layer may be below the overlay itself |
| a file system in a file (erofs) | the source in mountinfo |
| an automount before the first access | the source in the unit |
| a swap file | the mount of its folder |
| a partition | its parent in /sys |
| dm (LVM, thin pools, LUKS, multipath), md, bcache | slaves/ in /sys |
| loop | loop/backing_file |
| zram with write-back | backing_dev |
| NVMe with several paths | the disk is nvme0n1, and its paths such as nvme0c0n1 do not count |

Memory (ram, tmpfs), flash chips (MTD, UBI) and servers (NFS, nbd, rbd) have no disk. A disk over iSCSI counts as a disk
of this machine. For everything else (ZFS, drbd, ublk, FUSE, …), the kernel names no disk, so HostError is raised.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence

from capacityd.host.automounts import automount
from capacityd.host.block_devices import block_device_path, bottom_devices, disk_of_area, is_virtual, link_target
from capacityd.host.regular_file import MAX_ATTRIBUTE_BYTES
from capacityd.linux.filesystem_types import Backing, backing, has_device
from capacityd.linux.mountinfo import Mount, MountTree
from capacityd.model.errors import HostError
from capacityd.model.host import Host

DEVICE_OPTIONS = ("logdev", "rtdev", "jdev", "journal_path")
"""Options of a file system that name a further device: xfs(5), and super.c in the kernel's fs/reiserfs and fs/ext4."""
LAYER_OPTIONS = ("lowerdir", "lowerdir+", "datadir+", "upperdir", "workdir")
"""Options of an overlay that name folders: Documentation/filesystems/overlayfs.rst."""
INITRAMFS_ROOT = "/sysroot"
"""The folder in dracut's initramfs that becomes / later. Overlays that the initramfs mounted keep this name in the
paths of their layers."""
EXT4_JOURNALS = "/proc/fs/jbd2"
"""Contains a folder for each journal of ext3, ext4 and ocfs2. sda2-8 is an internal journal, inode 8 of sda2. sdb1 is
an external journal, the device sdb1 (jbd2_journal_init_*() in the kernel's fs/jbd2/journal.c)."""
BCACHEFS = "/sys/fs/bcachefs"
"""Contains a folder for each file system of type bcachefs, which contains a folder dev-N for each device."""
_NO_DISK = (Backing.MEMORY, Backing.SERVER)
_FLASH_TYPES = ("jffs2", "ubifs")  # types of file systems on MTD and UBI, which are no block devices
_SYSEXT_SOURCES = ("confext", "sysext")
"""Sources of systemd-sysext(8)'s overlays. The layers are files on the disks of / and /var, which count anyway."""
_NAMES_WITHOUT_DISK = ("ram", "mtdblock", "ubiblock", "nbd", "rbd", "rnbd")
"""Names, without the number, of block devices in memory, on flash chips, or on a network."""
_LAYER_SEPARATOR = re.compile(r"(?<!\\):+")  # colons, but not the escaped ones in a folder's name
_ESCAPED = re.compile(r"\\(.)")


def layers_of(mount: Mount) -> list[str]:
    """The folders that an overlay consists of. mount: the overlay's line in the mount table.

    A colon separates layers. Two colons separate layers with metadata from layers with only data. If the overlay has
    layers with only data, the result leaves out the layers with metadata: composefs mounts them at no path, and stores
    the metadata on the disks of the data.

    An overlay at /usr may name its layer "usr", a relative path. This layer is the folder that the overlay covers.
    """
    lower = ":".join(mount.values(("lowerdir", "lowerdir+")))
    first_layers, _, data_layers = lower.partition("::")
    data_folders = _folders([data_layers, *mount.values(["datadir+"])])
    lower_folders = data_folders or _folders([first_layers])
    upper_folders = _folders(mount.values(("upperdir", "workdir")))
    layers = []
    for folder in [*lower_folders, *upper_folders]:
        is_mount_point = mount.point.endswith(f"/{folder}")
        layers.append(mount.point if is_mount_point else folder)
    return layers


def _folders(values: Sequence[str]) -> list[str]:
    """The folders that an overlay's options name. values: the options' values, in which names have escaped colons."""
    folders = []
    for value in values:
        folders += [_ESCAPED.sub(r"\1", escaped) for escaped in _LAYER_SEPARATOR.split(value) if escaped]
    return folders


class LowerDisks:
    """Finds the disks of one machine. Each method yields names of whole disks.

    If a disk can't be determined, the method raises HostError after yielding the other disks that it has found. In the
    error's message, "it" is what the caller asked about, such as a mount.

    visited: the ids of the mounts through which the search has come, to notice a path that leads back to itself.
    """

    def __init__(self, host: Host, tree: MountTree) -> None:
        self._host = host
        self._tree = tree

    def disks_of_mount(self, mount: Mount, visited: Collection[str] = ()) -> Iterator[str]:
        """The disks below a mounted file system."""
        if mount.id in visited:
            raise HostError("the path to its content leads back to itself")
        visited = (*visited, mount.id)
        if backing(mount.type) in _NO_DISK or mount.type in _FLASH_TYPES:
            return
        if mount.type == "overlay" and mount.source in _SYSEXT_SOURCES:
            return
        if mount.type == "autofs":
            yield from self._disks_of_automount(mount, visited)
        elif mount.type == "overlay":
            yield from self._disks_of_layers(mount, visited)
        elif has_device(mount.major_minor):
            yield from self.disks_of_major_minor(mount.major_minor, visited)
        else:
            yield from self._disks_of_source(mount, visited)
        if mount.type.startswith("ext"):  # ext3, ext4
            yield from self._disks_of_journals(mount.major_minor, visited)
        for node in mount.values(DEVICE_OPTIONS):
            yield from self.disks_of_node(node, visited)

    def disks_of_file(self, path: str, visited: Collection[str] = ()) -> Iterator[str]:
        """The disks below the file system that contains a file or folder."""
        mount = self._tree.at(path)
        if mount is None:
            raise HostError("no file system contains it")
        yield from self.disks_of_mount(mount, visited)

    def disks_of_node(self, node: str, visited: Collection[str] = ()) -> Iterator[str]:
        """The disks below a block device with a name in /dev, such as /dev/sda2 or /dev/mapper/root."""
        yield from self._disks_of_block(block_device_path(self._host, node), visited)

    def disks_of_major_minor(self, major_minor: str, visited: Collection[str] = ()) -> Iterator[str]:
        """The disks below the block device with this major:minor."""
        block = self._host.resolve(f"/sys/dev/block/{major_minor}")
        if block is None:
            raise HostError(f"/sys/dev/block/{major_minor} does not exist")
        yield from self._disks_of_block(block, visited)

    def _disks_of_source(self, mount: Mount, visited: Collection[str]) -> Iterator[str]:
        """The disks below a file system whose major number is 0. Only its source names its devices."""
        if mount.type == "erofs" and mount.source.startswith("/"):
            yield from self._disks_of_path(mount.source, visited)
            return
        if not mount.source.startswith("/dev/"):
            raise HostError("its source is not a block device")
        # The source of btrfs is one of its devices. The source of bcachefs may be all of its devices, with colons.
        devices = {block_device_path(self._host, node) for node in mount.source.split(":")}
        for links in self._links_to_devices():
            # Another file system's link may be dangling. For it, resolve() returns None, but link_target() would raise.
            targets = {self._host.resolve(link) for link in links}
            if devices & targets:
                devices |= {link_target(self._host, link) for link in links}
                break  # no device belongs to a second file system
        for block in sorted(devices):
            yield from self._disks_of_block(block, visited)

    def _links_to_devices(self) -> Iterator[Sequence[str]]:
        """Yields, for each file system of type btrfs or bcachefs, the links to its devices."""
        for filesystem in self._host.listdir("/sys/fs/btrfs"):
            folder = f"/sys/fs/btrfs/{filesystem}/devices"
            yield [f"{folder}/{name}" for name in self._host.listdir(folder)]
        for filesystem in self._host.listdir(BCACHEFS):
            folder = f"{BCACHEFS}/{filesystem}"
            names = [name for name in self._host.listdir(folder) if name.startswith("dev-")]
            yield [f"{folder}/{name}/block" for name in names]

    def _disks_of_layers(self, mount: Mount, visited: Collection[str]) -> Iterator[str]:
        """The disks below the folders of an overlay."""
        folders = layers_of(mount)
        if not folders:
            raise HostError("its layers are unknown")
        for folder in folders:
            was_in_initramfs = folder.startswith(f"{INITRAMFS_ROOT}/") and self._host.resolve(INITRAMFS_ROOT) is None
            if was_in_initramfs:  # the initramfs mounted the overlay, and what is / now was at INITRAMFS_ROOT
                folder = folder.removeprefix(INITRAMFS_ROOT)
            # A layer may be a folder that the overlay itself covers, so the mount before the overlay is searched.
            lower = self._tree.target_before(mount, self._resolved(folder))
            if lower is None:
                raise HostError(f"no file system contains {folder}")
            yield from self.disks_of_mount(lower, visited)

    def _disks_of_path(self, path: str, visited: Collection[str]) -> Iterator[str]:
        """The disks below a file, a folder or a device node.

        path: the path that the mounting process used, perhaps in another mount namespace.
        """
        real = self._resolved(path)
        if real.startswith("/dev/"):
            yield from self.disks_of_node(real, visited)
        else:
            yield from self.disks_of_file(real, visited)

    def _resolved(self, path: str) -> str:
        """The path with all links resolved. Raises HostError if the path is relative, or missing in this namespace."""
        real = self._host.resolve(path) if path.startswith("/") else None
        if real is None:
            raise HostError(f"{path} does not exist here")
        return real

    def _disks_of_automount(self, trigger: Mount, visited: Collection[str]) -> Iterator[str]:
        """The disks of the file system that an automount will mount."""
        unit = automount(self._host, trigger.point, source=trigger.source)
        if not unit.source.startswith("/dev/"):
            raise HostError(f"the automount {unit.name} has not mounted it yet")
        yield from self.disks_of_node(unit.source, visited)

    def _disks_of_journals(self, major_minor: str, visited: Collection[str]) -> Iterator[str]:
        """The disks of all external journals, unless the file system with this major:minor has an internal journal.

        The kernel does not show which external journal belongs to which file system.
        """
        journals = self._host.listdir(EXT4_JOURNALS)
        device = self._host.resolve(f"/sys/dev/block/{major_minor}") or ""
        device_name = re.escape(os.path.basename(device))
        if any(re.fullmatch(f"{device_name}-[0-9]+", journal) for journal in journals):  # an internal journal
            return
        for journal in journals:
            # Only an external journal has the name of a block device.
            if block := self._host.resolve(f"/sys/class/block/{journal}"):
                yield from self._disks_of_block(block, visited)

    def _disks_of_block(self, block: str, visited: Collection[str]) -> Iterator[str]:
        """The disks below a block device. block: its path in /sys."""
        for bottom in bottom_devices(self._host, block):
            yield from self._disks_of_bottom(bottom, visited)

    def _disks_of_bottom(self, block: str, visited: Collection[str]) -> Iterator[str]:
        """The disks below a block device without slaves."""
        name = os.path.basename(block)
        kind = name.partition("!")[0].rstrip("0123456789")  # loop7 -> loop, cciss!c0d0 -> cciss
        if kind in _NAMES_WITHOUT_DISK:
            return
        if kind == "loop":
            # raw(), because text() would make the path printable.
            path = self._host.raw(f"{block}/loop/backing_file", MAX_ATTRIBUTE_BYTES).removesuffix("\n")
            yield from self._disks_of_path(path, visited)
        elif kind == "zram":
            node = self._host.text(f"{block}/backing_dev")
            if node and node != "none":
                yield from self.disks_of_node(node, visited)
        elif is_virtual(name, block):
            raise HostError(f"the devices below {name} are unknown")  # drbd, ublk, zd (ZFS)
        else:
            yield disk_of_area(name)
