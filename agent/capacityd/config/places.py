"""The places of the configuration that the service reads, and files beside them, which nothing reads."""

from __future__ import annotations

import os

# A file in a later folder masks the files of the same name in earlier ones. The specification's /run/capacityd is left
# out: it contains the service's own files, and systemd removes it when the service stops.
VENDORS = ("usr/lib/capacityd/conf.d", "usr/local/lib/capacityd/conf.d")
MAIN = "etc/capacityd/capacityd.toml"
LOCAL = "etc/capacityd/conf.d"

_BESIDE = (*VENDORS, LOCAL)
"""Folders beside which a file may lie by mistake."""
_MISTAKEN = ("etc/capacityd.toml", "etc/capacityd.conf", "etc/capacityd.d", "run/capacityd/conf.d")
"""Paths that a user may expect, because other programs read theirs there."""


def misplaced(root: str) -> dict[str, str]:
    """Path -> why it is not read, for each file and folder that may be meant to be read. root: as in load()."""
    mistaken = [os.path.join(root, path) for path in _MISTAKEN]
    found = [path for path in mistaken if os.path.lexists(path)]
    for place in _BESIDE:
        folder = os.path.dirname(os.path.join(root, place))
        found += [os.path.join(folder, name) for name in _names(folder) if _is_like_configuration(name)]
    read = {os.path.join(root, path) for path in (*VENDORS, MAIN, LOCAL)}
    why_file = f"is not read; move it to {os.path.join(root, LOCAL)}/NAME.toml"
    why_folder = f"is not read; move its files to {os.path.join(root, LOCAL)}"
    return {path: why_folder if os.path.isdir(path) else why_file for path in found if path not in read}


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:  # there is no such folder, or the error is reported for the place in it
        return []


def _is_like_configuration(name: str) -> bool:
    return not name.startswith(".") and name.lower().endswith((".toml", ".d", "capacityd.conf"))
