"""Common mistakes in a text of the configuration. A text with such a mistake matches nothing on any machine.

A text may be a glob with a class such as [ab], and a class may contain any character. So most patterns below search
only the text before the first "[".
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in a text of the configuration. A text with this mistake matches no value of a device."""

    pattern: str
    """A regular expression that finds the mistake in a text."""
    remedy: Callable[[str], str]
    """Takes the text with the mistake. Returns the end of a message: what is wrong, and what to write."""


def _list_remedy(text: str) -> str:
    names = [name.strip() for name in re.split("[|,]", text)]
    in_quotes = ", ".join(f'"{name}"' for name in names if name)
    return f"is a single name; to match any of several, write a list: [{in_quotes}]"


def _label_remedy(text: str) -> str:
    interface, _, _ = text.partition(":")
    return f'is the label of an address, not an interface; write "{interface}"'


def _parent_remedy(text: str) -> str:
    interface, _, _ = text.partition("@")
    return f'contains the interface below it, as "ip link" prints it; write "{interface}"'


def _path_remedy(text: str) -> str:
    name = os.path.basename(text.rstrip("/"))
    return f'is a path; write the name: "{name}"'


def _wwn_as_in_lsblk(text: str) -> str:
    """Converts a world-wide name from another format (WWN_IN_OTHER_FORMAT) to the format of lsblk."""
    if text.startswith(("wwn-", "nvme-")):
        return text.removeprefix("wwn-").removeprefix("nvme-")
    digits = re.sub("^(naa[.]|scsi-3)", "", text)
    has_type = len(digits) in (17, 33)  # a name has 16 or 32 digits, and an additional first digit is its type
    name = digits[1:] if has_type else digits
    return f"0x{name}"


def _with_short_domain(address: str) -> str:
    """Removes the zeros before the four digits of a PCI domain."""
    domain, _, rest = address.partition(":")
    return f"{domain.lstrip('0').zfill(4)}:{rest}"


def _dev_remedy(text: str) -> str:
    # A link such as by-id/x is in a folder of /dev whose name depends on the device: disk, serial, …
    folder = "*/" if text.startswith("by-") else ""
    return f'is not below /dev; write "/dev/{folder}{text}"'


NEGATION = Mistake(
    "^!.",
    lambda text: (
        f'is not a negation: exclude devices with "except"; to match a value that begins with "!", write "?{text[1:]}"'
    ),
)
"""A "!" at the beginning. fnmatch supports "!" only in a class: [!ab]."""
COMPARISON = Mistake(
    "^[<>]=? *[0-9]",
    lambda _: "is a comparison, but the value is a text; write a list of values, or a glob",
)
"""A comparison such as >=5. Only keys whose values are sizes, speeds, frequencies or numbers support comparisons."""
BLANK_AT_END = Mistake(
    r"^\s|\s$",
    lambda text: f'begins or ends with a space, which no value does; write "{text.strip()}"',
)
"""White space around a text. Values have no white space around them, because reading a file in /sys removes it."""
SEVERAL_NAMES = Mistake(r"^[^\[]*[|,]", _list_remedy)
"""Names separated by "|" or ",". For a name that contains such a character, write a glob with a class: "a[,]b"."""
SEPARATED_BY_BAR = Mistake(r"^[^\[]*[|]", _list_remedy)
"""Texts separated by "|", such as "a|b". In contrast to SEVERAL_NAMES, a comma is valid."""
ALIAS = Mistake(r"^[^\[]*:", _label_remedy)
"""The label of an address, such as eth0:1. The kernel allows no ":" in the name of an interface."""
WITH_PARENT = Mistake(r"^[^\[]*@", _parent_remedy)
"""An interface as "ip link" prints it: eth0.5@eth0. For a name with a "@", write a glob with a class: "a[@]b"."""
PATH_INSTEAD_OF_NAME = Mistake(r"^/.*[^/]", _path_remedy)
NOT_AN_INTERFACE = (PATH_INSTEAD_OF_NAME, SEVERAL_NAMES, ALIAS, WITH_PARENT)
"""All mistakes in the name of an interface."""
NOT_IN_DEV = Mistake(r"^[^/*?\[]", _dev_remedy)
"""A relative path, for a key whose values are below /dev. A text that begins with a wildcard may match such a value."""
NOT_ABSOLUTE = Mistake(r"^[^/*?\[]", lambda text: f'is not an absolute path; write "/{text}"')
"""A relative path. A text that begins with a wildcard may match an absolute path."""
FINAL_SLASH = Mistake("[^/]/+$", lambda text: f'ends with "/"; write "{text.rstrip("/")}"')
NOT_EXACT_PATH = Mistake(r"^$|[*?\[]", lambda _: "must be an exact path, without the wildcards *, ? and [")
NOT_EXACT_NAME = Mistake(r"^$|[*?\[/]", lambda _: 'must be an exact name, without "/" and the wildcards *, ? and [')
WWN_IN_OTHER_FORMAT = Mistake(
    "^(wwn-|nvme-(eui|uuid|nvme)[.]|scsi-3|naa[.]|3?([0-9a-fA-F]{16}){1,2}$)",
    lambda text: f'is not in the format of lsblk; write "{_wwn_as_in_lsblk(text)}"',
)
"""A world-wide name in the format of links in /dev/disk/by-id, the kernel or multipath. multipath writes the type of
the ID before the name: 3 (NAA)."""
NO_PCI_DOMAIN = Mistake("^[0-9a-fA-F]{1,3}:", lambda text: f'has no domain; write "0000:{text}"')
"""An address without the PCI domain. A domain has at least four digits, so fewer digits are a bus."""
LONG_PCI_DOMAIN = Mistake(
    "^0[0-9a-fA-F]{4,}:",
    lambda text: f'has zeros before the domain, as nvidia-smi prints it; write "{_with_short_domain(text)}"',
)
"""An address whose domain has more than four digits and begins with 0. The kernel writes at least four digits, and no
zeros before them."""
