"""Remedies for syntax errors, derived from the line at which the parser stopped."""

from __future__ import annotations

import re

_EXAMPLE = '[resources."example.com/dongle"]'
_MAX_COLUMNS = 1000
"""More of a line is not searched, because the patterns are not linear."""
_KEY = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)"""
_TEXT = re.compile(r"""("[^"]*"|'[^']*')(\s*=)?""")
_CURLY_QUOTES = frozenset("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2018\u2019")
_UNQUOTED_NAME = re.compile(r"""\s*\[+\s*resources\s*\.\s*([^"'/\]\s]+/[^"'./\]\s]+)""")
_HEADER = re.compile(r"\s*(\[\[?.*?\]\]?)\s*(#.*)?")
_JSON = re.compile(r"\s*(\{(?![{%])|\[\s*[{\n])")
_YAML = re.compile(rf"\s*(- |---\s*$|[\w./-]+:(\s|$)|{_KEY}:\s)")
_NO_EQUALS = re.compile(rf"\s*({_KEY})\s*(:|\{{|==)")
_UNQUOTED_KEY = re.compile(r"""\s*([A-Za-z0-9_.-]+[^\sA-Za-z0-9_.="':{-][^\s"'=:{]*)\s*=""")
_PAIR = re.compile(rf"\s*({_KEY}(?:\s*\.\s*{_KEY})*)\s*=\s*([^#]*?)\s*(#.*)?")
_BARE = re.compile(rf"""({_KEY})\s*=\s*([<>]=?[^,}}\]#]*[^,}}\]#\s]|[^\s"'{{}}\[\],#=][^\s,}}\]#=]*)""")
_ITEM = re.compile(r"""[\[,]\s*([^\s"'{}\[\],#=][^\s,}\]#=]*)\s*(?=[,\]])""")
_TOML_VALUE = re.compile(r"true|false|[+-]?(0|[1-9][0-9_]*)(\.[0-9]+)?|0x[0-9a-fA-F_]+")
_SEPARATED_NUMBER = re.compile("[1-9][0-9]{0,2}([ ,'][0-9]{3})+")
_LEADING_ZERO = re.compile("0[0-9a-fA-F]+")
_BOOLEANS = {"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false"}
_NOTHING = frozenset({"null", "nil", "none", "~"})
_OTHER_SIGNS = (  # the start of a line -> what to do
    ("<<<<<<<", "this is a merge conflict; resolve it"),
    (">>>>>>>", "this is a merge conflict; resolve it"),
    ("=======", "this is a merge conflict; resolve it"),
    ("//", 'a comment begins with "#"'),
    ("/*", 'a comment begins with "#"'),
    (";", 'a comment begins with "#"'),
)
_HINTS = (  # a part of the parser's message -> what to do
    ("Unterminated string", "the closing quote is missing"),
    ("Illegal character '\\n'", "the closing quote is missing"),
    ("Illegal character '\\r\\n'", "the closing quote is missing"),
    ("Expected \"'", "the closing quote is missing"),
    ("invalid character", "remove the control character"),
    ("Illegal character", "remove the control character"),
    ("immutable namespace", "a table in braces or a list cannot be extended below; write all of it in one place"),
    ("Duplicate inline table key", "a key can be set only once in a table"),
    ("Unclosed inline table", "a table in braces must be on one line and end with }"),
    ("Unclosed array", "a comma or the closing ] of a list is missing"),
    ("Invalid initial character", "a table in braces must be on one line, without a comma at its end"),
    ("Invalid hex value", "in double quotes a backslash begins an escape; use single quotes"),
    ("Unescaped", "in double quotes a backslash begins an escape; use single quotes"),
    (
        "at the end of a table declaration",
        f'a header must end with "]"; a name with "/" or "." must be in quotes: {_EXAMPLE}',
    ),
    ("at the end of an array declaration", "the closing ]] is missing"),
    (
        "after a key in a key/value pair",
        'write key = value; quote a key that has more than letters, digits, "-" and "_"',
    ),
    ("Invalid value", "a value must be text in quotes, a number, true, false, a list in [] or a table in {}"),
    ("after a statement", "a line can hold only one key = value; text, IDs, sizes and times must be in quotes"),
    ("Invalid statement", f"a line must be key = value or a header such as {_EXAMPLE}"),
    ("date", "text must be in quotes"),
)


def remedy(message: str, text: str, line: int) -> str:
    """What to change. message: of TOML's parser, without its position; line: where it stopped, from 1."""
    rows = [row[:_MAX_COLUMNS].rstrip("\r") for row in text.split("\n")]
    row = rows[line - 1]
    in_text = any(part in message for part in ("Illegal", "Unterminated", "Expected \"'", "Unescaped", "hex value"))
    return (
        _other_format(text, row)
        or _other_signs(_without_text(row))
        or _duplicate(message, rows, line)
        or ("" if in_text else _unquoted(message, row))
        or next((hint for part, hint in _HINTS if part in message), message)
    )


def opening_line(message: str, text: str) -> int:
    """The line in which text or a list begins that does not end before the end of the file."""
    rows = text.rstrip("\n").split("\n")
    opening = {"Unterminated": '"""', "Expected \"'": "'''", "Unclosed array": "[", "Invalid value": "["}
    sign = next((sign for part, sign in opening.items() if part in message), "")
    values = {number: row.partition("=")[2] for number, row in enumerate(rows, 1) if sign and sign in row}
    lines = [number for number, value in values.items() if value.count(sign) > value.count("]") * (sign == "[")]
    return lines[-1] if lines else len(rows)


def _without_text(row: str) -> str:
    """The line with all text blanked out, except keys."""
    return _TEXT.sub(lambda m: m[0] if m[2] else m[1][0] + "_" * (len(m[1]) - 2) + m[1][0], row)


def _other_format(text: str, row: str) -> str:
    """For a file that is JSON or YAML, or a line that is."""
    first = next((r for r in text.split("\n") if r.strip() and not r.lstrip().startswith("#")), "")
    if _JSON.match(text):
        return f"this is JSON; TOML has headers such as {_EXAMPLE} and key = value"
    if _YAML.match(first):
        return f"this is YAML; TOML has headers such as {_EXAMPLE} and key = value"
    if match := _NO_EQUALS.match(row):
        return f'"=" must follow the key: {match[1]} = …'
    return ""


def _other_signs(row: str) -> str:
    if not _CURLY_QUOTES.isdisjoint(row):
        return "quotes must be straight ones"
    if "{{" in row or "${" in row or "{%" in row:
        return "this is a template; render it first"
    return next((hint for start, hint in _OTHER_SIGNS if row.lstrip().startswith(start)), "")


def _duplicate(message: str, rows: list[str], line: int) -> str:
    """For a table or a key that is already there."""
    if not ("twice" in message or "overwrite a value" in message):
        return ""
    row = rows[line - 1]
    if header := _HEADER.fullmatch(row):
        earlier = [n for n, r in enumerate(rows[: line - 1], 1) if (m := _HEADER.fullmatch(r)) and m[1] == header[1]]
        where = f"in line {earlier[0]} already" if earlier else "already set above"
        return f"{header[1]} is {where}; put its keys below one header"
    pair = _PAIR.match(row)
    return f"{pair[1] if pair else 'the key'} is set twice in this table; remove one"


def _unquoted(message: str, row: str) -> str:
    """For text that is not in quotes, or in the wrong ones."""
    if name := _UNQUOTED_NAME.match(row):
        return f'the name must be in quotes: [resources."{name[1]}"]'
    if row.lstrip().startswith("["):
        return "a header must have a name" if "Invalid initial" in message else ""
    if "after a key" in message:
        key_alone = _UNQUOTED_KEY.match(row)
        colon = 'write "=" after a key, not ":"' if ":" in row else ""
        return f'the key must be in quotes: "{key_alone[1]}" = …' if key_alone else colon
    if "Invalid value" in message and row.count("[") > row.count("]"):
        return "the closing ] of a list is missing"
    match = _PAIR.fullmatch(row)
    key, value = (match[1], match[2]) if match else ("", "")
    if value[:1] in ("'", '"'):
        return _beside_text(key, value)
    if value and {*"\"'{}[]="}.isdisjoint(value.lstrip("<>=")) and not _TOML_VALUE.fullmatch(value):
        number = value.rstrip(",; ")
        return f"remove what follows {number}" if _TOML_VALUE.fullmatch(number) else _quoted(key, value)
    return _unquoted_inside(_without_text(row))


def _beside_text(key: str, value: str) -> str:
    """For a value that begins as text and goes on after it."""
    quote, inner = value[0], value.rstrip(",")[1:-1]
    other = "'" if quote == '"' else '"'
    several = re.sub(rf"{quote}(\s*,\s*|\s+){quote}", f"{quote}, {quote}", value)
    if f"{quote}, {quote}" in several:
        return f"several values must be a list: {key} = [{several}]"
    if value.endswith(","):
        return f"remove the comma at the end: {key} = {quote}{inner}{quote}"
    if quote in inner and other not in inner and value.endswith(quote):
        return f"text that holds {quote} must be in {other}: {key} = {other}{inner}{other}"
    return ""


def _unquoted_inside(row: str) -> str:
    """For the tables and lists of a line."""
    pairs = [m for m in _BARE.finditer(row) if not _TOML_VALUE.fullmatch(m[2])]
    items = [m[1] for m in _ITEM.finditer(row) if not _TOML_VALUE.fullmatch(m[1])]
    if pairs:
        return _quoted(pairs[0][1], pairs[0][2])
    return f'{items[0]} must be in quotes: "{items[0]}"' if items else ""


def _quoted(key: str, value: str) -> str:
    """For a value that must be in quotes, true, false, or left out."""
    if boolean := _BOOLEANS.get(value.lower()):
        return f"write {key} = {boolean}" + ("" if value.lower() == boolean else f', or "{value}" if it is text')
    if value.lower() in _NOTHING:
        return f"TOML has no {value}; leave {key} out"
    if _SEPARATED_NUMBER.fullmatch(value):
        return f"a number has no separators: {key} = {re.sub('[^0-9]', '', value)}"
    if _LEADING_ZERO.fullmatch(value):
        return f'an ID must be in quotes: {key} = "{value}"; a number cannot begin with 0'
    quote = "'" if "\\" in value else '"'
    return f"{value} must be in quotes: {key} = {quote}{value}{quote}"
