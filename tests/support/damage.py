"""JSON in which one value is damaged."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, TypeAlias

from hypothesis import strategies as st

JsonPath: TypeAlias = tuple[str | int, ...]

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "n1", "\x1b[31m", "1e9"])
_KEYS = st.sampled_from(["name", "\x1b", "example.com/dongle"])
_VALUES = _SCALARS | st.lists(_SCALARS, max_size=2) | st.dictionaries(_KEYS, _SCALARS)


def damaged(document: Any) -> st.SearchStrategy[Any]:
    """A strategy for copies of the document in which one value has another type or content."""
    return st.builds(replaced, st.just(document), st.sampled_from([*_paths(document)]), _VALUES)


def replaced(document: Any, path: JsonPath, value: object) -> Any:
    """A copy of the document with the value at the path replaced."""
    copied = copy.deepcopy(document)
    parent = copied
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return copied


def _paths(value: Any, path: JsonPath = ()) -> Iterator[JsonPath]:
    """The paths of all values below this value."""
    children = value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    for key, child in children:
        yield (*path, key)
        yield from _paths(child, (*path, key))
