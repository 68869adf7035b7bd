"""Reads fields of Kubernetes' JSON objects. Strict about types, tolerant of missing fields. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from capacityd.model.text import printable

JsonObject: TypeAlias = Mapping[str, Any]


class InvalidField(ValueError):
    """A field has a type or content that the API server never sends. The message does not name the object."""


def described(kind: str, document: JsonObject) -> str:
    """Returns the object's kind and, if there is one, its name, for messages."""
    metadata = document.get("metadata")
    parts = [metadata.get(key) for key in ("namespace", "name")] if isinstance(metadata, dict) else []
    name = "/".join(part for part in parts if isinstance(part, str) and part)
    return printable(f'{kind} "{name}"') if name else kind


def mapping(parent: JsonObject, key: str, path: str) -> JsonObject | None:
    """Returns the JSON object at this key; None if it is missing. path: the field's path, for InvalidField."""
    value = parent.get(key)
    if value is not None and not isinstance(value, dict):
        raise InvalidField(f"{path} is not a JSON object")
    return value


def objects(parent: JsonObject, key: str, path: str) -> list[JsonObject] | None:
    """Returns the list of JSON objects at this key; None if it is missing. path: the field's path, for InvalidField."""
    value = parent.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InvalidField(f"{path} is not a list of JSON objects")
    return cast("list[JsonObject]", value)


def text(parent: JsonObject, key: str, path: str) -> str | None:
    """Returns the text at this key unchanged; None if it is missing. path: the field's path, for InvalidField."""
    value = parent.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidField(f"{path} is not text")
    return value


def printable_text(parent: JsonObject, key: str, path: str) -> str:
    """Returns the text at this key, safe to print; "" if it is missing. path: the field's path, for InvalidField."""
    return printable(text(parent, key, path) or "")
