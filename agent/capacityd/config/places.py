"""The places of the configuration that the service reads, and files beside them, which nothing reads."""

from __future__ import annotations

import os

# A file in a later folder masks the files of the same name in earlier ones. /run/capacityd, which the UAPI
# specification lists, too, is left out: it contains the service's own files, and systemd removes it when the service
# stops.
VENDOR_FOLDERS = ("usr/lib/capacityd/conf.d", "usr/local/lib/capacityd/conf.d")
MAIN_FILE = "etc/capacityd/capacityd.toml"
LOCAL_FOLDER = "etc/capacityd/conf.d"

_MISTAKEN = ("etc/capacityd.toml", "etc/capacityd.conf", "etc/capacityd.d", "run/capacityd/conf.d")
"""Paths that a user may expect, because other programs have their configuration at such paths."""


def misplaced(root: str) -> dict[str, str]:
    """Path -> why it is not read, of each file and folder that may be meant to be read. root: the folder used as /."""
    folders = [os.path.join(root, folder) for folder in (*VENDOR_FOLDERS, LOCAL_FOLDER)]
    read = {os.path.join(root, MAIN_FILE), *folders}
    mistaken = [os.path.join(root, path) for path in _MISTAKEN]
    found = [path for path in mistaken if os.path.lexists(path)]
    for folder in folders:
        found += _similar_beside(folder)
    destination = os.path.join(root, LOCAL_FOLDER)
    reasons = {}
    for path in found:
        if path in read:
            continue
        if os.path.isdir(path):
            reasons[path] = f"is not read; move its files to {destination}"
        else:
            reasons[path] = f"is not read; move it to {destination}/NAME.toml"
    return reasons


def _similar_beside(folder: str) -> list[str]:
    """The paths beside a folder of the configuration that look like configuration, among them the folder itself."""
    parent = os.path.dirname(folder)
    try:
        names = sorted(os.listdir(parent))
    except OSError:  # files.py reports the error when it reads the folder of the configuration
        return []
    return [os.path.join(parent, name) for name in names if _is_like_configuration(name)]


def _is_like_configuration(name: str) -> bool:
    return not name.startswith(".") and name.lower().endswith((".toml", ".d", "capacityd.conf"))
