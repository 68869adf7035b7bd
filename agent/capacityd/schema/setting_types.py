"""The types of a setting's value: a path, a time, a command, a number, a name, a share.

A parser takes a TOML value. It raises ValueError with the error and its remedy. config/ adds the file, the line and the
key.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from capacityd.model.quantity import LARGEST_QUANTITY
from capacityd.schema.toml_values import describe_toml_value, parse_boolean, toml_value

_MAX_NODE_NAME_LENGTH = 253
_DNS_LABEL = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""A part of a DNS name between dots (RFC 1123)."""
_DURATION = re.compile(r"([0-9]{1,12})\s*(ms|s|min|m|h|d)")  # such as 5min
_LINE_KEY = re.compile(r"[^\s=:]|\S.*[^\s=:]")
"""A name without white space at its ends, and without "=" or ":" at its end."""
_EXAMPLE_COMMAND = '["/usr/bin/program", "argument"]'
_PERCENT = re.compile(r"([0-9]{1,3})\s*%")
_SHELL_SYNTAX = re.compile(
    r"""
    [|&;<>]{1,2} | 2>(&1)?                      # an operator
    | \$\{?[A-Za-z_][A-Za-z0-9_]*\}?(/.*)?      # a variable
    | \$\(.*\) | `.*`                           # the output of a command
    | ~(/.*)?                                   # a home directory
    """,
    re.VERBOSE,
)
"""A word that only a shell understands."""
_SECONDS_OF_UNIT = {"ms": 0.001, "s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}
"""Unit of a duration -> its length in seconds."""

SettingValue: TypeAlias = str | int | float | bool | tuple[str, ...] | None
"""The parsed value of a ValueDetector's setting."""


@dataclass(frozen=True, slots=True)
class SettingType:
    """The type of a setting's value."""

    name: str
    """What the documentation calls a value of this type."""
    parse: Callable[[object], Any]
    """Parses a TOML value. Raises ValueError."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of the configuration: the type of its value, and its documentation."""

    type: SettingType
    about: str
    """A description for the documentation and for messages, in lower case and without a full stop."""
    default: object = None
    """The TOML value of a missing key; None if the key has no default."""
    required: bool = False


def file_path(ending: str = "") -> SettingType:
    """An absolute path. ending: the required end of the path, such as ".prom"; "" for any end."""

    def parse(raw: object) -> str:
        if not isinstance(raw, str):
            raise ValueError(f"must be a path in quotes; got {describe_toml_value(raw)}")
        if not raw.isprintable():
            raise ValueError(f'"{raw}" contains an unprintable character')
        if not raw.startswith("/"):
            raise ValueError(f'must be an absolute path; got "{raw}"')
        if re.search(r"[*?\[{$]", raw):
            raise ValueError(f'must be an exact path, without wildcards and variables; got "{raw}"')
        if raw.rstrip() != raw:
            raise ValueError(f'must not end with a space; got "{raw}"')
        if not raw.endswith(ending):
            raise ValueError(f'must end with "{ending}"; got "{raw}"')
        return raw

    return SettingType("path", parse)


def duration(least: str, most: str) -> SettingType:
    """A time such as "30s", which is parsed into seconds. least, most: the shortest and the longest valid time."""
    shortest = _parse_seconds(least)
    longest = _parse_seconds(most)

    def parse(raw: object) -> float:
        seconds = _parse_seconds(raw)
        if not shortest <= seconds <= longest:
            raise ValueError(f'must be from {least} to {most}; got "{raw}"')
        return seconds

    return SettingType("time", parse)


def _parse_seconds(raw: object) -> float:
    match = _DURATION.fullmatch(raw) if isinstance(raw, str) else None
    if match is None:
        raise ValueError(f'must be a duration such as "30s", "5min" or "2h"; got {describe_toml_value(raw)}')
    number, unit = match.groups()
    return float(int(number) * _SECONDS_OF_UNIT[unit])


def integer(least: int, most: int) -> SettingType:
    """A whole number from least to most."""

    def parse(raw: object) -> int:
        if type(raw) is not int:  # isinstance() would accept True and False
            if isinstance(raw, str) and re.fullmatch(r"\s*[0-9]{1,18}\s*", raw):
                raise ValueError(f"must be a whole number without quotes: {int(raw)}")
            raise ValueError(f"must be a whole number; got {describe_toml_value(raw)}")
        if not least <= raw <= most:
            raise ValueError(f"must be a whole number from {least} to {most}; got {raw}")
        return raw

    return SettingType("whole number", parse)


def one_of(*words: str) -> SettingType:
    """One of these words. The documentation shows each word as code, with its quotes."""

    def parse(raw: object) -> str:
        if not isinstance(raw, str) or raw not in words:
            raise ValueError(f"must be one of {', '.join(words)} in quotes; got {describe_toml_value(raw)}")
        return raw

    words_as_code = [f"`{toml_value(word)}`" for word in words]
    return SettingType(" or ".join(words_as_code), parse)


def _parse_command(raw: object) -> tuple[str, ...]:
    is_command_line = isinstance(raw, str) and len(raw.split()) > 1
    if is_command_line:
        raise ValueError(f"must be a list such as {_EXAMPLE_COMMAND}, because no shell splits it")
    words = [raw] if isinstance(raw, str) else raw
    if not isinstance(words, list) or not words:
        raise ValueError(f"must be a list of texts such as {_EXAMPLE_COMMAND}")
    for word in words:
        if not isinstance(word, str):
            raise ValueError(f"must be a list of texts such as {_EXAMPLE_COMMAND}; got {describe_toml_value(word)}")
    if not words[0].startswith("/"):
        raise ValueError(f'the program must be an absolute path such as "/usr/bin/program"; got "{words[0]}"')
    if any("\0" in word for word in words):
        raise ValueError("must not contain a NUL character")
    for word in words:
        if _SHELL_SYNTAX.fullmatch(word):
            raise ValueError(f'"{word}" needs a shell: use a script')
    return tuple(words)


def _parse_line_key(raw: object) -> str:
    if isinstance(raw, str) and raw.isprintable() and _LINE_KEY.fullmatch(raw):
        return raw
    raise ValueError(f'must be a name in quotes, without a "=" or ":" behind it; got {describe_toml_value(raw)}')


def _parse_node_name(raw: object) -> str:
    if not isinstance(raw, str):
        raise ValueError(f"must be a name in quotes; got {describe_toml_value(raw)}")
    has_valid_labels = all(_DNS_LABEL.fullmatch(label) for label in raw.split("."))
    if len(raw) > _MAX_NODE_NAME_LENGTH or not has_valid_labels:
        raise ValueError(f'"{raw}" is not a valid Node name (RFC 1123 subdomain: a-z, 0-9, "-" and ".")')
    return raw


@dataclass(frozen=True, slots=True)
class Reserve:
    """The quantity of a resource that is held back from publishing."""

    units: int = 0
    """A quantity in the resource's unit; 0 if the reserve is a share."""
    percent: int = 0
    """A share of the total; 0 if the reserve is a number of units."""


def _parse_reserve(raw: object) -> Reserve:
    if type(raw) is int:
        return Reserve(units=QUANTITY.parse(raw))
    match = _PERCENT.fullmatch(raw) if isinstance(raw, str) else None
    if match is None:
        raise ValueError(
            'must be a whole number in units of the quantity, or a share in quotes such as "10%"; '
            f"got {describe_toml_value(raw)}"
        )
    percent = int(match[1])
    if percent >= 100:
        raise ValueError(f'must be less than 100%; got "{raw}"')
    return Reserve(percent=percent)


BOOLEAN = SettingType("true or false", parse_boolean)
QUANTITY = integer(least=0, most=LARGEST_QUANTITY)
COMMAND = SettingType("path, or list of path and arguments", _parse_command)
"""A program and its arguments, without a shell."""
LINE_KEY = SettingType("name", _parse_line_key)
"""The name at the beginning of a line, before a space, "=" or ":"."""
NODE_NAME = SettingType("name", _parse_node_name)
"""The name of a Node: an RFC 1123 subdomain."""
RESERVE = SettingType("whole number or share", _parse_reserve)
"""The quantity to hold back, as a whole number of units or a share of the total. It is parsed into a Reserve."""
