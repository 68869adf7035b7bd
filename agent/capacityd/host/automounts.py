"""Automounts: mount points whose file system is mounted at the first access, autofs(5) and systemd.automount(5)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from capacityd.linux.unit import assignments
from capacityd.model.host import Host

UNIT_FOLDERS = (
    *("/etc/systemd/system", "/run/systemd/system", "/run/systemd/generator", "/usr/local/lib/systemd/system"),
    *("/usr/lib/systemd/system", "/lib/systemd/system", "/run/systemd/generator.late"),
)
"""Where systemd reads units, systemd.unit(5). systemd-fstab-generator(8) writes those of /etc/fstab."""

GPT_AUTOMOUNTS = ("/boot", "/efi")
"""Mount points for which systemd-gpt-auto-generator(8) creates automount units."""

TAGS = ("UUID", "LABEL", "PARTUUID", "PARTLABEL")
"""How a unit that is not generated may name a block device: fstab(5)."""

_SYSTEMD = "systemd-1"  # the source of an automount of systemd; of autofs(8), the source is the map


@dataclass(frozen=True, slots=True)
class Automount:
    """An automount whose file system is not mounted now."""

    name: str
    """The unit, or the map of autofs(8)."""
    type: str
    """The type of the file system; "" if unknown."""
    source: str
    """The device or share to mount; "" if unknown."""


def automount(host: Host, point: str, source: str) -> Automount:
    """The automount at a mount point. source: as in the mount table. Raises HostError."""
    if source != _SYSTEMD:
        return Automount(source, "", "")
    settings = _settings(host, f"{unit_name(point)}.mount")
    type_ = settings.get("Type", "")
    source = linked_source(settings.get("What", ""))
    return Automount(f"{unit_name(point)}.automount", "" if type_ == "auto" else type_, source)


def linked_source(source: str) -> str:
    """The source of a unit; for UUID=x and similar ones, udev's link to the block device."""
    tag, _, value = source.partition("=")
    return f"/dev/disk/by-{tag.lower()}/{value}" if tag in TAGS else source


def _settings(host: Host, unit: str) -> dict[str, str]:
    """The settings of a mount; empty if there is no such unit."""
    for folder in UNIT_FOLDERS:
        if lines := host.lines(f"{folder}/{unit}"):
            return mount_settings(lines)
    return {}


def mount_settings(lines: Iterable[str]) -> dict[str, str]:
    """Name -> value, from the lines of a mount's unit."""
    return {name: value for section, name, value in assignments(lines) if section == "[Mount]"}


def unit_name(path: str) -> str:
    """The name of the unit for a path, without its type, as systemd-escape(1) prints it."""
    name = b"/".join(part for part in os.fsencode(path).split(b"/") if part)
    if not name:
        return "-"
    dot = "\\x2e" if name.startswith(b".") else ""
    return dot + "".join(map(_escaped, name[1:] if dot else name))


def _escaped(byte: int) -> str:
    char = chr(byte)
    if char == "/":
        return "-"
    return char if byte < 128 and (char.isalnum() or char in ":_.") else f"\\x{byte:02x}"


def gpt_automount_unit(point: str) -> str:
    """The automount unit that systemd-gpt-auto-generator(8) creates for /boot or /efi, always on the root file system's
    disk."""
    return f"/run/systemd/generator.late{point}.automount"
