"""Syntax errors: the parser's message with its position, and a hint about the most common mistakes.

The hints depend on the file's text only. The wording of the parser's message differs between versions.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from capacityd.model.errors import ConfigError

_MAX_COLUMNS = 1000
"""Limit of the part of a line that is searched, because the patterns take more than linear time."""
_AT = re.compile(
    r"\s*\(at (?:line ([0-9]+), column ([0-9]+)|end of document)\)$"
)  # the text before it may quote the file
_TOKEN = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?'{3,5}|"(?:\\[^\n]|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*|["'\[\]{}\n]''', re.DOTALL
)
_TEXT = re.compile(r"""("[^"]*"|'[^']*')(\s*[=:])?""")
_KEY = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)"""
_COLON = re.compile(rf"^\s*({_KEY})\s*:|[{{,]\s*({_KEY})\s*:")
_UNQUOTED_NAME = re.compile(r"""\s*\[+\s*resources\s*\.\s*([^"'/\]\s]+/[^"'./\]\s]+)""")
_UNQUOTED_KEY = re.compile(r"""\s*([A-Za-z0-9_.-]+/[A-Za-z0-9_./-]+)\s*=""")
_HEADER_OR_KEY = re.compile(rf"\s*(\[.*\]|{_KEY}(?:\s*\.\s*{_KEY})*)\s*(?:=|#|$)")
_UNQUOTED_VALUE = re.compile(rf"""({_KEY})\s*=\s*([<>]=?[^,}}\]#]*[^,}}\]#\s]|[^\s"'{{}}\[\],#=$][^,}}\]#="']*)""")
_UNQUOTED_ITEM = re.compile(r"""[\[,]\s*()([^\s"'{}\[\],#=][^\s,}\]#=]*)\s*(?=[,\]])""")
_TOML_VALUE = re.compile(r"true|false|[+-]?(0|[1-9][0-9_ ']*)(\.[0-9]+)?|0x[0-9a-fA-F_]+|[0-9]{4}-[0-9]{2}.*")
_WORDS = {
    **dict.fromkeys(("true", "yes", "on"), "write {0} = true"),
    **dict.fromkeys(("false", "no", "off"), "write {0} = false"),
    **dict.fromkeys(("null", "none", "nil"), "TOML has no {1}; leave {0} out"),
}
_QUOTES = ('"', "'")


@dataclass(frozen=True, slots=True)
class _Unclosed:
    """An opening quote or bracket without its closing one."""

    sign: str
    line: int
    column: int


def syntax_error(message: str, text: str) -> ConfigError:
    """The error for text that is not TOML. message: the parser's message, which ends with the position."""
    at = _AT.search(message)
    if at is None:  # an integer with thousands of digits, which Python refuses to convert
        digits = [max(map(len, re.findall("[0-9_]+", row)), default=0) for row in text.split("\n")]
        return ConfigError("is not valid TOML: an integer has more than 64 bits", digits.index(max(digits)) + 1)
    rows = [row[:_MAX_COLUMNS] for row in text.replace("\r\n", "\n").split("\n")]
    unclosed = next(_unclosed(text), None)
    if at[1]:
        line, column = int(at[1]), int(at[2])
        place = f"column {column}"
    else:
        line = unclosed.line if unclosed else len(text.rstrip("\n").split("\n"))
        column, place = 0, "end of the file"
    hint = (
        _odd_character(rows[line - 1], column)
        or _trailing_comma(rows[line - 1], column)
        or _unclosed_hint(unclosed, line, column)
        or _set_twice(rows, line)
        or _not_in_quotes(rows[line - 1])
    )
    return ConfigError(f"is not valid TOML: {message[: at.start()]} ({place}){hint and '; '}{hint}", line)


def _odd_character(row: str, column: int) -> str:
    """A hint about the character at which the parser stopped, if it looks like another one or is invisible."""
    character = row[column - 1 : column] if column else ""
    if not character or character == "\t" or (character.isascii() and character.isprintable()):
        return ""
    name = unicodedata.name(character, "a control character")
    return f"the character there is U+{ord(character):04X} {name}; write a plain character"


def _trailing_comma(row: str, column: int) -> str:
    """A hint about a comma before a closing brace, if the parser stopped between them. TOML 1.0 allows it in []
    only."""
    before, after = row[: max(column - 1, 0)].rstrip(), row[max(column - 1, 0) :].lstrip()
    return "remove the comma before }" if before.endswith(",") and after.startswith("}") else ""


def _unclosed(text: str) -> Iterator[_Unclosed]:
    """Yields every unclosed quote and bracket, in order. A table in braces ends with its line."""
    opened: list[_Unclosed] = []
    line, begin = 1, 0
    in_header = at_start = True
    for match in _TOKEN.finditer(text):
        sign = match[0]
        column = match.start() - begin + 1
        if at_start:
            in_header = sign == "[" and not text[begin : match.start()].strip()
        at_start = False
        if sign in "[{":
            opened.append(_Unclosed(sign, line, column))
        elif sign in "]}":
            del opened[-1:]
        elif sign in _QUOTES:
            yield _Unclosed(sign, line, column)
        elif sign == "\n" and opened and (in_header or opened[-1].sign == "{"):
            yield opened[-1]
            opened.clear()
        at_start = sign == "\n" and not opened
        if "\n" in sign:
            line, begin = line + sign.count("\n"), match.start() + sign.rfind("\n") + 1
    yield from opened[-1:]


def _unclosed_hint(unclosed: _Unclosed | None, line: int, column: int) -> str:
    """A hint about a missing closing sign, if the opening one is before the place where the parser stopped.

    column: 0 for the end of the file.
    """
    if unclosed is None or (column and (unclosed.line, unclosed.column) >= (line, column)):
        return ""
    place = "" if unclosed.line == line else f" of line {unclosed.line}"
    if unclosed.sign in _QUOTES:
        return f"the closing quote{place} is missing"
    if unclosed.sign == "{":
        return f"the table in braces{place} must end with }} in the same line"
    return f"the closing ]{place} is missing"


def _set_twice(rows: list[str], line: int) -> str:
    """A hint about a header or key that is also in an earlier line."""
    if not (twice := _HEADER_OR_KEY.match(rows[line - 1])):
        return ""
    is_header = twice[1].startswith("[")
    for number in range(line - 1, 0, -1):
        match = _HEADER_OR_KEY.match(rows[number - 1])
        if match and match[1] == twice[1]:
            return f"{twice[1]} is already in line {number}; {'put its keys there' if is_header else 'remove one'}"
        if match and match[1].startswith("[") and not is_header:
            return ""  # the lines above belong to another table
    return ""


def _not_in_quotes(row: str) -> str:
    """A hint about a name or value without quotes, or a colon instead of "="."""
    if header := _UNQUOTED_NAME.match(row):
        return f'the name must be in quotes: [resources."{header[1]}"]'
    if row.lstrip().startswith("["):
        return ""
    if name := _UNQUOTED_KEY.match(row):
        return f'the name must be in quotes: "{name[1]}"'
    row = _without_text(row)
    if colon := _COLON.search(row):
        return f'write "=" after {colon[1] or colon[2]}, not ":"'
    for match in (m for pattern in (_UNQUOTED_VALUE, _UNQUOTED_ITEM) for m in pattern.finditer(row)):
        key, value = match[1], match[2].rstrip(" \t\r;")
        if _TOML_VALUE.fullmatch(value) or row[match.end() :].lstrip().startswith("="):
            continue
        if key and value.lower() in _WORDS:
            return _WORDS[value.lower()].format(key, value)
        quote = "'" if "\\" in value else '"'
        quoted = f"{quote}{value}{quote}"
        return f"text, IDs, sizes and times must be in quotes: {f'{key} = ' if key else ''}{quoted}"
    return ""


def _without_text(row: str) -> str:
    """The line with the content of each text replaced by underscores, except in keys."""
    return _TEXT.sub(lambda m: m[0] if m[2] else m[1][0] + "_" * (len(m[1]) - 2) + m[1][0], row)
