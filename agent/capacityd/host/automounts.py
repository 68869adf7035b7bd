"""Automounts: mount points whose file system is mounted at the first access, autofs(5) and systemd.automount(5)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from capacityd.linux.unit import assignments
from capacityd.model.host import Host

UNIT_FOLDERS = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/systemd/generator",  # systemd-fstab-generator(8) writes the units of /etc/fstab
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",  # systemd-gpt-auto-generator(8)
)
"""Where systemd reads units, the folder that takes precedence first: systemd.unit(5)."""

GPT_AUTOMOUNTS = ("/boot", "/efi")
"""Mount points for which systemd-gpt-auto-generator(8) creates automount units."""

TAGS = ("UUID", "LABEL", "PARTUUID", "PARTLABEL", "ID")
"""Tags by which a unit may name a block device, such as UUID=x (fstab(5)). systemd-fstab-generator(8) replaces a tag by
the device's path."""

_SOURCE_OF_SYSTEMD = "systemd-1"
"""The source, in the mount table, of an automount that systemd set up. For autofs(8), the source is the map."""


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
    """The automount at a mount point. source: the automount's source in the mount table. Raises HostError."""
    if source != _SOURCE_OF_SYSTEMD:
        return Automount(name=source, type="", source="")
    name = unit_name(point)
    settings = _settings(host, f"{name}.mount")
    type_ = settings.get("Type", "")
    if type_ == "auto":  # mount(8) will find out the type
        type_ = ""
    return Automount(name=f"{name}.automount", type=type_, source=source_without_tag(settings.get("What", "")))


def source_without_tag(what: str) -> str:
    """The device or share that a unit's setting What names. A tag such as UUID=x becomes udev's link to the device."""
    tag, _, value = what.partition("=")
    if tag in TAGS:
        return f"/dev/disk/by-{tag.lower()}/{value}"
    return what


def _settings(host: Host, unit: str) -> dict[str, str]:
    """The settings in the section [Mount] of a unit; empty if the unit does not exist."""
    for folder in UNIT_FOLDERS:
        if lines := host.lines(f"{folder}/{unit}"):
            return mount_settings(lines)
    return {}


def mount_settings(lines: Iterable[str]) -> dict[str, str]:
    """The settings in the section [Mount] of a unit: name -> value. lines: the lines of the unit's file."""
    return {name: value for section, name, value in assignments(lines) if section == "[Mount]"}


def unit_name(path: str) -> str:
    """The name of the unit for a path, without a suffix such as .mount, as systemd-escape(1) prints it."""
    name = re.sub(b"/+", b"/", os.fsencode(path)).strip(b"/")
    if not name:
        return "-"
    escaped = "".join(_escaped(byte) for byte in name)
    if escaped.startswith("."):  # a dot is escaped only at the beginning of a name
        return "\\x2e" + escaped.removeprefix(".")
    return escaped


def _escaped(byte: int) -> str:
    """A byte of a path as it stands in a unit's name."""
    char = chr(byte)
    if char == "/":
        return "-"
    needs_no_escape = byte < 128 and (char.isalnum() or char in ":_.")
    return char if needs_no_escape else f"\\x{byte:02x}"


def gpt_automount_unit(point: str) -> str:
    """The file of the automount unit that systemd-gpt-auto-generator(8) creates for /boot or /efi.

    The generator creates the unit only for a file system on the disk of the root file system.
    """
    return f"/run/systemd/generator.late{point}.automount"
