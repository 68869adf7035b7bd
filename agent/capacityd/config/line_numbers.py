"""The line numbers of keys and tables in a file. The TOML parser does not return them, so this searches the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from capacityd.config.problems import Problem, Step, clean
from capacityd.config.toml import parse_toml
from capacityd.model.errors import ConfigError

_KEY = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)"""
_PATH = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*(?P<brackets>\[\[?)\s*(?P<path>{_PATH})\s*\]")
_PAIR = re.compile(rf"\s*(?P<path>{_PATH})\s*=")
_PART = re.compile(_KEY)

_Path = tuple[Step, ...]
"""The names that lead to a table or a key, each with the table's number in a list; see Step."""


def numbered(problems: Iterable[Problem], texts: Mapping[str, str]) -> list[Problem]:
    """The problems with their line numbers, 0 if unknown. texts: file -> its text."""
    lines = {clean(file): _lines(text) for file, text in texts.items()}
    return [p if p.line else replace(p, line=_line(p.path, lines.get(p.file, {}))) for p in problems]


def _line(path: _Path, lines: Mapping[_Path, int]) -> int:
    """The line of a path or, if unknown, of the innermost table around it; 0 if neither is known."""
    for length in range(len(path), 0, -1):
        *parents, (name, number) = path[:length]
        for last in ((name, number), (name, 0)):  # for the tables in an inline list, only the list's line is known
            if line := lines.get((*parents, last)):
                return line
    return 0


def _lines(text: str) -> dict[_Path, int]:
    """Path -> line of each table and key. The tables of a list are numbered as in Problem.path."""
    rows = text.split("\n")
    headers = [match for row in rows if (match := _HEADER.match(row))]
    list_headers = [_names(header["path"]) for header in headers if header["brackets"] == "[["]
    counts: dict[tuple[str, ...], int] = {}  # number of tables in each list so far
    table: _Path = ()
    lines: dict[_Path, int] = {}
    for line, row in enumerate(rows, 1):
        if match := _HEADER.match(row):
            names = _names(match["path"])
            if match["brackets"] == "[[":
                counts[names] = counts.get(names, 0) + 1
            prefixes = [names[: n + 1] for n in range(len(names))]
            numbers = [counts.get(path, 0) if list_headers.count(path) > 1 else 0 for path in prefixes]
            table = tuple(zip(names, numbers, strict=True))
            lines.setdefault(table, line)
            lines.setdefault((*table[:-1], (names[-1], 0)), line)  # the list as a whole begins with its first table
        elif match := _PAIR.match(row):
            key = tuple((name, 0) for name in _names(match["path"]))
            for length in range(1, len(key) + 1):  # a dotted key "a.b = 1" also begins the table "a"
                lines.setdefault((*table, *key[:length]), line)
    for path, line in [*lines.items()]:  # the header [a.b] also begins the table "a"
        top_table = path[0][0]
        shortest = 2 if top_table == "resources" else 1  # "resources" itself has no line
        for length in range(shortest, len(path)):
            lines.setdefault(path[:length], line)
    return lines


def _names(path: str) -> tuple[str, ...]:
    """The parts of a dotted TOML key, without quotes."""
    return tuple(map(_plain, _PART.findall(path)))


def _plain(key: str) -> str:
    if key[0] not in "\"'":
        return key
    try:
        return str(parse_toml(f"a = {key}")["a"])
    except ConfigError:  # the file is not TOML
        return key[1:-1]
