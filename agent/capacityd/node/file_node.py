"""A Node in a JSON file, in the format of "kubectl get node NAME -o json"."""

from __future__ import annotations

import json
import os
import stat
import sys
from typing import Any

from capacityd.linux.atomic_file import replace_file
from capacityd.model.errors import NodeConflict, NodeError, NodeFileUnusable, UsageError
from capacityd.model.node import Event, NodeState, Patch
from capacityd.model.text import printable
from capacityd.node.documents.fields import InvalidDocument
from capacityd.node.documents.node import node_state
from capacityd.node.documents.patch import patched

_STANDARD_INPUT = "-"


def read_json(path: str) -> Any:
    """Parses a JSON file; "-" is standard input. Raises NodeFileUnusable."""
    try:
        if path == _STANDARD_INPUT:
            content = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as f:
                content = f.read()
        if not content:
            raise NodeFileUnusable(f"{display_name(path)} is empty: did the command fail that should have written it?")
        return json.loads(content)
    except OSError as e:
        raise NodeFileUnusable(f"{display_name(path)} cannot be read: {e.strerror}") from e
    except (ValueError, RecursionError) as e:
        reason = printable(str(e)) if isinstance(e, json.JSONDecodeError) else "not text, or nested too deeply"
        raise NodeFileUnusable(f"{display_name(path)} is not JSON ({reason})") from e


def display_name(path: str) -> str:
    """Returns the file's path in printable form, or "standard input"."""
    return "standard input" if path == _STANDARD_INPUT else printable(path)


class FileNode:
    """A Node in a file or on standard input ("-"). Standard input is read once and cannot be written."""

    def __init__(self, path: str, node_name: str | None = None) -> None:
        """node_name: the name that the Node must have; None for any name."""
        self._path = path
        self._node_name = node_name
        self._input: Any = None  # the parsed standard input; None until it is read

    def identify(self) -> str:
        """Returns the name of the Node in the file. Raises NodeFileUnusable."""
        return self.read().name

    def read(self) -> NodeState:
        """Reads the Node. Raises NodeFileUnusable if the file cannot be read, or does not contain the Node."""
        return self._state_of(self._document())

    def write(self, patch: Patch) -> NodeState:
        """Atomically replaces the file with the patched Node, and returns the patched Node.

        Raises the errors of read(), NodeConflict if the Node has changed, UsageError for standard input, and NodeError
        if the file cannot be written.
        """
        if self._path == _STANDARD_INPUT:
            raise UsageError("a Node on standard input cannot be written; use a file")
        document = self._document()
        before = self._state_of(document)
        if before.uid != patch.uid or before.resource_version != patch.resource_version:
            raise NodeConflict(f"{display_name(self._path)} has changed since it was read")
        document = patched(document, patch)
        text = json.dumps(document, indent=4, ensure_ascii=False) + "\n"
        content = text.encode("utf-8", "surrogatepass")  # JSON may contain lone surrogates
        path = os.path.realpath(self._path)  # the target of a symbolic link is replaced, not the link
        try:
            mode = stat.S_IMODE(os.stat(path).st_mode)
            replace_file(path, content, mode=mode)
        except OSError as e:
            raise NodeError(f"{display_name(self._path)} cannot be written: {e.strerror}") from e
        return node_state(document)

    def report(self, event: Event, state: NodeState) -> None:
        """Does nothing, because a file has no Events."""

    def _document(self) -> Any:
        """The JSON in the file. Raises NodeFileUnusable."""
        if self._path != _STANDARD_INPUT:
            return read_json(self._path)
        if self._input is None:
            self._input = read_json(_STANDARD_INPUT)
        return self._input

    def _state_of(self, document: Any) -> NodeState:
        """The Node in the document. Raises NodeFileUnusable if it is not the Node."""
        try:
            state = node_state(document)
        except InvalidDocument as e:
            remedy = "save a Node with `kubectl get node NAME -o json`"
            raise NodeFileUnusable(f"{display_name(self._path)}: {e}; {remedy}") from e
        if self._node_name is not None and self._node_name != state.name:
            raise NodeFileUnusable(
                f'{display_name(self._path)}: it is the Node "{state.name}", but node_name is "{self._node_name}": '
                f"save that Node, or use --node-name={state.name}"
            )
        return state
