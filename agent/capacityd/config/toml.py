"""Parses a TOML document. Adds a remedy for the most common mistakes to the parser's message.

The file's text and the error's position decide the remedy, because the message differs between versions of the parser.
The functions that look for a remedy return "" if they find no remedy.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from typing import Any

from capacityd.config.line_numbers import KEY, earlier_line
from capacityd.config.toml_mistakes import remedy_in_line, remedy_of_unquoted_value
from capacityd.model.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MAX_SEARCHED_LENGTH = 1000
"""Number of characters to search before and after the position, because some searches take quadratic time."""
_POSITION = re.compile(r"\s*\(at (?:line (?P<line>[0-9]+), column (?P<column>[0-9]+)|end of document)\)$")
"""The position at the end of the parser's message. The message before the position may quote the file."""
_TEXT_OR_COMMENT = re.compile(
    r'''
    """(?:\\.|[^\\])*?"{3,5}        # text in three double quotes, which may itself end with one or two
    | \'\'\'.*?'{3,5}                # text in three single quotes
    | "(?:\\[^\n]|[^"\\\n])*"       # text in double quotes
    | '[^'\n]*'                      # text in single quotes
    | \#[^\n]*                       # a comment
    ''',
    re.DOTALL | re.VERBOSE,
)
_NEXT_KEY = re.compile(rf"({KEY})\s*=")


def parse_toml(text: str) -> dict[str, Any]:
    """Parses a document. Raises ConfigError with the line."""
    try:
        document: dict[str, Any] = tomllib.loads(text)
        # Raises the errors below for a document that later steps could not print.
        json.dumps(document, default=str)
    except RecursionError as e:
        # Each of these characters may begin a table or a list. The row with the most such characters is probably wrong.
        rows = text.split("\n")
        deepest_row = max(rows, key=lambda row: row.count("[") + row.count("{") + row.count("."))
        line = rows.index(deepest_row) + 1
        raise ConfigError("has too many tables or lists inside each other", line=line) from e
    except ValueError as e:  # TOMLDecodeError, or an integer has thousands of digits
        raise _syntax_error(str(e), text) from e
    return document


def _syntax_error(message: str, text: str) -> ConfigError:
    """The error for text that is not TOML. message: the parser's message, which ends with the position."""
    position = _POSITION.search(message)
    if position is None:  # an integer has thousands of digits, which Python refuses to convert
        rows = text.split("\n")
        longest_row = max(rows, key=len)
        line = rows.index(longest_row) + 1
        return ConfigError("is not valid TOML: an integer has too many digits", line=line)
    text = text.replace("\r\n", "\n")
    rows = text.split("\n")
    if position["line"]:
        line = int(position["line"])
        column = int(position["column"])
        place = f"column {column}"
        row = rows[line - 1]
        before_in_line = row[: column - 1]
        after = row[column - 1 :]
        before = "\n".join([*rows[: line - 1], before_in_line])
    else:  # the message ends with "at end of document"
        place = "end of the file"
        unclosed = _unclosed_position(text)
        last_line = len(text.rstrip("\n").split("\n"))
        line = last_line if unclosed is None else _line_at(text, unclosed)
        before_in_line = rows[-1]
        before = text
        after = ""
    near_after = after[:_MAX_SEARCHED_LENGTH]
    remedy = (
        _lookalike_character(after)
        or remedy_in_line(before_in_line[-_MAX_SEARCHED_LENGTH:], near_after)
        or remedy_of_unquoted_value(before[-_MAX_SEARCHED_LENGTH:], near_after)
        or _missing_separator(before, after, line)
        or _unpaired_quote(rows[line - 1])
        or _second_definition(text, line)
    )
    advice = f"; {remedy}" if remedy else ""
    message_without_position = message[: position.start()]
    return ConfigError(f"is not valid TOML: {message_without_position} ({place}){advice}", line=line)


def _lookalike_character(after: str) -> str:
    """A remedy for a character at the position that is invisible, or only looks like a plain character."""
    character = after[:1]
    if character == "\0":
        return "the file contains zero bytes, as after a power failure; write it again"
    is_plain = character == "\t" or (character.isascii() and character.isprintable())
    if is_plain or character == "":
        return ""
    name = unicodedata.name(character, "a control character")
    is_invisible = unicodedata.category(character) == "Cf"  # Cf: Unicode's format characters
    remedy = "remove it, it is invisible" if is_invisible else "write a plain character"
    return f"the character there is U+{ord(character):04X} {name}; {remedy}"


def _missing_separator(before: str, after: str, line: int) -> str:
    """A remedy for a missing comma, or a missing end of a list, table or text. line: the line of the position."""
    unclosed = _unclosed_position(before)
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
    if is_quote and is_end_of_line:
        return "the closing quote is missing"
    return ""


def _unpaired_quote(row: str) -> str:
    """A remedy for a line with a quote that begins or ends no text."""
    without_texts = _TEXT_OR_COMMENT.sub("", row)
    if "'" in without_texts or '"' in without_texts:
        return "a quote is missing in this line, or one is too many"
    return ""


def _second_definition(text: str, line: int) -> str:
    """A remedy for a table or key that an earlier line already defines."""
    earlier = earlier_line(text, line)
    if earlier == 0:
        return ""
    return f"line {earlier} has the same table or key: remove one of the two, or join them"


def _unclosed_position(text: str) -> int | None:
    """The position of the innermost unclosed quote, [ or {; None if everything is closed."""
    opened: list[int] = []  # the positions of unclosed [ and {
    blanked = _TEXT_OR_COMMENT.sub(lambda match: " " * len(match[0]), text)  # spaces keep the positions
    for position, character in enumerate(blanked):
        if character in "\"'":  # complete texts were blanked, so this quote is not closed
            return position
        if character in "[{":
            opened.append(position)
        elif character in "]}" and opened:
            opened.pop()
    return opened[-1] if opened else None


def _line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
