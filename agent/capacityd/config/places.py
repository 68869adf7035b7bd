"""Where the service looks for its configuration, and other places where a user may have put it."""

from __future__ import annotations

import os

# A file replaces the files of the same name in earlier folders. The UAPI specification also lists a folder in /run.
# That folder is left out, because systemd removes /run/capacityd when the service stops.
VENDOR_FOLDERS = ("usr/lib/capacityd/conf.d", "usr/local/lib/capacityd/conf.d")
MAIN_FILE = "etc/capacityd/capacityd.toml"
LOCAL_FOLDER = "etc/capacityd/conf.d"

_WRONG_PLACES = ("etc/capacityd.toml", "etc/capacityd.conf", "etc/capacityd.d", "run/capacityd/conf.d")
"""Paths that a user may expect, because other programs have their configuration at such paths."""


def problems_of_misplaced_files(root: str) -> dict[str, str]:
    """Files and folders that may be meant as configuration: path -> why it is not read. root: the folder used as /."""
    local_folder = os.path.join(root, LOCAL_FOLDER)
    folders = [*(os.path.join(root, folder) for folder in VENDOR_FOLDERS), local_folder]
    right_places = {os.path.join(root, MAIN_FILE), *folders}
    wrong_places = [os.path.join(root, path) for path in _WRONG_PLACES]
    possible_paths = [path for path in wrong_places if os.path.lexists(path)]
    for folder in folders:
        possible_paths += _similar_beside(folder)
    problems = {}
    for path in possible_paths:
        if path in right_places:
            continue
        if os.path.isdir(path):
            problems[path] = f"is not read; move its files to {local_folder}"
        else:
            problems[path] = f"is not read; move it to {local_folder}/NAME.toml"
    return problems


def _similar_beside(folder: str) -> list[str]:
    """The paths beside a folder, and the folder itself, if their names look like configuration."""
    parent = os.path.dirname(folder)
    try:
        names = sorted(os.listdir(parent))
    except OSError:  # reading the folder later reports the error; a missing parent contains nothing
        return []
    return [os.path.join(parent, name) for name in names if _looks_like_configuration(name)]


def _looks_like_configuration(name: str) -> bool:
    is_hidden = name.startswith(".")
    return not is_hidden and name.lower().endswith((".toml", ".d", "capacityd.conf"))
