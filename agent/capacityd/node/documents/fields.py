"""Reads fields of Kubernetes' JSON objects. A field may be missing, but a wrong type raises InvalidDocument."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from capacityd.model.text import printable

JsonObject: TypeAlias = Mapping[str, Any]


class InvalidDocument(ValueError):
    """An object is of the wrong kind, or a field has a type or content that the API server never sends.

    The message names the field, and quotes nothing from the object.
    """


def object_at(parent: JsonObject, key: str) -> JsonObject:
    """Returns the JSON object at this key; {} if the key is missing."""
    value = parent.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidDocument(f"{key} is not a JSON object")
    return value


def objects_at(parent: JsonObject, key: str) -> list[JsonObject]:
    """Returns the list of JSON objects at this key; [] if the key is missing."""
    value = parent.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InvalidDocument(f"{key} is not a list of JSON objects")
    return cast("list[JsonObject]", value)


def text_at(parent: JsonObject, key: str) -> str | None:
    """Returns the text at this key unchanged; None if the key is missing."""
    value = parent.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidDocument(f"{key} is not text")
    return value


def printable_text_at(parent: JsonObject, key: str) -> str:
    """Returns the text at this key, safe to print; "" if the key is missing."""
    return printable(text_at(parent, key) or "")
