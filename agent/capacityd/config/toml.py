"""Parses a TOML document, and writes a value as TOML."""

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
"""Maximum depth of nested tables and lists. The code that reads them is recursive."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
"""A key that needs no quotes."""


def parse_toml(text: str) -> dict[str, Any]:
    """Parses a document. Raises ConfigError with the line."""
    try:
        document: dict[str, Any] = tomllib.loads(text)
        _check_limits(document)
    except RecursionError as e:
        # Each of these characters may begin a table or a list, so the line with the most is probably wrong.
        counts = [row.count("[") + row.count("{") + row.count(".") for row in text.split("\n")]
        line = counts.index(max(counts)) + 1
        raise ConfigError(f"has more than {MAX_DEPTH} tables or lists inside each other", line=line) from e
    except ValueError as e:  # TOMLDecodeError, or an integer has thousands of digits
        raise syntax_error(str(e), text) from e
    return document


def _check_limits(value: object, depth: int = 1) -> None:
    """Raises RecursionError if tables or lists are nested too deeply, as the parser does.

    Raises ValueError for an integer with more digits than Python prints.
    """
    if depth > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, int):
        str(value)  # raises ValueError for thousands of digits
    elif isinstance(value, dict):
        for item in value.values():
            _check_limits(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check_limits(item, depth + 1)


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
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        pairs = ", ".join(f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    characters = "".join(map(_escaped, str(value)))
    return f'"{characters}"'


def _escaped(char: str) -> str:
    """Escapes a character for a TOML text in double quotes."""
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"  # \u has 4 digits, \U has 8
