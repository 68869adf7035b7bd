"""Reads fields of Kubernetes' objects. A field may be missing, but a wrong type raises InvalidDocument."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from capacityd.model.text import printable

JsonObject: TypeAlias = Mapping[str, Any]


class InvalidDocument(ValueError):
    """An object is of the wrong kind, or a field has a type or content that Kubernetes never writes.

    The message names the field, and quotes nothing from the object.
    """


def object_at(parent: JsonObject, key: str) -> JsonObject:
    """Returns the object at this key; {} if the key is missing."""
    value = parent.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidDocument(f"{key} is not an object")
    return value


def objects_at(parent: JsonObject, key: str) -> list[JsonObject]:
    """Returns the list of objects at this key; [] if the key is missing."""
    return _list_at(parent, key, dict, "objects")


def texts_at(parent: JsonObject, key: str) -> list[str]:
    """Returns the list of texts at this key, unchanged; [] if the key is missing."""
    return _list_at(parent, key, str, "texts")


def text_at(parent: JsonObject, key: str) -> str | None:
    """Returns the text at this key unchanged; None if the key is missing."""
    value = parent.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidDocument(f"{key} is not text")
    return value


def printable_text_at(parent: JsonObject, key: str) -> str:
    """Returns the text at this key, safe to print; "" if the key is missing."""
    return printable(text_at(parent, key) or "")


def _list_at(parent: JsonObject, key: str, kind: type, items_name: str) -> list[Any]:
    """The list at this key, whose items are of this kind. items_name: the items' name in the message."""
    value = parent.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
        raise InvalidDocument(f"{key} is not a list of {items_name}")
    return value
