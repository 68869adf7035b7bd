"""What pages are made of, and how it is written in Markdown and in roff (man(7))."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Heading:
    text: str
    level: int = 1


@dataclass(frozen=True, slots=True)
class Terms:
    """Words of a program, each with what it means."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of a table of TOML: name, type, default ("" for none), meaning."""

    rows: Sequence[tuple[str, str, str, str]]


@dataclass(frozen=True, slots=True)
class Code:
    kind: str
    text: str


Part: TypeAlias = "str | Heading | Terms | Keys | Code"
"""A text is a paragraph, in which `backquotes` enclose words of the program."""


def markdown(title: str, parts: Iterable[Part]) -> str:
    """A page in Markdown."""
    return "\n\n".join([f"# {title}", *(_markdown(part) for part in parts)]) + "\n"


def _markdown(part: Part) -> str:
    match part:
        case str(text):
            return _marked(text)
        case Heading(text, level):
            return f"{'#' * (level + 1)} {_marked(text)}"
        case Terms(rows):
            return "\n".join(f"- `{term}`: {_marked(text)}" for term, text in rows)
        case Keys(rows):
            lines = [f"| `{k}` | {_cell(of)} | {_cell(d and f'`{d}`')} | {_cell(text)} |" for k, of, d, text in rows]
            return "\n".join(["| key | value | default | |", "|---|---|---|---|", *lines])
        case Code(kind, text):
            return f"```{kind}\n{text.rstrip()}\n```"


def _cell(text: str) -> str:
    return _marked(text).replace("|", r"\|")


def _marked(text: str) -> str:
    """Stars and brackets outside of words of the program mean nothing."""
    pieces = text.split("`")
    return "`".join(re.sub(r"([*<\[\]])", r"\\\1", p) if n % 2 == 0 else p for n, p in enumerate(pieces))


def roff(name: str, section: int, version: str, parts: Iterable[Part]) -> str:
    """A page for man."""
    head = [f'.TH {_escaped(name.upper())} {section} "" "capacityd {_escaped(version)}"', ".nh", ".ad l"]
    return "\n".join([*head, *(line for part in parts for line in _roff(part))]) + "\n"


def _roff(part: Part) -> list[str]:
    match part:
        case str(text):
            return [".PP", _line(text)]
        case Heading(text, level):
            return [f'.{"SH" if level == 1 else "SS"} "{_quoted(text.upper() if level == 1 else text)}"']
        case Terms(rows):
            return [line for term, text in rows for line in (".TP", rf"\fB{_escaped(term)}\fR", _line(text))]
        case Keys(rows):
            found: list[str] = []
            for key, of, default, text in rows:
                found += [".TP", rf"\fB{_escaped(key)}\fR = \fI{_escaped(of.replace('`', ''))}\fR"]
                found.append(_line(f"{text} (default: `{default}`)" if default else text))
            return found
        case Code(_, text):
            return [".PP", ".nf", ".RS 4", *map(_line, text.rstrip().split("\n")), ".RE", ".fi"]


def _line(text: str) -> str:
    pieces = [_escaped(piece) for piece in text.split("`")]
    line = "".join(rf"\fB{piece}\fR" if n % 2 else piece for n, piece in enumerate(pieces))
    return rf"\&{line}" if line.startswith((".", "'")) else line


def _escaped(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-")


def _quoted(text: str) -> str:
    return _escaped(text.replace("`", "")).replace('"', r"\(dq")
