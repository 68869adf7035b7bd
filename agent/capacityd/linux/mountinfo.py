"""Parses the kernel's mount table (proc_pid_mountinfo(5)), and finds the mount that a path leads to.

A byte of a path that is not UTF-8 becomes a surrogate. Paths are made printable only for messages.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from capacityd.linux.paths import is_inside, parents, steps_to

MOUNT_TABLE = "/proc/self/mountinfo"

AUTOMOUNT_OPTIONS = ("direct", "indirect", "offset")
"""The options that show the kind of an automount. Source: autofs_show_options in the kernel's fs/autofs/inode.c."""

READ_ONLY_OPTIONS = ("ro", "emergency_ro", "shutdown")
"""Options of a file system that accepts no write. After an error, ext4 may show emergency_ro or shutdown instead of ro.
Source: ext4_show_options in the kernel's fs/ext4/super.c."""

SUBVOLUME_OPTION = "subvol"
"""The option of btrfs whose value is the path of the subvolume that contains the mounted folder."""

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of the mount table."""

    id: str
    parent: str  # the id of the mount that contains the mount point
    major_minor: str  # of the file system; the major number is 0 if the file system is on no block device
    root: str  # the mounted folder of the file system; / if the whole file system is mounted
    point: str  # the mount point
    type: str  # the type of the file system
    source: str  # the mounted device or share
    options: str  # the options of the file system (super options), not those of the mount

    @property
    def read_only(self) -> bool:
        """Whether the file system itself is read-only, regardless of its mounts."""
        return any(option in READ_ONLY_OPTIONS for option in self.options.split(","))

    @property
    def is_subvolume(self) -> bool:
        """Whether this is a mount of a whole btrfs subvolume, not of a folder in a subvolume."""
        return self.type == "btrfs" and self.values([SUBVOLUME_OPTION]) == [self.root]

    @property
    def is_trigger(self) -> bool:
        """Whether the first access to this mount point mounts a file system over it.

        False for an indirect automount: an access to a folder in it mounts a file system on that folder.
        """
        return self.type == "autofs" and "indirect" not in self.options.split(",")

    def values(self, names: Collection[str]) -> list[str]:
        """The values of the options with these names, in the order of the options."""
        values = []
        for option in self.options.split(","):
            name, _, value = option.partition("=")
            if name in names:
                values.append(unescaped(value))
        return values


def mount_of(line: str) -> Mount | None:
    """Parses a line; None if it is malformed. The optional fields, which end at a hyphen, are ignored."""
    before_hyphen, _, after_hyphen = line.partition(" - ")
    mount_fields = before_hyphen.split(" ")
    filesystem_fields = after_hyphen.split(" ", 2)  # some kernels do not escape spaces in the options
    if len(mount_fields) < 6 or len(filesystem_fields) < 2:
        return None
    return Mount(
        id=mount_fields[0],
        parent=mount_fields[1],
        major_minor=mount_fields[2],
        root=unescaped(mount_fields[3]),
        point=unescaped(mount_fields[4]),
        type=filesystem_fields[0],
        source=unescaped(filesystem_fields[1]),
        options=filesystem_fields[2] if len(filesystem_fields) > 2 else "",
    )


class MountTree:
    """The mounts of a table as a tree: each mount lies on a mount point in the mount below it."""

    def __init__(self, mounts: Sequence[Mount]) -> None:
        """mounts: in the order of the table.

        The table lacks mounts outside of this process's root directory. If two mounts on one mount point have a parent
        that the table lacks, the later mount is above.
        """
        self._lowest: list[Mount] = []  # mounts without a mount below them
        # The keys contain id() of the object, not the field Mount.id.
        self._upper: dict[tuple[int, str], Mount] = {}  # id() of a mount, and a mount point in it -> the mount there
        self._lower: dict[int, Mount] = {}  # id() of a mount -> the mount below it
        by_id = {mount.id: mount for mount in mounts}
        for mount in mounts:
            lower = self._find_lower(mount, by_id.get(mount.parent))
            if lower is None:
                self._lowest.append(mount)
            else:
                self._upper[id(lower), mount.point] = mount
                self._lower[id(mount)] = lower

    def _find_lower(self, mount: Mount, parent: Mount | None) -> Mount | None:
        """The mount below a mount that is not in the tree yet. parent: the mount's parent; None if not in the table."""
        is_own_parent = parent is mount  # true for the first mount of a mount namespace
        if parent is not None and not is_own_parent and is_inside(mount.point, parent.point):
            return parent
        if mount.point == "/":
            return None
        return self.at(mount.point)

    def at(self, path: str) -> Mount | None:
        """The mount that an absolute path leads to; None if the table has none. Links are not resolved."""
        # The latest mount comes first, because max() returns the first of several mounts with points of equal length.
        bases = [lowest for lowest in reversed(self._lowest) if is_inside(path, lowest.point)]
        topmost = [self._topmost(base, path) for base in bases]
        return max(topmost, key=lambda mount: len(mount.point), default=None)

    def below(self, mount: Mount) -> Mount | None:
        """The mount that contains the mount point of this mount; None if the table has none."""
        return self._lower.get(id(mount))

    def target_before(self, mount: Mount, path: str) -> Mount | None:
        """The mount that an absolute path led to before this mount covered it; None if the table has none."""
        topmost = self.at(path)
        covered = topmost  # goes down the stack of mounts on this mount point
        while covered is not None and covered.point == mount.point:
            if covered is mount:
                return self.below(mount)
            covered = self.below(covered)
        return topmost

    def is_visible(self, mount: Mount) -> bool:
        """Whether the mount point leads to this mount. Otherwise, another mount hides this one."""
        bases = [lowest for lowest in self._lowest if is_inside(mount.point, lowest.point)]
        return any(self._topmost(base, mount.point) is mount for base in bases)

    def _topmost(self, mount: Mount, path: str) -> Mount:
        """The mount that the path leads to. mount: the lowest mount on the way."""
        for folder in steps_to(path):  # without /, because a mount over / does not change a process's root directory
            while (id(mount), folder) in self._upper:
                mount = self._upper[id(mount), folder]
        return mount


def mounts_of_whole_filesystem(mounts: Collection[Mount]) -> Iterator[Mount]:
    """Yields the mounts of the whole file system, not those of a folder in it. mounts: all mounts of one file system.

    A mount counts if its root is not inside the root of another mount. Two kinds of mounts always count: subvolumes of
    btrfs, which may lie inside each other, and the mount on /, which is a folder of /sysroot on some systems (OSTree).
    """
    roots = {mount.root for mount in mounts}
    for mount in mounts:
        always_counts = mount.is_subvolume or mount.point == "/"
        is_below_another = any(folder in roots for folder in parents(mount.root))
        if always_counts or not is_below_another:
            yield mount


def unescaped(text: str) -> str:
    r"""Decodes octal escapes, such as \040 for a space, in a path from mountinfo or /proc/swaps."""
    return _OCTAL.sub(lambda escape: chr(int(escape[1], 8)), text)
