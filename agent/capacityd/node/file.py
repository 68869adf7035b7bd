"""A Node in a JSON file, as "kubectl get node NAME -o json" prints it, and what the API server does with a patch."""

from __future__ import annotations

import copy
import json
import os
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from capacityd.capacity import Event, NodeState
from capacityd.errors import NodeConflict, NodeError, NodeMissing, NodeRejected, UsageError
from capacityd.node.state import node_state
from capacityd.printable import printable

_STANDARD_INPUT = "-"


class FileNode:
    """A Node in a file; "-": on standard input, which is read once and can't be written."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._where = "standard input" if path == _STANDARD_INPUT else printable(path)
        self._kept: object = None  # what standard input said

    @property
    def name(self) -> str:
        """The name of the Node in the file."""
        return self.read().name

    def read(self) -> NodeState:
        """What the file says now. Raises NodeMissing if there is none, NodeError if it can't be read or is no Node."""
        return self._state(self._load())

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        """Replaces the file by the patched Node, in one step. Raises as read(), NodeConflict, UsageError."""
        if self._path == _STANDARD_INPUT:
            raise UsageError("a Node on standard input can't be written; give a file")
        document = self._load()
        self._state(document)
        after = patched(document, patch)
        state = self._state(after)
        self._replace(json.dumps(after, indent=4, ensure_ascii=False) + "\n")
        return state

    def report(self, event: Event, state: NodeState) -> None:
        """Nothing: a file has no Events."""

    def _state(self, document: object) -> NodeState:
        try:
            return node_state(document)
        except NodeError as e:
            raise NodeError(f"{self._where}: {e}") from e

    def _load(self) -> Any:
        if self._path == _STANDARD_INPUT:
            if self._kept is None:
                self._kept = self._parsed(sys.stdin.buffer.read())
            return copy.deepcopy(self._kept)
        try:
            with open(self._path, "rb") as f:
                return self._parsed(f.read())
        except FileNotFoundError as e:
            raise NodeMissing(f"there is no file {self._where} with a Node in it") from e
        except OSError as e:
            raise NodeError(f"{self._where} can't be read: {os.strerror(e.errno or 0)}") from e

    def _parsed(self, content: bytes) -> object:
        try:
            document = json.loads(content)
        except (ValueError, RecursionError) as e:
            reason = printable(str(e)) if isinstance(e, json.JSONDecodeError) else "not text, or too deep"
            raise NodeError(f"{self._where} is not JSON ({reason})") from e
        return _with_quantities_as_text(document)

    def _replace(self, text: str) -> None:
        # A link stays a link: what it leads to is replaced.
        path = os.path.realpath(self._path)
        try:
            fd, unfinished = tempfile.mkstemp(dir=os.path.dirname(path), prefix=f".{os.path.basename(path)}.")
        except OSError as e:
            raise NodeError(f"{self._where} can't be written: {os.strerror(e.errno or 0)}") from e
        try:
            with open(fd, "w", encoding="utf-8", errors="surrogatepass") as f:
                os.fchmod(fd, stat.S_IMODE(os.stat(path).st_mode))
                f.write(text)
                f.flush()
                os.fsync(fd)
            os.replace(unfinished, path)
        except OSError as e:
            os.unlink(unfinished)
            raise NodeError(f"{self._where} can't be written: {os.strerror(e.errno or 0)}") from e


def patched(document: dict[str, Any], patch: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    """The Node after a JSON Patch, as the API server would have it; the document itself stays as it is.

    Raises NodeConflict where a guard does not hold or a path leads nowhere, NodeRejected for what is no patch.
    """
    import jsonpatch
    import jsonpointer

    after = copy.deepcopy(document)
    for operation in patch:
        try:
            if operation.get("op") == "test" and operation.get("value") is None:
                _test_absent(jsonpointer.JsonPointer(str(operation["path"])), after)
            else:
                after = jsonpatch.JsonPatch([dict(operation)]).apply(after, in_place=True)
        except jsonpatch.InvalidJsonPatch as e:
            raise NodeRejected(f"this is no JSON Patch: {printable(str(e))}") from e
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, LookupError) as e:
            where = printable(str(operation.get("path")))
            what = printable(str(operation.get("op")))
            raise NodeConflict(f"the Node is not as it was when it was read ({what} {where})") from e
    return after


def _test_absent(pointer: Any, document: Any) -> None:
    """The API server takes a test for null as one for absence, where RFC 6902 knows no such thing (measured on 1.36).

    As there, everything above it must exist, and what is beyond a list's end is not absent but an error.
    """
    parent, key = pointer.to_last(document)
    if not pointer.parts or not isinstance(parent, dict) or parent.get(key) is not None:
        raise LookupError(key)


def _with_quantities_as_text(document: Any) -> Any:
    """A quantity may be written as a number; the API server would have made it text, which our guards compare with."""
    status = document.get("status") if isinstance(document, dict) else None
    for key in ("capacity", "allocatable"):
        quantities = status.get(key) if isinstance(status, dict) else None
        if isinstance(quantities, dict):
            for name, value in quantities.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    quantities[name] = str(value)
    return document
