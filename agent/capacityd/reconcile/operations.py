"""The operations of a JSON Patch (RFC 6902), and the paths of their values (RFC 6901). Pure.

A patch whose test fails changes nothing: the API server rejects the whole patch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

Operations: TypeAlias = list[Mapping[str, object]]


class Part(NamedTuple):
    """A part of the patch, for one place on the Node."""

    tests: Operations
    writes: Operations


def child(path: str, key: str) -> str:
    """The path of a key in the map at this path, as a JSON Pointer (RFC 6901)."""
    escaped = key.replace("~", "~0").replace("/", "~1")
    return f"{path}/{escaped}"


def test(path: str, value: object) -> Mapping[str, object]:
    return {"op": "test", "path": path, "value": value}


def test_absent(path: str) -> Mapping[str, object]:
    """Tests that the path has no value: the API server takes a missing value for null."""
    return test(path, None)


def test_stored(path: str, stored: str | None) -> Mapping[str, object]:
    """Tests a value in a map that exists. None: the key is absent."""
    return test_absent(path) if stored is None else test(path, stored)


def test_key(path: str, current: Mapping[str, str] | None, key: str) -> Mapping[str, object]:
    """Tests that a key still has its value in the map at this path, or is still absent. current: the map as stored.

    If there is no map (None), the map itself is tested: a test below a missing map never succeeds.
    """
    return test_absent(path) if current is None else test_stored(child(path, key), current.get(key))


def set_or_remove(path: str, desired: str | None) -> Mapping[str, object]:
    """Sets a value in a map, whether or not the key exists. None: removes the key."""
    return remove(path) if desired is None else add(path, desired)


def add(path: str, value: object) -> Mapping[str, object]:
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> Mapping[str, object]:
    return {"op": "remove", "path": path}


def new_map(path: str, desired: Mapping[str, str | None]) -> Part:
    """The part for a map that the Node does not have yet. desired: key -> value; None: the key is removed."""
    added = {key: value for key, value in desired.items() if value is not None}
    if not added:
        return Part(tests=[], writes=[])
    return Part(tests=[test_absent(path)], writes=[add(path, added)])
