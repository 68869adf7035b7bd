"""Reads fields of Kubernetes' JSON objects. Strict about types, tolerant of missing fields. Pure.

path: where the field is in the whole object, for messages; "" for a field at the top, whose key says where it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from capacityd.model.text import printable

JsonObject: TypeAlias = Mapping[str, Any]


class InvalidDocument(ValueError):
    """An object is of the wrong kind, or a field has a type or content that the API server never sends.

    str() names the field, and quotes nothing of the object.
    """


def object_at(parent: JsonObject, key: str, path: str = "") -> JsonObject | None:
    """Returns the JSON object at this key; None if it is missing."""
    value = parent.get(key)
    if value is not None and not isinstance(value, dict):
        raise InvalidDocument(f"{path or key} is not a JSON object")
    return value


def objects_at(parent: JsonObject, key: str, path: str = "") -> list[JsonObject] | None:
    """Returns the list of JSON objects at this key; None if it is missing."""
    value = parent.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InvalidDocument(f"{path or key} is not a list of JSON objects")
    return cast("list[JsonObject]", value)


def text_at(parent: JsonObject, key: str, path: str = "") -> str | None:
    """Returns the text at this key unchanged; None if it is missing."""
    value = parent.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidDocument(f"{path or key} is not text")
    return value


def printable_text_at(parent: JsonObject, key: str, path: str = "") -> str:
    """Returns the text at this key, safe to print; "" if it is missing."""
    return printable(text_at(parent, key, path=path) or "")
