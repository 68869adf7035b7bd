"""TOML values: parses booleans and texts, describes a value in messages, and writes a value as TOML."""

from __future__ import annotations

import re

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
"""A key that needs no quotes."""


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
    if isinstance(raw, dict):
        return "a table"
    return str(raw)


def parse_texts(raw: object, kind: str) -> list[str]:
    """Parses a text or a list of texts. kind: what messages call one text, such as "a name". Raises ValueError."""
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


def toml_key(name: str) -> str:
    """A key, in quotes if necessary."""
    return name if _BARE_KEY.fullmatch(name) else toml_value(name)


def toml_value(value: object) -> str:
    """Text, an integer, a boolean, a list or a table as one line of TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list | tuple):
        items = [toml_value(item) for item in value]
        return f"[{', '.join(items)}]"
    if isinstance(value, dict):
        pairs = [f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items()]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    text = "".join(_escaped(char) for char in str(value))
    return f'"{text}"'


def _escaped(char: str) -> str:
    """Escapes a character for a TOML text in double quotes."""
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    code = ord(char)
    if code <= 0xFFFF:
        return f"\\u{code:04X}"
    return f"\\U{code:08X}"
