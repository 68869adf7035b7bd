"""Shared by the types of values: TOML values in messages, a text or a list of texts, and their JSON Schema."""

from __future__ import annotations

from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]
"""A JSON Schema (draft-07) of one value."""


def parse_boolean(raw: object) -> bool:
    """Parses a TOML value that must be true or false. Raises ValueError."""
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.lower() in ("true", "false"):
        raise ValueError(f"must be true or false, without quotes: {raw.lower()}")
    raise ValueError(f"must be true or false; got {describe_toml_value(raw)}")


def describe_toml_value(raw: object) -> str:
    """A TOML value in the form that error messages use."""
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, str):
        return f'"{raw}"'
    if isinstance(raw, list):
        return "a list"
    return "a table" if isinstance(raw, dict) else str(raw)


def parse_texts(raw: object, kind: str) -> list[str]:
    """Parses a text or a list of texts. kind: what messages call one of them, such as "text". Raises ValueError."""
    texts: list[str] = []
    items = raw if isinstance(raw, list) else [raw]
    if not items:
        raise ValueError("must not be an empty list")
    for item in items:
        if type(item) is int:  # isinstance() would accept True and False
            raise ValueError(f'must be {kind} in quotes: "{item}"')
        if not isinstance(item, str):
            raise ValueError(f"must be {kind} in quotes, or a list of them; got {describe_toml_value(item)}")
        texts.append(item)
    return texts


def texts_schema(text: Schema) -> Schema:
    """The schema of one text with this schema, or a list of such texts."""
    return {"type": ["string", "array"], **text, "items": {"type": "string", **text}, "minItems": 1}


def or_whole_number(text: Schema) -> Schema:
    """The schema of a text, or of texts_schema(), extended by whole numbers from 0: alone, and in a list of texts."""
    types = [text["type"]] if isinstance(text["type"], str) else text["type"]
    schema = text | {"type": [*types, "integer"], "minimum": 0}
    if "items" in text:
        schema["items"] = or_whole_number(text["items"])
    return schema
