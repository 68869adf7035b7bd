"""Paths outside of /sys that mounts, swap areas, loop devices or automounts name. A recording contains these paths."""

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
from capacityd.host.mounts import SWAPS, swap_areas
from capacityd.host.system_disks import NODE_FOLDERS
from capacityd.linux.mountinfo import MOUNT_TABLE, Mount, mount_of


def paths_named_in(files: Mapping[str, str]) -> set[str]:
    """The files, folders and devices whose existence to record. files: path of a recorded file -> its content."""
    paths = {*NODE_FOLDERS, INITRAMFS_ROOT, *map(gpt_automount_unit, GPT_AUTOMOUNTS)}
    paths.update(path for path, _type in swap_areas(files.get(SWAPS, "")))
    for mount in _mounts(files):
        paths.update([mount.source, *mount.values(DEVICE_OPTIONS)])
        if mount.type == "overlay":
            layers = layers_of(mount)
            paths.update(layers)
            # The initramfs has a layer below INITRAMFS_ROOT, and the running system has the layer below /.
            paths.update(layer.removeprefix(INITRAMFS_ROOT) for layer in layers)
    for path, text in files.items():
        if path.endswith(".mount"):
            what = mount_settings(text.split("\n")).get("What", "")
            paths.add(source_without_tag(what))
        elif path.endswith("/loop/backing_file"):
            paths.add(text.removesuffix("\n"))
    return {path for path in paths if path.startswith("/")}


def automount_units(files: Mapping[str, str]) -> Iterator[str]:
    """Yields the paths of units that may say what an automount mounts. files: path of a recorded file -> content."""
    for mount in _mounts(files):
        if mount.is_trigger:
            for folder in UNIT_FOLDERS:
                yield f"{folder}/{unit_name(mount.point)}.mount"


def _mounts(files: Mapping[str, str]) -> list[Mount]:
    """The mounts in the recorded mount table; empty if it is not recorded."""
    lines = files.get(MOUNT_TABLE, "").split("\n")
    mounts = map(mount_of, lines)
    return [mount for mount in mounts if mount is not None]
