"""The types of a setting's value: a path, a duration, a command, a number, a name, a share.

parse() raises ValueError with the error and its remedy; config/ adds the file, the line and the key. schema() returns
the JSON Schema of these values. It may accept more: JSON Schema can't compare durations.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from capacityd.model.quantity import LARGEST_QUANTITY
from capacityd.schema.toml_values import Schema, describe_toml_value, or_whole_number, parse_boolean

LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
"""A label of a DNS name (RFC 1123), as a regular expression."""
_DURATION = re.compile(r"([0-9]{1,12})\s*(ms|s|min|m|h|d)")
_ABSOLUTE_PATH = r"^/[^\x00]*"
_LINE_KEY = r"([^\s=:]|\S.*[^\s=:])"
"""A text without white space at its ends, and without a separator behind it."""
_EXAMPLE_COMMAND = '["/usr/bin/program", "argument"]'
_SHARE = re.compile(r"([0-9]{1,3})(?:[.]([0-9]{1,6}))?\s*%")
_SHELL_CHARACTERS = re.compile(r"[|&;<>$`*?~]")
"""Characters that a shell may interpret."""
_ONLY_FOR_A_SHELL = re.compile(r"[|&;<>]{1,2}|2>(&1)?|\$\{?[A-Za-z_][A-Za-z0-9_]*\}?(/.*)?|\$\(.*\)|`.*`|~(/.*)?")
"""Words that a shell would replace: operators, variables, commands, home directories."""
_SECONDS = {"ms": 0.001, "s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}
"""Unit of a duration -> its length in seconds."""


@dataclass(frozen=True, slots=True)
class FilePath:
    """An absolute path."""

    ending: str = ""
    """The end that the path must have, such as ".prom"; "" for any."""

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str):
            raise ValueError(f"must be a path in quotes; got {describe_toml_value(raw)}")
        if not raw.startswith("/") or "\0" in raw:
            raise ValueError(f'must be an absolute path; got "{raw}"')
        if raw != raw.rstrip():
            raise ValueError(f'must not end with a space; got "{raw}"')
        if not raw.endswith(self.ending):
            raise ValueError(f'must end with "{self.ending}"; got "{raw}"')
        return raw

    def schema(self) -> Schema:
        path = rf"{_ABSOLUTE_PATH}{re.escape(self.ending)}$"
        return {"type": "string", "pattern": path, "not": {"type": "string", "pattern": r"\s$"}}


def duration_value(seconds: float) -> str:
    """A time in the form that Duration parses, in the largest unit that gives a whole number; 0 as "0s".

    seconds: rounded to milliseconds.
    """
    milliseconds = round(seconds * 1000)
    if milliseconds == 0:
        return "0s"
    lengths = {unit: round(_SECONDS[unit] * 1000) for unit in ("d", "h", "min", "s", "ms")}
    unit = next(unit for unit, length in lengths.items() if milliseconds % length == 0)
    return f"{milliseconds // lengths[unit]}{unit}"


@dataclass(frozen=True, slots=True)
class Duration:
    """A time such as "30s"; parsed into seconds."""

    least: float
    """The shortest time in seconds."""
    most: float
    """The longest time in seconds."""

    def parse(self, raw: object) -> float:
        match = _DURATION.fullmatch(raw) if isinstance(raw, str) else None
        if match is None:
            raise ValueError(f'must be a duration such as "30s", "5min" or "2h"; got {describe_toml_value(raw)}')
        number, unit = match.groups()
        seconds = float(int(number) * _SECONDS[unit])
        if not self.least <= seconds <= self.most:
            raise ValueError(f'must be from {duration_value(self.least)} to {duration_value(self.most)}; got "{raw}"')
        return seconds

    def schema(self) -> Schema:
        return {"type": "string", "pattern": f"^{_DURATION.pattern}$"}


@dataclass(frozen=True, slots=True)
class Command:
    """A program and its arguments, without a shell."""

    def parse(self, raw: object) -> tuple[str, ...]:
        if isinstance(raw, str) and len(raw.split()) > 1:  # a command line; the message shows it as a list
            try:
                program = ["/bin/sh", "-c", raw] if _SHELL_CHARACTERS.search(raw) else shlex.split(raw)
            except ValueError:  # a quote is not closed
                program = raw.split()
            raise ValueError(f"must be a list, because no shell splits it: {json.dumps(program, ensure_ascii=False)}")
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
            if _ONLY_FOR_A_SHELL.fullmatch(word):
                raise ValueError(f'"{word}" needs a shell: ["/bin/sh", "-c", "…"]')
        return tuple(words)

    def schema(self) -> Schema:
        program = {"type": "string", "pattern": f"{_ABSOLUTE_PATH}$"}
        argument = {"type": "string", "pattern": r"^[^\x00]*$"}
        program_and_arguments = {"type": "array", "items": [program], "additionalItems": argument, "minItems": 1}
        only_program = {"type": "string", "pattern": r"^/[^\x00\s]*\s*$"}
        return {"anyOf": [only_program, program_and_arguments]}


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number."""

    least: int
    most: int

    def parse(self, raw: object) -> int:
        if type(raw) is not int:  # isinstance() would accept True and False
            if isinstance(raw, str) and re.fullmatch(r"\s*[0-9]{1,18}\s*", raw):
                raise ValueError(f"must be a whole number without quotes: {int(raw)}")
            raise ValueError(f"must be a whole number; got {describe_toml_value(raw)}")
        if not self.least <= raw <= self.most:
            raise ValueError(f"must be a whole number from {self.least} to {self.most}; got {raw}")
        return raw

    def schema(self) -> Schema:
        schema = {"type": "integer", "minimum": self.least}
        if self.most < LARGEST_QUANTITY:  # the largest integer of TOML needs no maximum
            schema["maximum"] = self.most
        return schema


class Boolean:
    """true or false."""

    def parse(self, raw: object) -> bool:
        return parse_boolean(raw)

    def schema(self) -> Schema:
        return {"type": "boolean"}


class LineKey:
    """The name at the beginning of a line, before a space, "=" or ":"."""

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str) or not re.fullmatch(_LINE_KEY, raw):
            raise ValueError(
                f'must be a name in quotes, without a "=" or ":" behind it; got {describe_toml_value(raw)}'
            )
        return raw

    def schema(self) -> Schema:
        return {"type": "string", "pattern": f"^{_LINE_KEY}$"}


@dataclass(frozen=True, slots=True)
class Word:
    """One of a few words."""

    words: tuple[str, ...]

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str) or raw not in self.words:
            raise ValueError(f"must be one of {', '.join(self.words)} in quotes; got {describe_toml_value(raw)}")
        return raw

    def schema(self) -> Schema:
        return {"enum": [*self.words]}


class NodeName:
    """The name of a Node: an RFC 1123 subdomain."""

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str):
            raise ValueError(f"must be a name in quotes; got {describe_toml_value(raw)}")
        if len(raw) > 253 or not all(re.fullmatch(LABEL, label) for label in raw.split(".")):
            raise ValueError(f'"{raw}" is not a valid Node name (RFC 1123 subdomain: a-z, 0-9, "-" and ".")')
        return raw

    def schema(self) -> Schema:
        return {"type": "string", "pattern": rf"^{LABEL}(\.{LABEL})*$", "maxLength": 253}


@dataclass(frozen=True, slots=True)
class Reserve:
    """The quantity of a resource that is held back from publishing."""

    units: int = 0
    """In the resource's unit."""
    share: tuple[int, int] = (0, 1)
    """A share of the total: numerator and denominator."""


class ReserveValue:
    """The quantity to hold back: a whole number of units, or a share of the total."""

    def parse(self, raw: object) -> Reserve:
        if type(raw) is int:
            return Reserve(units=Integer(least=0, most=LARGEST_QUANTITY).parse(raw))
        match = _SHARE.fullmatch(raw) if isinstance(raw, str) else None
        if match is None:
            raise ValueError(
                'must be a whole number in units of the quantity, or a share in quotes such as "10%"; '
                f"got {describe_toml_value(raw)}"
            )
        percent, decimals = match.groups(default="")
        # 12.5% is 125 of 1000.
        part = int(percent + decimals)
        whole = 100 * 10 ** len(decimals)
        if part >= whole:
            raise ValueError(f'must be less than 100%; got "{raw}"')
        divisor = math.gcd(part, whole)
        return Reserve(share=(part // divisor, whole // divisor))

    def schema(self) -> Schema:
        below_100 = _SHARE.pattern.replace("{1,3}", "{1,2}")  # at most two digits before the point
        return or_whole_number({"type": "string", "pattern": f"^0?{below_100}$"})  # 0?: such as "012%"


class SettingKind(Protocol):
    """The type of a setting's value."""

    def parse(self, raw: object) -> Any:
        """Parses a TOML value. Raises ValueError."""

    def schema(self) -> Schema:
        """The JSON Schema of the values that parse() accepts, as far as JSON Schema can express them."""


SettingValue: TypeAlias = str | int | float | bool | tuple[str, ...] | None
"""The parsed value of a ValueDetector's setting."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A key whose value can be parsed without knowing other keys."""

    kind: SettingKind
    about: str
    """A description for the documentation and for messages, in lower case and without a full stop."""
    default: object = None
    """The TOML value that a missing key is equal to; None if there is none."""
    required: bool = False
