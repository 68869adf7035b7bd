"""A machine that can be recorded: a Host that also reads folders, links and unchanged bytes."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Protocol

from capacityd.host.live import LiveHost, read_regular, unreadable
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.errors import HostError
from capacityd.model.host import Host


class Source(Host, Protocol):
    """A machine that can be recorded. Its methods raise HostError."""

    def scandir(self, folder: str) -> Sequence[tuple[str, str]]:
        """The entries of a folder, sorted: the name, and file, folder, link, or "" for an entry that can't be
        recorded."""

    def raw(self, path: str, limit: int) -> str:
        """A file's content. Bytes that are not UTF-8 become surrogates.

        Raises HostError, with EFBIG if the file is longer than limit bytes.
        """

    def readlink(self, path: str) -> str:
        """The target of a link, unchanged."""


class LiveSource(LiveHost):
    """The machine on which this process runs, as a source."""

    def scandir(self, folder: str) -> Sequence[tuple[str, str]]:
        try:
            with os.scandir(folder) as entries:
                return sorted((entry.name, _kind(entry)) for entry in entries)
        except OSError as e:
            raise unreadable(folder, e) from e

    def raw(self, path: str, limit: int) -> str:
        content, _ = read_regular(path, limit)
        return content.decode("utf-8", "surrogateescape")

    def readlink(self, path: str) -> str:
        try:
            return os.readlink(path)
        except OSError as e:
            raise unreadable(path, e) from e


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "link"
    return "folder" if entry.is_dir() else "file"


class RecordedSource(RecordedHost):
    """A recorded machine, as a source."""

    def scandir(self, folder: str) -> Sequence[tuple[str, str]]:
        real = self._known(folder)
        if real not in self._folders and real not in self._left_folders:
            raise HostError(f"{folder} does not exist", errno.ENOENT)
        return [(name, self._kind(f"{real}/{name}")) for name in self.listdir(folder)]

    def raw(self, path: str, limit: int) -> str:
        content = self._content(path)
        if content is None:
            raise HostError(f"{path} does not exist", errno.ENOENT)
        if len(content.encode("utf-8", "surrogateescape")) > limit:
            raise HostError(f"{path} is longer than {limit} bytes", errno.EFBIG)
        return content

    def readlink(self, path: str) -> str:
        return self._links[path]

    def _kind(self, path: str) -> str:
        if path in self._links:
            return "link"
        if path in self._left_files:
            return ""
        return "folder" if path in self._folders or path in self._left_folders else "file"
