"""Parses a TOML document. Adds a remedy for the most common mistakes to the parser's message.

A remedy depends only on the file's text and the error's position, because the message differs between versions of the
parser. The functions that look for a remedy return "" if they find no remedy.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from typing import Any

from capacityd.config.line_numbers import earlier_line
from capacityd.model.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MAX_LENGTH = 1000
"""Number of characters to search before and after the position, because some patterns take quadratic time."""
_POSITION = re.compile(r"\s*\(at (?:line (?P<line>[0-9]+), column (?P<column>[0-9]+)|end of document)\)$")
"""The position at the end of the parser's message. The text before it may quote the file."""
_TEXT_OR_COMMENT = re.compile(
    r'''
    """(?:\\.|[^\\])*?"{3,5}        # text in three double quotes
    | \'\'\'.*?'{3,5}                # text in three single quotes
    | "(?:\\[^\n]|[^"\\\n])*"       # text in double quotes
    | '[^'\n]*'                      # text in single quotes
    | \#[^\n]*                       # a comment
    ''',
    re.DOTALL | re.VERBOSE,
)
_KEY = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)"""
_MISTAKES = (
    # [resources.example.com/x]
    (r"\[\s*resources\s*\.\s*([^\"'\s\]]+)", r"(/[^\"'./\]\s]+)", 'the name must be in quotes: [resources."{}{}"]'),
    # example.com/x = 1
    (r"^\s*([\w.-]+)", r"(/[\w./-]+)\s*=", 'the name must be in quotes: "{}{}"'),
    # slots: 4
    (rf"({_KEY})\s*", ":", 'write "=" after {}, not ":"'),
    # { vendor = "0529", }
    (r",\s*", r"\s*\}", "remove the comma before }}"),
    # [ [resources."example.com/x"] ]
    (r"^\s*\[\s+", r"\[", "write [[ without a space"),
    # slots =
    (rf"^\s*({_KEY})\s*=\s*", r"(?:#.*)?(?:\n|$)", "write a value after {} ="),
    # slots = 0070, or slots = 4_
    (
        r"\b(quantity|slots|reserve|fallback|expect)\s*=\s*[0-9]*",
        r"[0-9_]+\s*(?:[,\]}#\n]|$)",
        "write only digits after {} =, without zeros before them",
    ),
    # slots = 4 // seats
    (r"(?:^|\s)", r"(?://|/\*|;\s*\S)", "a comment starts with #"),
    # slots = 4;
    ("", r";\s*(?:\n|$)", "remove the semicolon"),
    # { "resources": {} }
    (r"^", r"\{\s*(?:\"|\n|$)", "a line starts with a key or a [table]; JSON is not valid"),
    # "C:\lic": a backslash that begins no escape
    (r'"(?:[^"\\]|\\.)*\\[^btnfr"\\]', "", r"write \\ for a backslash, or put the text in single quotes"),
)
"""Each mistake: a regular expression for the text directly before the position, another for the text directly after the
position, and the remedy. str.format() inserts the groups of both expressions into the remedy."""
_VALUE_BEFORE = re.compile(rf"""(?:(?P<key>{_KEY})\s*=|[\[,])\s*(?P<value>[^\[\]{{}},#"'=\n]*)\Z""")
"""A key and the beginning of the key's value, or the beginning of a value in a list."""
_VALUE_AFTER = re.compile(r"""(?:[<>]=?[^\[\]{},#"'\n]+|[^\s\[\]{},#"'=$][^\[\]{},#"'=$\n]*)(?=[,\]}#\n]|$)""")
"""The rest of a value without quotes, up to what may follow a value. The value may be a comparison, such as ">=10"."""
_NEXT_KEY = re.compile(rf"({_KEY})\s*=")
_UNQUOTED_WORDS = {
    **dict.fromkeys(("true", "yes", "on"), "write {key} = true"),
    **dict.fromkeys(("false", "no", "off"), "write {key} = false"),
    **dict.fromkeys(("null", "none", "nil"), "TOML has no {value}; leave {key} out"),
}
"""A value without quotes, in lower case -> the remedy."""


def parse_toml(text: str) -> dict[str, Any]:
    """Parses a document. Raises ConfigError with the line."""
    try:
        document: dict[str, Any] = tomllib.loads(text)
        # Raises the errors below for a document that later steps could not print.
        json.dumps(document, default=str)
    except RecursionError as e:
        # Each of these characters may begin a table or a list, so the line with most of them is probably wrong.
        counts = [row.count("[") + row.count("{") + row.count(".") for row in text.split("\n")]
        line = counts.index(max(counts)) + 1
        raise ConfigError("has too many tables or lists inside each other", line=line) from e
    except ValueError as e:  # TOMLDecodeError, or an integer has thousands of digits
        raise _syntax_error(str(e), text) from e
    return document


def _syntax_error(message: str, text: str) -> ConfigError:
    """The error for text that is not TOML. message: the parser's message, which ends with the position."""
    position = _POSITION.search(message)
    if position is None:  # an integer has thousands of digits, which Python refuses to convert
        rows = text.split("\n")
        line = rows.index(max(rows, key=len)) + 1
        return ConfigError("is not valid TOML: an integer has too many digits", line=line)
    text = text.replace("\r\n", "\n")
    rows = text.split("\n")
    if position["line"]:
        line = int(position["line"])
        column = int(position["column"])
        place = f"column {column}"
        before_in_line = rows[line - 1][: column - 1]
        before = "\n".join([*rows[: line - 1], before_in_line])
        after = rows[line - 1][column - 1 :]
    else:
        unclosed = _unclosed(text)
        last_line = len(text.rstrip("\n").split("\n"))
        line = last_line if unclosed is None else _line_at(text, unclosed)
        place = "end of the file"
        before_in_line = rows[-1]
        before = text
        after = ""
    remedy = (
        _odd_character(after)
        or _mistake(before_in_line[-_MAX_LENGTH:], after[:_MAX_LENGTH])
        or _not_in_quotes(before[-_MAX_LENGTH:], after[:_MAX_LENGTH])
        or _missing_separator(before, after, line)
        or _odd_quote(rows[line - 1])
        or _second(text, line)
    )
    advice = f"; {remedy}" if remedy else ""
    return ConfigError(f"is not valid TOML: {message[: position.start()]} ({place}){advice}", line=line)


def _odd_character(after: str) -> str:
    """A remedy for a character at the position that is invisible, or only looks like a plain character."""
    character = after[:1]
    if character == "\0":
        return "the file contains zero bytes, as after a power failure; write it again"
    if not character or character == "\t" or (character.isascii() and character.isprintable()):
        return ""
    name = unicodedata.name(character, "a control character")
    is_invisible = unicodedata.category(character) == "Cf"  # Unicode's "format" characters
    remedy = "remove it, it is invisible" if is_invisible else "write a plain character"
    return f"the character there is U+{ord(character):04X} {name}; {remedy}"


def _mistake(before: str, after: str) -> str:
    """The remedy of the first entry in _MISTAKES that fits. before, after: the line's parts before and after the
    position."""
    for pattern_before, pattern_after, remedy in _MISTAKES:
        match_before = re.search(f"{pattern_before}$", before)
        match_after = re.match(pattern_after, after)
        if match_before and match_after:
            return remedy.format(*match_before.groups(), *match_after.groups())
    return ""


def _not_in_quotes(before: str, after: str) -> str:
    """A remedy for a value without quotes. The parser's position is before or in the value."""
    begin = _VALUE_BEFORE.search(before)
    end = _VALUE_AFTER.match(after)
    if begin is None or end is None:
        return ""
    key = begin["key"]  # None in a list
    value = f"{begin['value']}{end[0]}".strip(" \t\r;")
    if key and value.lower() in _UNQUOTED_WORDS:
        return _UNQUOTED_WORDS[value.lower()].format(key=key, value=value)
    quote = "'" if "\\" in value else '"'  # a backslash in double quotes begins an escape
    assignment = f"{key} = " if key else ""
    return f"text, IDs, sizes and times must be in quotes: {assignment}{quote}{value}{quote}"


def _missing_separator(before: str, after: str, line: int) -> str:
    """A remedy for a missing comma, or a missing end of a list, table or text. line: the line of the position."""
    unclosed = _unclosed(before)
    if unclosed is None:
        return ""
    opening = before[unclosed]
    opening_line = _line_at(before, unclosed)
    is_end_of_line = not after.strip()
    if opening == "{" and is_end_of_line:
        return "the table in braces must end with } in the same line"
    next_key = _NEXT_KEY.match(after)
    if opening == "{" and next_key:
        return f"write a comma before {next_key[1]}"
    if opening == "[" and (is_end_of_line or opening_line < line):
        return f"a comma or the closing ] of line {opening_line} is missing"
    is_quote = opening in "\"'"
    return "the closing quote is missing" if is_quote and is_end_of_line else ""


def _odd_quote(row: str) -> str:
    """A remedy for a line with a quote that begins or ends no text."""
    without_texts = _TEXT_OR_COMMENT.sub("", row)
    if {"'", '"'}.isdisjoint(without_texts):
        return ""
    return "a quote is missing in this line, or one is too many"


def _second(text: str, line: int) -> str:
    """A remedy for a table or key that an earlier line already defines."""
    earlier = earlier_line(text, line)
    return f"line {earlier} has the same table or key: remove one of the two, or join them" if earlier else ""


def _unclosed(text: str) -> int | None:
    """The position of the innermost unclosed quote, [ or {; None if everything is closed."""
    opened: list[int] = []
    without_texts = _TEXT_OR_COMMENT.sub(lambda match: " " * len(match[0]), text)
    for match in re.finditer(r"""["'\[\]{}]""", without_texts):
        if match[0] in "\"'":  # complete texts were removed, so this quote is not closed
            return match.start()
        if match[0] in "[{":
            opened.append(match.start())
        elif opened:
            opened.pop()
    return opened[-1] if opened else None


def _line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
