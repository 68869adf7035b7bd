"""Applies a JSON Patch (RFC 6902) to a Node's JSON, as the API server does. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import jsonpatch
import jsonpointer

from capacityd.model.errors import NodeConflict, NodeError, NodeRejected
from capacityd.model.text import printable
from capacityd.node.errors import no_library_error, reason_of


def patched(document: dict[str, Any], patch: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    """Returns a copy of a Node with a JSON Patch applied, as the API server does.

    Raises NodeConflict if a test fails or a path does not exist, NodeRejected if the patch is not a JSON Patch.
    """
    document = copy.deepcopy(document)
    for operation in patch:
        with no_library_error(lambda e: NodeError(f"the patch cannot be applied: {reason_of(e)}")):
            document = _apply_in_place(document, operation)
    return document


def _apply_in_place(document: dict[str, Any], operation: Mapping[str, object]) -> Any:
    try:
        is_test_of_absence = operation.get("op") == "test" and operation.get("value") is None
        if is_test_of_absence:
            _test_absent(jsonpointer.JsonPointer(str(operation["path"])), document)
            return document
        return jsonpatch.JsonPatch([dict(operation)]).apply(document, in_place=True)
    except jsonpatch.InvalidJsonPatch as e:
        raise NodeRejected(f"this is not a JSON Patch: {printable(str(e))}") from e
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, LookupError) as e:
        failed = printable(f"{operation.get('op')} {operation.get('path')}")
        raise NodeConflict(f"the Node has changed since it was read ({failed})") from e


def _test_absent(pointer: Any, document: Any) -> None:
    """Raises LookupError unless the path is absent. The path's parent must exist, and must not be a list.

    RFC 6902 defines no test of absence, but the API server does (measured on 1.36).
    """
    parent, key = pointer.to_last(document)  # without parts, the pointer means the whole document
    if not pointer.parts or not isinstance(parent, dict) or parent.get(key) is not None:
        raise LookupError(key)
