"""Functions for all kinds of objects: their names in messages, and their quantities."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from capacityd.model.quantity import whole_quantity
from capacityd.model.text import printable
from capacityd.node.documents.fields import InvalidDocument, JsonObject


@contextmanager
def naming_object(kind: str, document: JsonObject) -> Iterator[None]:
    """Adds the object's kind and name to the message of an InvalidDocument."""
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


def whole_quantities(quantities: JsonObject) -> dict[str, int]:
    """Returns the quantities that are whole numbers."""
    numbers = {}
    for name, quantity in quantities.items():
        number = whole_quantity(str(quantity))
        if number is not None:
            numbers[name] = number
    return numbers
