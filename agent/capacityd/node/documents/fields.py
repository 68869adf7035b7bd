"""Reads fields of Kubernetes' JSON objects. Strict about types, tolerant of missing fields. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias, cast

from capacityd.model.quantity import whole_quantity
from capacityd.model.text import printable

JsonObject: TypeAlias = Mapping[str, Any]


class InvalidDocument(ValueError):
    """An object is of the wrong kind, or a field has a type or content that the API server never sends.

    The message names the field, and quotes nothing from the object.
    """


@contextmanager
def naming_object(kind: str, document: JsonObject) -> Iterator[None]:
    """Adds the object's kind and name to the message of an InvalidDocument.

    Not for the Node that the service reads: the service's messages quote nothing from an object.
    """
    try:
        yield
    except InvalidDocument as e:
        metadata = document.get("metadata")
        if not isinstance(metadata, dict):
            metadata = {}
        parts = [metadata.get(key) for key in ("namespace", "name")]
        name = "/".join(part for part in parts if isinstance(part, str) and part)
        subject = f'{kind} "{name}"' if name else kind
        raise InvalidDocument(printable(f"{subject}: {e}")) from e


def object_at(parent: JsonObject, key: str) -> JsonObject | None:
    """Returns the JSON object at this key; None if it is missing."""
    value = parent.get(key)
    if value is not None and not isinstance(value, dict):
        raise InvalidDocument(f"{key} is not a JSON object")
    return value


def objects_at(parent: JsonObject, key: str) -> list[JsonObject] | None:
    """Returns the list of JSON objects at this key; None if it is missing."""
    value = parent.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InvalidDocument(f"{key} is not a list of JSON objects")
    return cast("list[JsonObject]", value)


def text_at(parent: JsonObject, key: str) -> str | None:
    """Returns the text at this key unchanged; None if it is missing."""
    value = parent.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidDocument(f"{key} is not text")
    return value


def printable_text_at(parent: JsonObject, key: str) -> str:
    """Returns the text at this key, safe to print; "" if it is missing."""
    return printable(text_at(parent, key) or "")


def whole_quantities(quantities: JsonObject | None) -> dict[str, int]:
    """Returns the quantities that are whole numbers."""
    numbers = {}
    for name, quantity in (quantities or {}).items():
        number = whole_quantity(str(quantity))
        if number is not None:
            numbers[name] = number
    return numbers
