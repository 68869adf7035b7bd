"""TOML as text: reading it, with hints at its traps, and writing a value. Knows nothing of what a key means."""

from __future__ import annotations

import re
import sys
from typing import Any

from capacityd.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_DEEPEST = 20  # tables in tables; what reads the document afterwards may recurse
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LINE = re.compile(r"\(at line ([0-9]+), column [0-9]+\)$")  # before that it may quote the file
_UNQUOTED_NAME = re.compile(r"""\s*\[+\s*resources\s*\.\s*([^"'/\]\s]+/[^"'./\]\s]+)""")
_CURLY = frozenset("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2018\u2019")
_HINTS = (  # a part of what the parser says -> what to do
    ("twice", "a table may stand only once"),
    ("overwrite a value", "a key may stand only once"),
    ("Duplicate inline table key", "a key may stand only once"),
    ("mutate immutable namespace", "a table in braces ends with its brace; nothing can be added to it below"),
    ("Unclosed inline table", "a table in braces stands on one line, and text and ids in quotes"),
    (
        "Invalid initial character",
        "a key must follow here; a table in braces stands on one line, without a comma at its end",
    ),
    (
        "Invalid value (at line",
        'text, ids, sizes and times stand in quotes, as in vendor = "0403"; true and false do not',
    ),
    ("Expected newline", 'text, ids, sizes and times stand in quotes, as in vendor = "0403"'),
    ("Unescaped", "in single quotes a backslash stands for itself"),
    (
        "after a key in a key/value pair",
        'write key = value; a key with other characters than a-z, 0-9, "-" and "_" in quotes',
    ),
)


def parse_toml(text: str) -> dict[str, Any]:
    """The document. Raises ConfigError that says where and what it is that isn't TOML."""
    try:
        document = tomllib.loads(text)
    except RecursionError as e:
        raise ConfigError("is not TOML that can be read: it nests too deeply") from e
    except ValueError as e:  # also a number of thousands of digits, which is no TOMLDecodeError
        raise ConfigError(f"is not TOML: {e}{_hint(str(e), text)}") from e
    _check(document)
    return document


def toml_key(name: str) -> str:
    """A key as TOML writes it."""
    return name if _BARE.fullmatch(name) else toml_value(name)


def toml_value(value: object) -> str:
    """Text, a whole number, true, false, a list or a table, in one line of TOML."""
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


def _check(document: dict[str, Any]) -> None:
    """No number beyond 64 bits (as in TOML; Python refuses to print a long one), no depth that exhausts the stack."""
    level: list[object] = [document]
    for _ in range(_DEEPEST):
        below: list[object] = []
        for value in level:
            if isinstance(value, dict):
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise ConfigError("is not TOML that can be read: it holds a number of more than 64 bits")
        level = below
    if level:
        raise ConfigError(f"is not TOML that can be read: it nests more than {_DEEPEST} deep")


def _hint(message: str, text: str) -> str:
    if at := _LINE.search(message):
        line = text.split("\n")[int(at[1]) - 1]
        if not _CURLY.isdisjoint(line):
            return "; quotes must be straight ones"
        if name := _UNQUOTED_NAME.match(line):
            return f'; put the name in quotes: [resources."{name[1]}"]'
    return next((f"; {hint}" for part, hint in _HINTS if part in message), "")
