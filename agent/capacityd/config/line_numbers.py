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
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_PATH})\s*\]")
_PAIR = re.compile(rf"\s*({_PATH})\s*=")
_PART = re.compile(_KEY)

_Path = tuple[Step, ...]


def numbered(problems: Iterable[Problem], texts: Mapping[str, str]) -> list[Problem]:
    """The problems with their line numbers, 0 if unknown. texts: file -> its text."""
    lines = {clean(file): _lines(text) for file, text in texts.items()}
    return [p if p.line else replace(p, line=_line(p.path, lines.get(p.file, {}))) for p in problems]


def _line(path: _Path, lines: Mapping[_Path, int]) -> int:
    """The line of a path or, if unknown, of the innermost table around it; 0 if neither is known."""
    for end in range(len(path), 0, -1):
        name, number = path[end - 1]
        for last in ((name, number), (name, 0)):  # for the tables in an inline list, only the list's line is known
            if line := lines.get((*path[: end - 1], last)):
                return line
    return 0


def _lines(text: str) -> dict[_Path, int]:
    """Path -> line of each table and key. The tables of a list are numbered as in Problem.path."""
    rows = text.split("\n")
    lists = [_names(m[2]) for row in rows if (m := _HEADER.match(row)) and m[1] == "[["]
    counts: dict[tuple[str, ...], int] = {}  # number of tables in each list so far
    table: _Path = ()
    lines: dict[_Path, int] = {}
    for line, row in enumerate(rows, 1):
        if match := _HEADER.match(row):
            names = _names(match[2])
            if match[1] == "[[":
                counts[names] = counts.get(names, 0) + 1
            prefixes = [names[: n + 1] for n in range(len(names))]
            numbers = [counts.get(path, 0) if lists.count(path) > 1 else 0 for path in prefixes]
            table = tuple(zip(names, numbers, strict=True))
            lines.setdefault(table, line)
            lines.setdefault((*table[:-1], (names[-1], 0)), line)  # the list as a whole begins with its first table
        elif match := _PAIR.match(row):
            steps = tuple((name, 0) for name in _names(match[1]))
            for end in range(1, len(steps) + 1):
                lines.setdefault((*table, *steps[:end]), line)
    for path, line in [*lines.items()]:  # a header may begin several tables; "resources" itself has no line
        for end in range(1 + (path[0][0] == "resources"), len(path)):
            lines.setdefault(path[:end], line)
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
