"""TOML as text: parses a document, and writes a value. Does not know what the keys mean."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

from capacityd.config.syntax import opening_line, remedy
from capacityd.model.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_DEPTH = 20
"""Tables in tables. What reads the document later may recurse."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_AT = re.compile(r"\s*\(at (?:line ([0-9]+), column [0-9]+|end of document)\)$")  # before it, the file may be quoted


def parse_toml(text: str) -> dict[str, Any]:
    """The document. Raises ConfigError with the line, the error and its remedy."""
    try:
        document = tomllib.loads(text)
        too_deep = _depth(document) > MAX_DEPTH
    except RecursionError as e:
        raise _too_deep(text) from e
    except ValueError as e:  # also for an integer of thousands of digits, which is not a TOMLDecodeError
        raise _syntax_error(str(e), text) from e
    if too_deep:
        raise _too_deep(text)
    return document


def too_large_integers(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of keys whose value has more than 64 bits. TOML does not allow them, and Python cannot print all."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from too_large_integers(item, (*path, key))
    elif isinstance(value, list):
        for item in value:
            yield from too_large_integers(item, path)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        yield path


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


def _syntax_error(message: str, text: str) -> ConfigError:
    """message: of TOML's parser. Before Python 3.14 its exception has no field for the line."""
    if at := _AT.search(message):
        message = message[: at.start()]
        line = int(at[1]) if at[1] else opening_line(message, text)
        return ConfigError(f"is not valid TOML: {remedy(message, text, line)}", line)
    digits = [max(map(len, re.findall("[0-9_]+", row)), default=0) for row in text.split("\n")]
    return ConfigError("is not valid TOML: an integer has more than 64 bits", digits.index(max(digits)) + 1)


def _too_deep(text: str) -> ConfigError:
    rows = [sum(map(row.count, "[{.")) for row in text.split("\n")]
    return ConfigError(f"has more than {MAX_DEPTH} tables or lists in each other", rows.index(max(rows)) + 1)


def _depth(value: object) -> int:
    """How many levels of tables and lists there are. Raises RecursionError for a thousand."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)
