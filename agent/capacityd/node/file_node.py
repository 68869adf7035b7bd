"""A Node in a JSON file, as "kubectl get node NAME -o json" prints it, and JSON Patch as the API server applies it."""

from __future__ import annotations

import copy
import json
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import jsonpatch
import jsonpointer

from capacityd.linux.atomic_file import replace_file
from capacityd.model.errors import NodeConflict, NodeError, NodeMissing, NodeRejected, UsageError
from capacityd.model.node import Event, NodeState
from capacityd.model.text import printable
from capacityd.node.documents.node import node_state
from capacityd.node.errors import no_library_error, reason_of

_STANDARD_INPUT = "-"


class FileNode:
    """A Node in a file, or on standard input ("-"), which is read once and cannot be written."""

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
        """Atomically replaces the file by the patched Node. Raises as read() does, NodeConflict, UsageError."""
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
        return _with_quantities_as_text(document)

    def _replace(self, text: str) -> None:
        # Replaces the target of a symbolic link, not the link.
        path = os.path.realpath(self._path)
        try:
            mode = stat.S_IMODE(os.stat(path).st_mode)
            replace_file(path, text.encode("utf-8", "surrogatepass"), mode, durable=True)
        except OSError as e:
            raise NodeError(f"{self._name} cannot be written: {os.strerror(e.errno or 0)}") from e


def patched(document: dict[str, Any], patch: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    """Returns a copy of a Node with a JSON Patch applied as the API server does.

    Raises NodeConflict if a guard fails or a path does not exist, NodeRejected if it is not a JSON Patch.
    """
    document = copy.deepcopy(document)
    for operation in patch:
        with no_library_error(lambda e: NodeError(f"the patch cannot be applied: {reason_of(e)}")):
            document = _apply_in_place(document, operation)
    return document


def _apply_in_place(document: dict[str, Any], operation: Mapping[str, object]) -> Any:
    try:
        if operation.get("op") == "test" and operation.get("value") is None:
            _test_absent(jsonpointer.JsonPointer(str(operation["path"])), document)
            return document
        return jsonpatch.JsonPatch([dict(operation)]).apply(document, in_place=True)
    except jsonpatch.InvalidJsonPatch as e:
        raise NodeRejected(f"this is not a JSON Patch: {printable(str(e))}") from e
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, LookupError) as e:
        operator, path = (printable(str(operation.get(key))) for key in ("op", "path"))
        raise NodeConflict(f"the Node has changed since it was read ({operator} {path})") from e


def _test_absent(pointer: Any, document: Any) -> None:
    """Raises LookupError unless the path is absent. RFC 6902 has no such test; the API server has (measured on 1.36).

    The parent must exist, and must not be a list.
    """
    parent, key = pointer.to_last(document)
    if not pointer.parts or not isinstance(parent, dict) or parent.get(key) is not None:
        raise LookupError(key)


def _with_quantities_as_text(document: Any) -> Any:
    """Converts quantities that are numbers to text, as the API server does, because our guards compare text."""
    status = document.get("status") if isinstance(document, dict) else None
    for key in ("capacity", "allocatable"):
        quantities = status.get(key) if isinstance(status, dict) else None
        if isinstance(quantities, dict):
            for name, value in quantities.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    quantities[name] = str(value)
    return document
