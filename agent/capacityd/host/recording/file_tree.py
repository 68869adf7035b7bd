"""The files, folders and links of a recorded machine.

A file in /sys that the recording does not show is unknown, never missing. Outside of /sys, such a file counts as
missing, but exists() raises NotRecorded for it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from typing import Any

from capacityd.host.recording.contents import TREES
from capacityd.host.regular_file import ABSENT
from capacityd.linux.path_walk import MAX_LINKS
from capacityd.linux.paths import parents, reversed_names
from capacityd.model.errors import HostError, NotRecorded

_COMPLETE_TREES = tuple(f"{tree}/" for tree in TREES)
"""Folders of which a recording names all entries, including entries whose contents the recording leaves out."""


class RecordedFiles:
    """The paths of one recording. A path may contain links. A variable named real holds a path without links."""

    def __init__(self, recording: Mapping[str, Any]) -> None:
        """recording: RECORDING_PARTS (format.py) lists its parts."""
        self._files: Mapping[str, str] = recording.get("files", {})
        self._links: Mapping[str, str] = recording.get("links", {})
        self._errors: Mapping[str, str] = recording.get("errors", {})
        self._properties: Mapping[str, Mapping[str, str]] = recording.get("properties", {})  # by the device's path
        self._unrecorded_files: set[str] = set()
        self._unrecorded_folders: set[str] = set()
        for folder, names in recording.get("left_out", {}).items():
            for name in names:
                if name.endswith("/"):
                    self._unrecorded_folders.add(f"{folder}/{name.removesuffix('/')}")
                else:
                    self._unrecorded_files.add(f"{folder}/{name}")
        # Path of a folder -> the names in it.
        self._folders: dict[str, set[str]] = {path: set() for path in recording.get("folders", ())}
        recorded = [*self._folders, *self._files, *self._links, *self._errors, *self._properties]
        for path in [*recorded, *self._unrecorded_files, *self._unrecorded_folders]:
            self._add_to_folders(path)

    def listdir(self, folder: str) -> Sequence[str]:
        """The names in a folder, sorted; empty if the folder does not exist.

        Raises HostError if the folder is not recorded, or is below /sys and the recording has no /sys.
        """
        real = self.real_path_or_none(folder)
        if real in self._unrecorded_folders:
            raise _not_recorded(folder)
        if real in self._folders:
            return sorted(self._folders[real])
        has_sysfs = "/sys/devices" in self._folders
        if folder.startswith("/sys/") and not has_sysfs:
            raise HostError(f"{folder} does not exist", errno.ENOENT)
        return []

    def scandir(self, folder: str) -> Mapping[str, str]:
        """The entries of a folder, sorted: name -> "file", "folder" or "link"; "" for an unrecorded file.

        Raises HostError, also if the folder does not exist.
        """
        real = self.real_path(folder)
        if real not in self._folders and real not in self._unrecorded_folders:
            raise HostError(f"{folder} does not exist", errno.ENOENT)
        return {name: self._kind(f"{real}/{name}") for name in self.listdir(folder)}

    def resolve(self, path: str) -> str | None:
        """The path with all links resolved; None if the path does not exist or, outside of /sys, is not recorded.

        Raises HostError.
        """
        real = self.real_path_or_none(path, only_existence=True)
        if real is None or not self._exists(real):
            return None
        return real

    def exists(self, path: str) -> bool:
        """Whether the path exists. Raises HostError if the recording does not show that."""
        real = self.real_path_or_none(path, only_existence=True)
        if real is None:
            return False
        if self._exists(real):
            return True
        if f"{real}/".startswith(_COMPLETE_TREES):
            return False
        raise _not_recorded(path)

    def readlink(self, path: str) -> str:
        """The target of a recorded link, unchanged."""
        return self._links[path]

    def raw(self, path: str, limit: int) -> str:
        """A file's content. Raises HostError, with EFBIG if the content is longer than limit bytes.

        The errno is ENOENT if the file does not exist or, outside of /sys, is not recorded.
        """
        real = self.real_path(path)
        if real in self._unrecorded_files:
            raise _not_recorded(path)
        if real not in self._files:
            raise HostError(f"the recording does not contain the file {path}", errno.ENOENT)
        content = self._files[real]
        size = len(content.encode("utf-8", "replace"))  # a lone surrogate becomes "?", because it stands for one byte
        if size > limit:
            raise HostError(f"{path} is longer than {limit} bytes", errno.EFBIG)
        return content

    def optional_raw(self, path: str, limit: int) -> str | None:
        """The content that raw() returns; None if the file does not exist."""
        try:
            return self.raw(path, limit)
        except HostError as e:
            if e.errno in ABSENT:
                return None
            raise

    def real_path(self, path: str, *, only_existence: bool = False) -> str:
        """The path with all links resolved. only_existence: an unreadable folder at the end of the path is no error.

        Raises HostError if the recording contains an error for the path, or if the path is below a folder that the
        recording leaves out.
        """
        real = ""
        link_count = 0
        names = reversed_names(path)  # the names that are still to follow; the next name is the last in the list
        while names:
            name = names.pop()
            real = _parent(real) if name == ".." else f"{real}/{name}"
            is_end = not names
            may_be_unreadable = only_existence and is_end and real in self._folders
            if real in self._errors and not may_be_unreadable:
                code: int = getattr(errno, self._errors[real])
                raise HostError(f"{path} could not be read: {os.strerror(code)}", code)
            target = self._links.get(real)
            if target is not None:
                link_count += 1
                if link_count > MAX_LINKS:
                    raise HostError(f"{path} could not be read: {os.strerror(errno.ELOOP)}", errno.ELOOP)
                names += reversed_names(target)
                real = "" if target.startswith("/") else _parent(real)
        if not self._exists(real) and self._may_exist(real):
            raise _not_recorded(path)
        return real

    def real_path_or_none(self, path: str, *, only_existence: bool = False) -> str | None:
        """The path that real_path() returns; None if the kernel reported that the path does not exist."""
        try:
            return self.real_path(path, only_existence=only_existence)
        except HostError as e:
            if e.errno in ABSENT:
                return None
            raise

    def _exists(self, real: str) -> bool:
        """Whether the recording shows that the path exists, even if the recording leaves out the content."""
        if real in self._unrecorded_files or real in self._unrecorded_folders:
            return True
        return real in self._folders or real in self._files or real in self._links or real in self._properties

    def _may_exist(self, real: str) -> bool:
        """Whether the machine may have a path in /sys that the recording neither contains nor lists."""
        if not real.startswith("/sys/"):
            return False
        is_in_tree = f"{real}/".startswith(_COMPLETE_TREES)
        if is_in_tree:
            return any(folder in self._unrecorded_folders for folder in parents(real))
        is_above_tree = any(tree.startswith(f"{real}/") for tree in _COMPLETE_TREES)
        return not is_above_tree  # the path may be below the target of a link, such as a kernel module

    def _kind(self, path: str) -> str:
        """The kind of an entry: "link", "folder", "file"; "" for an unrecorded file, which can't be recorded again."""
        if path in self._links:
            return "link"
        if path in self._unrecorded_files:
            return ""
        if path in self._folders or path in self._unrecorded_folders:
            return "folder"
        return "file"

    def _add_to_folders(self, path: str) -> None:
        """Adds a path to the folder that contains it, that folder to the folder above, and so on."""
        folder, _, name = path.rpartition("/")
        while name:
            names = self._folders.setdefault(folder, set())
            if name in names:
                return  # the folders above already contain this folder
            names.add(name)
            folder, _, name = folder.rpartition("/")


def _parent(path: str) -> str:
    """The folder that contains the path; "" for the root folder."""
    return path.rpartition("/")[0]


def _not_recorded(path: str) -> NotRecorded:
    return NotRecorded(f"{path} is not part of the recording", errno.ENODATA)
