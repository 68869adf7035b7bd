"""Where the service looks for its configuration, and other places where a user may have put it."""

from __future__ import annotations

import os

# A file replaces the files of the same name in earlier folders. The UAPI specification also lists a folder in /run.
# That folder is left out, because systemd removes /run/capacityd when the service stops.
VENDOR_FOLDERS = ("usr/lib/capacityd/conf.d", "usr/local/lib/capacityd/conf.d")
MAIN_FILE = "etc/capacityd/capacityd.toml"
LOCAL_FOLDER = "etc/capacityd/conf.d"

_MISTAKEN = ("etc/capacityd.toml", "etc/capacityd.conf", "etc/capacityd.d", "run/capacityd/conf.d")
"""Paths that a user may expect, because other programs have their configuration at such paths."""


def misplaced(root: str) -> dict[str, str]:
    """Files and folders that may be meant as configuration: path -> why it is not read. root: the folder used as /."""
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
    """The paths beside a folder, and the folder itself, if their names look like configuration."""
    parent = os.path.dirname(folder)
    try:
        names = sorted(os.listdir(parent))
    except OSError:  # files.py reports the error when it reads the folder of the configuration
        return []
    return [os.path.join(parent, name) for name in names if _is_like_configuration(name)]


def _is_like_configuration(name: str) -> bool:
    return not name.startswith(".") and name.lower().endswith((".toml", ".d", "capacityd.conf"))
