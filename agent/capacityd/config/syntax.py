"""Syntax errors: the parser's message with its position, and a remedy for the most common mistakes.

A remedy depends only on the file's text and the position. The parser's message differs between versions.
"""

from __future__ import annotations

import re
import unicodedata

from capacityd.model.errors import ConfigError

_MAX_LENGTH = 1000
"""Limit of the text before and after the position that is searched, because some patterns take quadratic time."""
_POSITION = re.compile(r"\s*\(at (?:line (?P<line>[0-9]+), column (?P<column>[0-9]+)|end of document)\)$")
"""The position at the end of the parser's message. The text before it may quote the file."""
_TEXT_OR_COMMENT = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?'{3,5}|"(?:\\[^\n]|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*''', re.DOTALL
)
_KEY = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)"""
# Regular expressions for the text before and after the position, and the remedy: its {} are the groups of both.
_MISTAKES = (
    (r"\[\s*resources\s*\.\s*([^\"'\s\]]+)", r"(/[^\"'./\]\s]+)", 'the name must be in quotes: [resources."{}{}"]'),
    (r"^\s*([\w.-]+)", r"(/[\w./-]+)\s*=", 'the name must be in quotes: "{}{}"'),
    (rf"({_KEY})\s*", ":", 'write "=" after {}, not ":"'),
    (r",\s*", r"\s*\}", "remove the comma before }}"),
    (rf"^\s*({_KEY})\s*=\s*", r"(?:#.*)?(?:\n|$)", "write a value after {} ="),
    (r"\b(quantity|slots|reserve|fallback|expect)\s*=\s*0", r"0*([0-9]+)\s*(?:[,\]}#\n]|$)", "write {} = {}"),
    (r"(?:^|\s)", r"(?://|/\*|;\s*\S)", "a comment starts with #"),
    ("", r";\s*(?:\n|$)", "remove the semicolon"),
    (r"^", r"\{\s*(?:\"|\n|$)", "a line starts with a key or a [table]; JSON is not valid"),
    (r'"(?:[^"\\]|\\.)*\\[^btnfruUxe"\\]', "", r"write \\ for a backslash, or put the text in single quotes"),
)
_BEFORE_VALUE = re.compile(rf"""(?:(?P<key>{_KEY})\s*=|[\[,])\s*(?P<value>[^\[\]{{}},#"'=\n]*)\Z""")
"""A key with the beginning of its value, or the beginning of a value in a list."""
_VALUE = re.compile(r"""(?:[<>]=?[^\[\]{},#"'\n]+|[^\s\[\]{},#"'=$][^\[\]{},#"'=$\n]*)(?=[,\]}#\n]|$)""")
_WORDS = {
    **dict.fromkeys(("true", "yes", "on"), "write {key} = true"),
    **dict.fromkeys(("false", "no", "off"), "write {key} = false"),
    **dict.fromkeys(("null", "none", "nil"), "TOML has no {value}; leave {key} out"),
}
"""A value without quotes, in lower case -> the remedy."""


def syntax_error(message: str, text: str) -> ConfigError:
    """The error for text that is not TOML. message: the parser's message, which ends with the position."""
    position = _POSITION.search(message)
    if position is None:  # an integer with thousands of digits, which Python refuses to convert
        most_digits = [max(map(len, re.findall("[0-9a-fA-F_]+", row)), default=0) for row in text.split("\n")]
        line = most_digits.index(max(most_digits)) + 1
        return ConfigError("is not valid TOML: an integer has too many digits", line=line)
    text = text.replace("\r\n", "\n")
    rows = text.split("\n")
    if position["line"]:
        line = int(position["line"])
        column = int(position["column"])
        place = f"column {column}"
        row = rows[line - 1]
        before = "\n".join([*rows[: line - 1], row[: column - 1]])
        after = row[column - 1 :]
    else:
        place = "end of the file"
        before = text
        after = ""
        opening = _unclosed(text)
        line = opening[1] if opening else len(text.rstrip("\n").split("\n"))
    remedy = (
        _odd_character(after)
        or _mistake(before.rpartition("\n")[2][-_MAX_LENGTH:], after[:_MAX_LENGTH])
        or _not_in_quotes(before[-_MAX_LENGTH:], after[:_MAX_LENGTH])
        or _closing_sign(before, after, line)
        or _set_twice(rows, line)
        or _placeholder(rows[line - 1])
    )
    advice = f"; {remedy}" if remedy else ""
    return ConfigError(f"is not valid TOML: {message[: position.start()]} ({place}){advice}", line=line)


def _odd_character(after: str) -> str:
    """A remedy if the character at the position looks like another one or is invisible."""
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
    """The remedy in _MISTAKES. before, after: the parts of the line before and after the position."""
    for ending, beginning, remedy in _MISTAKES:
        match_before = re.search(f"{ending}$", before)
        match_after = re.match(beginning, after)
        if match_before and match_after:
            return remedy.format(*match_before.groups(), *match_after.groups())
    return ""


def _not_in_quotes(before: str, after: str) -> str:
    """A remedy for a value without quotes. The parser stops before or in it."""
    begin = _BEFORE_VALUE.search(before)
    end = _VALUE.match(after)
    if begin is None or end is None:
        return ""
    key = begin["key"]  # None in a list
    value = f"{begin['value']}{end[0]}".strip(" \t\r;")
    if key and value.lower() in _WORDS:
        return _WORDS[value.lower()].format(key=key, value=value)
    quote = "'" if "\\" in value else '"'
    assignment = f"{key} = " if key else ""
    return f"text, IDs, sizes and times must be in quotes: {assignment}{quote}{value}{quote}"


def _closing_sign(before: str, after: str, line: int) -> str:
    """A remedy for a missing closing quote or bracket. line: the line of the position."""
    opening = _unclosed(before)
    if opening is None:
        return ""
    sign, opening_line = opening
    place = f" of line {opening_line}" if opening_line < line else ""
    if after.strip():
        return f"a comma or the closing ]{place} is missing" if sign == "[" and place else ""
    if sign == "{":
        return f"the table in braces{place} must end with }} in the same line"
    closing = "]" if sign == "[" else "quote"
    return f"the closing {closing}{place} is missing"


def _unclosed(text: str) -> tuple[str, int] | None:
    """The innermost opening quote or bracket without its closing one, and its line; None if there is none."""
    opened: list[tuple[str, int]] = []
    # Without complete texts and comments, but with their line ends, so that the lines can be counted.
    rest = _TEXT_OR_COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
    for line, row in enumerate(rest.split("\n"), 1):
        for sign in re.findall(r"""["'\[\]{}]""", row):
            if sign in "\"'":
                return sign, line
            if sign in "]}":
                del opened[-1:]
            else:
                opened.append((sign, line))
    return opened[-1] if opened else None


def _set_twice(rows: list[str], line: int) -> str:
    """A remedy for a header or key that is also in an earlier line. The earlier header may be that of a list."""
    written = _header_or_key(rows[line - 1])
    for earlier_line in range(line - 1, 0, -1):
        earlier = _header_or_key(rows[earlier_line - 1])
        if written and earlier == written:
            return f"{written} is already in line {earlier_line}; keep one of them"
        if earlier.startswith("[") and not written.startswith("["):
            return ""  # the lines above belong to another table
    return ""


def _header_or_key(row: str) -> str:
    """The header of a table or of a list of tables, in single brackets, or the key in a line."""
    before_value = row.partition("=")[0]
    return before_value.replace("[[", "[").replace("]]", "]").strip()


def _placeholder(row: str) -> str:
    """A remedy for a line of a template, of Jinja, Go, Helm, a shell or ERB."""
    return "a placeholder of a template was not replaced" if re.search(r"\{\{|\$\{|\$\(|<%", row) else ""
