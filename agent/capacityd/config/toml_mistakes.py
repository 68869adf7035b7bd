"""Finds common mistakes in a line of TOML by regular expressions, and returns their remedies."""

from __future__ import annotations

import re
from dataclasses import dataclass

from capacityd.config.line_numbers import KEY


@dataclass(frozen=True, slots=True)
class _LineMistake:
    """A mistake in a line at the position of the parser's error."""

    before: str
    """A regular expression for the text directly before the position."""
    after: str
    """A regular expression for the text directly after the position."""
    remedy: str
    """What to write. str.format() inserts the groups of both expressions."""


_LINE_MISTAKES = (
    # [resources.example.com/x]
    _LineMistake(
        before=r"\[\s*resources\s*\.\s*([^\"'\s\]]+)",
        after=r"(/[^\"'./\]\s]+)",
        remedy='the name must be in quotes: [resources."{}{}"]',
    ),
    # example.com/x = 1, resources.example.com/x.slots = 1
    _LineMistake(
        before=r"^\s*((?:resources\s*\.\s*)?)([\w.-]+)",
        after=r"(/[\w/-]+)((?:\.\w+)*)\s*=",
        remedy='the name must be in quotes: {}"{}{}"{}',
    ),
    # slots: 4
    _LineMistake(
        before=rf"({KEY})\s*",
        after=":",
        remedy='write "=" after {}, not ":"',
    ),
    # pci = { vendor = "10de", }
    _LineMistake(
        before=r",\s*",
        after=r"\s*\}",
        remedy="remove the comma before }}",
    ),
    # [ [resources."example.com/x"] ]
    _LineMistake(
        before=r"^\s*\[\s+",
        after=r"\[",
        remedy="write [[ without a space",
    ),
    # slots =
    _LineMistake(
        before=rf"^\s*({KEY})\s*=\s*",
        after=r"(?:#.*)?(?:\n|$)",
        remedy="write a value after {} =",
    ),
    # slots = 0070: the parser stops after the first 0
    _LineMistake(
        before=r"\b(quantity|slots|reserve|fallback|expect)\s*=\s*[0-9]*",
        after=r"[0-9_]+\s*(?:[,\]}#\n]|$)",
        remedy="write only digits after {} =, without zeros before them",
    ),
    # slots = ${SLOTS}
    _LineMistake(
        before=r"[=\[,]\s*",
        after=r"\$[{(A-Za-z_]",
        remedy="variables are not expanded; write the value",
    ),
    # slots = {{ slots }}
    _LineMistake(
        before=r"[=\[,]\s*\{",
        after=r"\{",
        remedy="templates are not expanded; write the value",
    ),
    # slots = 4 // seats
    _LineMistake(
        before=r"(?:^|\s)",
        after=r"(?://|/\*|;\s*\S)",
        remedy="a comment starts with #",
    ),
    # slots = 4;
    _LineMistake(
        before="",
        after=r";\s*(?:\n|$)",
        remedy="remove the semicolon",
    ),
    # { "resources": {} }
    _LineMistake(
        before=r"^",
        after=r"\{\s*(?:\"|\n|$)",
        remedy="a line starts with a key or a [table]; JSON is not valid",
    ),
    # text = "C:\lic"
    _LineMistake(
        before=r'"(?:[^"\\]|\\.)*\\[^btnfr"\\]',
        after="",
        remedy=r"write \\ for a backslash, or put the text in single quotes",
    ),
)

_VALUE_BEFORE = re.compile(
    rf"""
    (?: (?P<key>{KEY}) \s* = | [\[,] ) \s*             # a key and =, or the beginning of a value in a list
    (?P<value> [^\[\]{{}},\#"'=\n]* ) \Z               # what the parser has accepted of a value without quotes
    """,
    re.VERBOSE,
)
"""Before the place where the parser stopped, such as "slots = 4" before " seats"."""
_VALUE_AFTER = re.compile(
    r"""
    (?: [<>]=? [^\[\]{},\#"'\n]+                       # a comparison, such as >=10
      | [^\s\[\]{},\#"'=$] [^\[\]{},\#"'=$\n]* )       # any other value, without a variable such as $SLOTS
    (?= [,\]}\#\n] | $ )                               # what may follow a value
    """,
    re.VERBOSE,
)
"""After the place where the parser stopped: the rest of the value, such as " seats"."""
_WRITE_TRUE = "write {key} = true"
_WRITE_FALSE = "write {key} = false"
_NO_NULL = "TOML has no {value}; leave {key} out"
_UNQUOTED_WORDS = {
    "true": _WRITE_TRUE, "yes": _WRITE_TRUE, "on": _WRITE_TRUE,
    "false": _WRITE_FALSE, "no": _WRITE_FALSE, "off": _WRITE_FALSE,
    "null": _NO_NULL, "none": _NO_NULL, "nil": _NO_NULL,
}  # fmt: skip
"""A value without quotes, in lower case -> the remedy."""


def remedy_in_line(before: str, after: str) -> str:
    """The remedy for the first of _LINE_MISTAKES where the TOML parser stopped; "" if the line has no such mistake.

    before: the part of the line before this position. after: the text after the position.
    """
    for mistake in _LINE_MISTAKES:
        match_before = re.search(f"{mistake.before}$", before)
        match_after = re.match(mistake.after, after)
        if match_before and match_after:
            return mistake.remedy.format(*match_before.groups(), *match_after.groups())
    return ""


def remedy_of_unquoted_value(before: str, after: str) -> str:
    """The remedy for a value without quotes before or at a position; "" if there is no such value.

    before, after: the text before and after the position.
    """
    beginning = _VALUE_BEFORE.search(before)
    rest = _VALUE_AFTER.match(after)
    if beginning is None or rest is None:
        return ""
    key = beginning["key"]  # None in a list
    value = f"{beginning['value']}{rest[0]}".strip(" \t\r;")
    if key and value.lower() in _UNQUOTED_WORDS:
        return _UNQUOTED_WORDS[value.lower()].format(key=key, value=value)
    quote = "'" if "\\" in value else '"'  # a backslash in double quotes begins an escape
    assignment = f"{key} = " if key else ""
    return f"text, IDs, sizes and times must be in quotes: {assignment}{quote}{value}{quote}"
