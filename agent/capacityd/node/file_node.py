"""A Node in a JSON file, in the format of "kubectl get node NAME -o json"."""

from __future__ import annotations

import copy
import json
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from capacityd.linux.atomic_file import replace_file
from capacityd.model.errors import NodeError, NodeMissing, UsageError
from capacityd.model.node import Event, NodeState
from capacityd.model.text import printable
from capacityd.node.documents.json_patch import patched
from capacityd.node.documents.node import as_served, node_state
from capacityd.node.errors import no_library_error, reason_of

_STANDARD_INPUT = "-"


class FileNode:
    """A Node in a file or on standard input ("-"). Standard input is read once and cannot be written."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._name = "standard input" if path == _STANDARD_INPUT else printable(path)
        self._input: object = None  # the content of standard input

    @property
    def name(self) -> str:
        """The name of the Node in the file."""
        return self.read().name

    def read(self) -> NodeState:
        """Reads the file. Raises NodeMissing if it does not exist, NodeError if it cannot be read or is not a Node."""
        return self._state(self._load())

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        """Atomically replaces the file with the patched Node. Raises as read() does, NodeConflict, and UsageError."""
        if self._path == _STANDARD_INPUT:
            raise UsageError("a Node on standard input cannot be written; use a file")
        document = self._load()
        self._state(document)
        document = patched(document, patch)
        state = self._state(document)
        with no_library_error(lambda e: NodeError(f"{self._name} cannot be written: {reason_of(e)}")):
            self._replace(json.dumps(document, indent=4, ensure_ascii=False) + "\n")
        return state

    def report(self, event: Event, state: NodeState) -> None:
        """Does nothing, because a file has no Events."""

    def _state(self, document: object) -> NodeState:
        try:
            return node_state(document)
        except NodeError as e:
            raise NodeError(f"{self._name}: {e}") from e

    def _load(self) -> Any:
        if self._path == _STANDARD_INPUT:
            if self._input is None:
                self._input = self._parsed(sys.stdin.buffer.read())
            return copy.deepcopy(self._input)
        try:
            with open(self._path, "rb") as f:
                return self._parsed(f.read())
        except FileNotFoundError as e:
            raise NodeMissing(f"the Node file {self._name} does not exist") from e
        except OSError as e:
            raise NodeError(f"{self._name} cannot be read: {os.strerror(e.errno or 0)}") from e

    def _parsed(self, content: bytes) -> object:
        try:
            document = json.loads(content)
        except (ValueError, RecursionError) as e:
            reason = printable(str(e)) if isinstance(e, json.JSONDecodeError) else "not text, or nested too deeply"
            raise NodeError(f"{self._name} is not JSON ({reason})") from e
        return as_served(document)

    def _replace(self, text: str) -> None:
        # Replaces the target of a symbolic link, not the link.
        path = os.path.realpath(self._path)
        try:
            mode = stat.S_IMODE(os.stat(path).st_mode)
            replace_file(path, text.encode("utf-8", "surrogatepass"), mode, durable=True)
        except OSError as e:
            raise NodeError(f"{self._name} cannot be written: {os.strerror(e.errno or 0)}") from e
