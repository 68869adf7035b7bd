"""The documentation's pages as things to run: their blocks, the marks on them, and what comes of playing them.

A page is read from top to bottom. A block with a name is a file that later commands find; a console block is commands
and what they print; a comment such as <!-- docs: machine FILE --> says where. docs/README.md tells authors.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests import ROOT

KINDS = ("console", "ini", "json", "python", "sh", "text", "toml", "yaml")
"""What a block may be. Nothing looks at text; python is for test_new_detector.py."""

_PART = re.compile(
    r"^```(?P<kind>[^\s`]*)(?P<marks>[^\n`]*)\n(?P<text>.*?)^```$|^<!-- docs: (?P<said>[^\n]*?) -->$",
    re.DOTALL | re.MULTILINE,
)
_VARIES = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"\b((?:0|[1-9]\d*)[dhms]){1,2}\b( \(x\d+ over \d+[a-z]+\))?"), "AGE"),
    (re.compile(r"\b\d+(\.\d+)? (s|min|h|seconds?|minutes?|hours?)\b"), "AGE"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\bprocess \d+"), "process N"),
    (re.compile(r"127\.0\.0\.1:\d+"), "SERVER"),
)
_COMMAND = re.compile(r"^(?=\$ |```)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. name: of the file that it is, "" if none. mistake: whether it is wrong on purpose."""

    kind: str
    name: str
    mistake: bool
    text: str


class World(Protocol):
    """Where a page is played."""

    def tell(self, *words: str) -> None:
        """What a comment says."""

    def file(self, name: str, text: str) -> None:
        """A block that is a file."""

    def run(self, command: str, shown: str) -> str:
        """What the command prints; shown: what the page says that it does."""


def pages() -> list[Path]:
    """All of them."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def on_cluster(text: str) -> bool:
    """Whether the page's commands need a control plane."""
    return "<!-- docs: cluster -->" in text


def blocks(text: str) -> Iterator[Block]:
    """The page's blocks. Raises ValueError for marks that mean nothing."""
    for match in _PART.finditer(text):
        if match["kind"] is not None:
            yield _block(match)


def play(text: str, world: World) -> str:
    """The page with what its commands print in this world; what differs only in time stays as it is."""

    def played(match: re.Match[str]) -> str:
        if match["said"] is not None:
            if match["said"] != "cluster":
                world.tell(*match["said"].split())
            return match[0]
        block = _block(match)
        if block.name and not block.mistake and (ROOT / block.name).is_file():
            return _with_text(match, (ROOT / block.name).read_text())
        if block.name:
            world.file(block.name, block.text)
        if block.kind != "console":
            return match[0]
        return _with_text(match, "".join(_session(block.text, world)))

    return _PART.sub(played, text)


def same(text: str) -> str:
    """The text without what differs from run to run."""
    return "".join(map(_same, _COMMAND.split(text)))


def _same(said: str) -> str:
    """What a command says without that."""
    steady = said
    for pattern, instead in _VARIES:
        steady = pattern.sub(instead, steady)
    # A column is as wide as what varies in it.
    return said if steady == said else re.sub(" {2,}", " ", steady)


def fences(text: str) -> int:
    """How many lines open or close a block, to notice one that is not closed."""
    return len(re.findall(r"^ *```", text, re.MULTILINE))


def commands(block: Block) -> list[list[str]]:
    """The words of each command of a sh block; comments are left out."""
    joined = block.text.replace("\\\n", " ")
    return [found for line in joined.splitlines() if (found := shlex.split(line, comments=True))]


def _block(match: re.Match[str]) -> Block:
    kind, marks = match["kind"], match["marks"].split()
    if kind not in KINDS:
        raise ValueError(f'a block is marked "{kind}"; there are {", ".join(KINDS)}')
    mistake = "mistake" in marks
    names = [mark for mark in marks if mark != "mistake"]
    if len(names) > 1 or (mistake and kind not in ("toml", "yaml")):
        raise ValueError(
            f'a {kind} block is marked "{" ".join(marks)}"; there is room for a file\'s name, and for mistake'
        )
    return Block(kind, names[0] if names else "", mistake, match["text"])


def _with_text(match: re.Match[str], text: str) -> str:
    begin, end = (at - match.start() for at in match.span("text"))
    return f"{match[0][:begin]}{text}{match[0][end:]}"


def _session(text: str, world: World) -> Iterator[str]:
    for said in re.findall(r"^\$ .*\n(?:(?!\$ ).*\n)*", text, re.MULTILINE):
        command, _, shown = said.partition("\n")
        said = world.run(command.removeprefix("$ "), shown)
        yield f"{command}\n{shown if same(said) == same(shown) else said}"
