"""Paths outside of /sys that a recording contains, because mounts, swap areas, loop devices or automounts name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from capacityd.host.automounts import (
    GPT_AUTOMOUNTS,
    UNIT_FOLDERS,
    gpt_automount_unit,
    mount_settings,
    source_without_tag,
    unit_name,
)
from capacityd.host.lower_disks import DEVICE_OPTIONS, INITRAMFS_ROOT, layers_of
from capacityd.host.mounts import SWAPS
from capacityd.host.system_disks import NODE_FOLDERS
from capacityd.linux.mountinfo import MOUNT_TABLE, Mount, mount_of, unescaped


def named_paths(files: Mapping[str, str]) -> set[str]:
    """The files, folders and devices whose existence to record. files: path of a recorded file -> its content."""
    swap_lines = files.get(SWAPS, "").split("\n")[1:]  # the first line names the columns
    swaps = [unescaped(line.split()[0]) for line in swap_lines if line.strip()]
    mounts = _mounts(files)
    sources: list[str] = []
    for mount in mounts:
        sources += [mount.source, *mount.values(DEVICE_OPTIONS)]
    for path, text in files.items():
        if path.endswith(".mount"):
            settings = mount_settings(text.split("\n"))
            sources.append(source_without_tag(settings.get("What", "")))
    device_nodes = {path for path in (*swaps, *sources) if path.startswith("/dev/")}
    layers = [folder for mount in mounts if mount.type == "overlay" for folder in layers_of(mount)]
    # An overlay of the initramfs names a layer below INITRAMFS_ROOT. The running system has the layer below /.
    layers += [folder.removeprefix(INITRAMFS_ROOT) for folder in layers if folder.startswith(INITRAMFS_ROOT)]
    backing_files = [text.removesuffix("\n") for path, text in files.items() if path.endswith("/loop/backing_file")]
    named = {*device_nodes, *layers, *backing_files, *NODE_FOLDERS, INITRAMFS_ROOT}
    return {path for path in named if path.startswith("/")}


def automount_units(files: Mapping[str, str]) -> Iterator[str]:
    """Yields the paths of units that may say what an automount mounts. files: path of a recorded file -> content."""
    yield from map(gpt_automount_unit, GPT_AUTOMOUNTS)
    for mount in _mounts(files):
        if mount.is_trigger:
            yield from (f"{folder}/{unit_name(mount.point)}.mount" for folder in UNIT_FOLDERS)


def _mounts(files: Mapping[str, str]) -> list[Mount]:
    """The mounts in the recorded mount table; empty if it is not recorded."""
    mounts = map(mount_of, files.get(MOUNT_TABLE, "").split("\n"))
    return [mount for mount in mounts if mount is not None]
