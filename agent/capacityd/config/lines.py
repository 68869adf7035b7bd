"""In which line of a file a mistake stands. TOML's parser does not tell, so the lines are looked through for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from capacityd.config.problems import Problem
from capacityd.config.toml import parse_toml
from capacityd.errors import ConfigError

_KEY = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)"""
_PATH = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_PATH})\s*\]")
_PAIR = re.compile(rf"\s*({_PATH})\s*=")
_NUMBER = re.compile(r" #[0-9]+$")
_PART = re.compile(rf"({_KEY})( #[0-9]+)?")
_SAID = re.compile(
    r"is not TOML: .*\(at (?:line ([0-9]+), column [0-9]+|end of document)\)|is not UTF-8: line ([0-9]+) holds"
)


def numbered(problems: Iterable[Problem], texts: Mapping[str, str]) -> list[Problem]:
    """The mistakes with their lines, as far as they can be found. texts: by file."""
    known = {file: dict(_lines(text)) for file, text in texts.items()}
    return [
        replace(p, line=_said(p.message, texts.get(p.file, "")) or _line(p, known.get(p.file, {}))) for p in problems
    ]


def _said(message: str, text: str) -> int:
    """What the parser says; 0 if it is none of its messages."""
    match = _SAID.match(message)
    return int(match[1] or match[2] or text.rstrip("\n").count("\n") + 1) if match else 0


def _line(problem: Problem, known: Mapping[tuple[str, ...], int]) -> int:
    """The key's own, else the nearest one that it stands in; 0 for none."""
    path = (*_parts(problem.table), *_parts(problem.key))
    for end in range(len(path), 0, -1):
        for last in (path[end - 1], _NUMBER.sub("", path[end - 1])):
            if found := known.get((*path[: end - 1], last)):
                return found
    return 0


def _lines(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Where each table and key begins; the tables of a list have a number, as in a Problem, unless it is one alone."""
    rows = text.split("\n")
    lists = [_parts(m[2]) for row in rows if (m := _HEADER.match(row)) and m[1] == "[["]
    seen: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    found: dict[tuple[str, ...], int] = {}
    for number, row in enumerate(rows, 1):
        if match := _HEADER.match(row):
            parts = _parts(match[2])
            if match[1] == "[[":
                seen[parts] = seen.get(parts, 0) + 1
            table = tuple(
                f"{part} #{seen[path]}" if (path := parts[: n + 1]) in seen and lists.count(path) > 1 else part
                for n, part in enumerate(parts)
            )
            found.setdefault(table, number)
        elif match := _PAIR.match(row):
            parts = _parts(match[1])
            for end in range(1, len(parts) + 1):
                found.setdefault((*table, *parts[:end]), number)
    for path, number in [*found.items()]:  # a table may begin with one that is in it; "resources" is no place
        for end in range(1 + (path[0] == "resources"), len(path)):
            found.setdefault(path[:end], number)
    yield from found.items()


def _parts(path: str) -> tuple[str, ...]:
    """The names in a path of TOML, without quotes; a number after one stays with it."""
    return tuple(_plain(part) + number for part, number in _PART.findall(path))


def _plain(key: str) -> str:
    if key[0] not in "\"'":
        return key
    try:
        return str(parse_toml(f"a = {key}")["a"])
    except ConfigError:  # of an escape that only our messages have
        return key[1:-1]
