"""Parses booleans and texts, and describes TOML values in messages. The types of values share these functions."""

from __future__ import annotations


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
    """Parses a text or a list of texts. kind: what messages call a text. Raises ValueError."""
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
