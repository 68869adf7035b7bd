"""Syntax errors: the parser's message with its position, and a remedy for the most common mistakes.

A remedy depends only on the file's text and the position. The parser's message differs between versions.
"""

from __future__ import annotations

import re
import unicodedata

from capacityd.model.errors import ConfigError

_MAX_LENGTH = 1000
"""Limit of the text before and after the position that is searched, because some patterns take quadratic time."""
_AT = re.compile(
    r"\s*\(at (?:line ([0-9]+), column ([0-9]+)|end of document)\)$"
)  # the text before it may quote the file
_TEXT_OR_COMMENT = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?'{3,5}|"(?:\\[^\n]|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*''', re.DOTALL
)
_KEY = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)"""
_MISTAKES = (  # what is before and after the position -> the remedy, with the groups of both
    (r"\[\s*resources\s*\.\s*([^\"'\s\]]+)", r"(/[^\"'./\]\s]+)", 'the name must be in quotes: [resources."{}{}"]'),
    (r"^\s*([\w.-]+)", r"(/[\w./-]+)\s*=", 'the name must be in quotes: "{}{}"'),
    (rf"({_KEY})\s*", ":", 'write "=" after {}, not ":"'),
    (r",\s*", r"\s*\}", "remove the comma before }}"),
    (r"\b(quantity|slots|reserve|fallback|expect)\s*=\s*0", r"0*([0-9]+)\s*(?:[,\]}#\n]|$)", "write {} = {}"),
    (r"^", r"\{\s*(?:\"|\n|$)", "a line starts with a key or a [table]; JSON is not valid"),
    (r'"(?:[^"\\]|\\.)*\\[^btnfruUxe"\\]', "", r"write \\ for a backslash, or put the text in single quotes"),
)
_BEFORE_VALUE = re.compile(rf"""(?:({_KEY})\s*=|[\[,])\s*([^\[\]{{}},#"'=\n]*)$""")
_VALUE = re.compile(r"""(?:[<>]=?[^\[\]{},#"'\n]+|[^\s\[\]{},#"'=$][^\[\]{},#"'=$\n]*)(?=[,\]}#\n]|$)""")
_WORDS = {
    **dict.fromkeys(("true", "yes", "on"), "write {0} = true"),
    **dict.fromkeys(("false", "no", "off"), "write {0} = false"),
    **dict.fromkeys(("null", "none", "nil"), "TOML has no {1}; leave {0} out"),
}


def syntax_error(message: str, text: str) -> ConfigError:
    """The error for text that is not TOML. message: the parser's message, which ends with the position."""
    at = _AT.search(message)
    if at is None:  # an integer with thousands of digits, which Python refuses to convert
        digits = [max(map(len, re.findall("[0-9a-fA-F_]+", row)), default=0) for row in text.split("\n")]
        return ConfigError("is not valid TOML: an integer has too many digits", digits.index(max(digits)) + 1)
    text = text.replace("\r\n", "\n")
    rows = text.split("\n")
    if at[1]:
        line, column = int(at[1]), int(at[2])
        before = "\n".join([*rows[: line - 1], rows[line - 1][: column - 1]])
        place, after = f"column {column}", rows[line - 1][column - 1 :]
    else:
        before, after, place = text, "", "end of the file"
        line = _unclosed(text)[1] or len(text.rstrip("\n").split("\n"))
    remedy = (
        _odd_character(after)
        or _mistake(before.rpartition("\n")[2][-_MAX_LENGTH:], after[:_MAX_LENGTH])
        or _not_in_quotes(before[-_MAX_LENGTH:], after[:_MAX_LENGTH])
        or _closing_sign(before, after, line)
        or _set_twice(rows, line)
        or _placeholder(rows[line - 1])
    )
    return ConfigError(f"is not valid TOML: {message[: at.start()]} ({place}){remedy and '; '}{remedy}", line)


def _odd_character(after: str) -> str:
    """A remedy if the character at the position looks like another one or is invisible."""
    character = after[:1]
    if character == "\0":
        return "the file contains zero bytes, as after a power failure; write it again"
    if not character or character == "\t" or (character.isascii() and character.isprintable()):
        return ""
    name = unicodedata.name(character, "a control character")
    remedy = "remove it, it is invisible" if unicodedata.category(character) == "Cf" else "write a plain character"
    return f"the character there is U+{ord(character):04X} {name}; {remedy}"


def _mistake(before: str, after: str) -> str:
    """The remedy in _MISTAKES. before, after: the parts of the line before and after the position."""
    for ending, beginning, remedy in _MISTAKES:
        if (first := re.search(f"{ending}$", before)) and (second := re.match(beginning, after)):
            return remedy.format(*first.groups(), *second.groups())
    return ""


def _not_in_quotes(before: str, after: str) -> str:
    """A remedy for a value without quotes. The parser stops before or in it."""
    if not (begin := _BEFORE_VALUE.search(before)) or not (end := _VALUE.match(after)):
        return ""
    key, value = begin[1], f"{begin[2]}{end[0]}".strip(" \t\r;")
    if key and value.lower() in _WORDS:
        return _WORDS[value.lower()].format(key, value)
    quote = "'" if "\\" in value else '"'
    return f"text, IDs, sizes and times must be in quotes: {f'{key} = ' if key else ''}{quote}{value}{quote}"


def _closing_sign(before: str, after: str, line: int) -> str:
    """A remedy for a missing closing quote or bracket."""
    sign, opened = _unclosed(before)
    place = f" of line {opened}" if opened < line else ""
    if after.strip():
        return f"a comma or the closing ]{place} is missing" if sign == "[" and place else ""
    if sign == "{":
        return f"the table in braces{place} must end with }} in the same line"
    return f"the closing {']' if sign == '[' else 'quote'}{place} is missing" if sign else ""


def _unclosed(text: str) -> tuple[str, int]:
    """The innermost opening quote or bracket without its closing one, and its line; "" and 0 if there is none."""
    opened: list[tuple[str, int]] = []
    rest = _TEXT_OR_COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
    for line, row in enumerate(rest.split("\n"), 1):
        for sign in re.findall(r"""["'\[\]{}]""", row):
            if sign in "\"'":
                return sign, line
            if sign in "]}":
                del opened[-1:]
            else:
                opened.append((sign, line))
    return opened[-1] if opened else ("", 0)


def _set_twice(rows: list[str], line: int) -> str:
    """A remedy for a header or key that is also in an earlier line. A header may be that of a list there."""
    written = _header_or_key(rows[line - 1])
    for number in range(line - 1, 0, -1):
        earlier = _header_or_key(rows[number - 1])
        if written and earlier == written:
            return f"{written} is already in line {number}; keep one of them"
        if earlier.startswith("[") and not written.startswith("["):
            return ""  # the lines above belong to another table
    return ""


def _header_or_key(row: str) -> str:
    """The header of a table or of a list of tables, in single brackets, or the key in a line."""
    return row.partition("=")[0].replace("[[", "[").replace("]]", "]").strip()


def _placeholder(row: str) -> str:
    """A remedy for a line of a template, of Jinja, Go, Helm, a shell or ERB."""
    return "a placeholder of a template was not replaced" if re.search(r"\{\{|\$\{|\$\(|<%", row) else ""
