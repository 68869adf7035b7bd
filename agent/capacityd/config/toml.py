"""TOML as text: parses a document, and writes a value. Does not know the keys' meanings."""

from __future__ import annotations

import re
import sys
from typing import Any

from capacityd.config.syntax import syntax_error
from capacityd.model.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_DEPTH = 20
"""Maximum depth of nested tables, because later code is recursive."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def parse_toml(text: str) -> dict[str, Any]:
    """Parses a document. Raises ConfigError with the line."""
    try:
        document: dict[str, Any] = tomllib.loads(text)
        _check(document)
    except RecursionError as e:
        rows = [sum(map(row.count, "[{.")) for row in text.split("\n")]
        why = f"has more than {MAX_DEPTH} tables or lists inside each other"
        raise ConfigError(why, rows.index(max(rows)) + 1) from e
    except ValueError as e:  # includes integers with thousands of digits, which raise no TOMLDecodeError
        raise syntax_error(str(e), text) from e
    return document


def _check(value: object, depth: int = 1) -> None:
    """Raises RecursionError for tables that are nested too deeply, and ValueError for an integer that can't be
    printed."""
    if depth > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, int):
        str(value)
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check(item, depth + 1)


def toml_key(name: str) -> str:
    """A key, in quotes if necessary."""
    return name if _BARE.fullmatch(name) else toml_value(name)


def toml_value(value: object) -> str:
    """Text, an integer, a boolean, a list or a table as one line of TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        inner = ", ".join(f"{toml_key(k)} = {toml_value(v)}" for k, v in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return '"' + "".join(map(_character, str(value))) + '"'


def _character(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    return f"\\u{ord(char):04X}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08X}"
