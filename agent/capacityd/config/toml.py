"""TOML as text: parses a document, and writes a value. Does not know what the keys mean."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from capacityd.config.syntax import syntax_error
from capacityd.model.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_DEPTH = 20
"""The most levels of tables in tables, because later code recurses."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def parse_toml(text: str) -> dict[str, Any]:
    """The document; an integer of more than 64 bits is a TooLargeInteger. Raises ConfigError with the line."""
    try:
        document = tomllib.loads(text)
        too_deep = _depth(document) > MAX_DEPTH
    except RecursionError as e:
        raise _too_deep(text) from e
    except ValueError as e:  # also for an integer of thousands of digits, which is not a TOMLDecodeError
        raise syntax_error(str(e), text) from e
    if too_deep:
        raise _too_deep(text)
    checked: dict[str, Any] = _without_too_large_integers(document)
    return checked


@dataclass(frozen=True, slots=True)
class TooLargeInteger:
    """Stands for an integer of more than 64 bits, which TOML does not allow and Python cannot always print."""

    def __str__(self) -> str:
        return "an integer of more than 64 bits"


def _without_too_large_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_too_large_integers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_too_large_integers(item) for item in value]
    return TooLargeInteger() if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def toml_key(name: str) -> str:
    """A key, in quotes if it needs them."""
    return name if _BARE.fullmatch(name) else toml_value(name)


def toml_value(value: object) -> str:
    """Text, an integer, a boolean, a list or a table in one line of TOML."""
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


def _too_deep(text: str) -> ConfigError:
    rows = [sum(map(row.count, "[{.")) for row in text.split("\n")]
    return ConfigError(f"has more than {MAX_DEPTH} tables or lists inside each other", rows.index(max(rows)) + 1)


def _depth(value: object) -> int:
    """The number of levels of tables and lists, 1 for another value. Raises RecursionError for a thousand."""
    items: Iterable[object] = ()
    if isinstance(value, dict):
        items = value.values()
    elif isinstance(value, list):
        items = value
    return 1 + max(map(_depth, items), default=0)
