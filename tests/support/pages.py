"""Runs the pages of the documentation: parses their blocks and comments, and compares or replaces outputs.

A page is processed from top to bottom (see tests/README.md):
- A block after a line that ends with the name of a file, such as "`pod.yaml`:", is this file for later commands.
- A console block contains commands and their output.
- A comment such as <!-- docs: machine FILE --> is a directive, for example about the machine of later commands.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from tests import ROOT

KINDS = ("console", "diff", "ini", "json", "python", "sh", "text", "toml", "yaml")
"""The kinds of blocks. The kind text is not checked. tests/adding uses diff and python."""

_PART = re.compile(
    r"(?:`(?P<name>[^\s`]*[/.][^\s`]*)`:\n\n)?^```(?P<kind>[^\s`]*)(?P<mark>[^\n`]*)\n(?P<text>.*?)^```$"
    r"|^<!-- docs: (?P<directive>[^\n]*?) -->$",
    re.DOTALL | re.MULTILINE,
)
_VARIES = (  # texts that differ from run to run, and their placeholders
    (re.compile(r"\d{4}-\d\d-\d\d(T| )\d\d:\d\d:\d\d(Z| UTC)"), "TIME"),
    (re.compile(r"\b((?:0|[1-9]\d*)[dhms]){1,2}\b( \(x\d+ over \d+[a-z]+\))?"), "AGE"),  # "3m5s (x2 over 10m)"
    (re.compile(r"\b\d+(\.\d+)? (s|min|h|seconds?|minutes?|hours?)\b"), "AGE"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\bprocess \d+"), "process N"),
    (re.compile(r"\bPID \d+"), "PID N"),
    (re.compile(r"127\.0\.0\.1:\d+"), "SERVER"),
)
_PLACES = ("cluster", "karpenter")
_COMMAND = re.compile(r"^(?=\$ |```)", re.MULTILINE)  # the place before a command or a fence


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block."""

    kind: str
    name: str
    """The path of the file that the block is, or ""."""
    invalid: bool
    """Whether the block contains an error on purpose."""
    text: str


class World(Protocol):
    """The environment in which the commands of a page run."""

    def directive(self, *words: str) -> None:
        """Executes a comment such as <!-- docs: machine FILE -->."""

    def file(self, name: str, text: str) -> None:
        """Creates the file from a named block."""

    def run(self, command: str, shown: str) -> str:
        """Runs the command. Returns its output. shown: the output on the page."""


def pages() -> list[Path]:
    """Every page."""
    names = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "tests/README.md")
    others = [*(ROOT / "agent").glob("*.md"), *(ROOT / "packaging").glob("*.md")]
    return [*(ROOT / name for name in names), *sorted((ROOT / "docs").rglob("*.md")), *sorted(others)]


def place(text: str) -> str:
    """What the page's commands need: "cluster" (a control plane), "karpenter" (also Karpenter), or ""."""
    return next((name for name in _PLACES if f"<!-- docs: {name} -->" in text), "")


def blocks(text: str) -> Iterator[Block]:
    """Yields the blocks of a page. Raises ValueError for an unknown mark."""
    for match in _PART.finditer(text):
        if match["kind"] is not None:
            yield _block(match)


def play(text: str, world: World) -> str:
    """Runs the page in this world. Returns the page with the new outputs. An output that is the same() stays."""

    def played(match: re.Match[str]) -> str:
        if match["directive"] is not None:
            if match["directive"] not in _PLACES:
                world.directive(*match["directive"].split())
            return match[0]
        block = _block(match)
        if block.kind == "diff":
            return match[0]
        if block.name and not block.invalid and (ROOT / block.name).is_file():
            return _with_text(match, (ROOT / block.name).read_text())
        if block.name:
            world.file(block.name, block.text)
        if block.kind != "console":
            return match[0]
        return _with_text(match, "".join(_session(block.text, world)))

    return _PART.sub(played, text)


def same(text: str) -> str:
    """The text with placeholders for values that differ from run to run, such as times and process ids."""
    return "".join(map(_same, _COMMAND.split(text)))


def _same(output: str) -> str:
    replaced = output
    for pattern, placeholder in _VARIES:
        replaced = pattern.sub(placeholder, replaced)
    # The width of a column depends on the replaced values.
    return output if replaced == output else re.sub(" {2,}", " ", replaced)


def manifests(block: Block) -> list[dict[str, Any]]:
    """The mappings in a yaml block, such as Kubernetes objects. Lists, such as Ansible's playbooks, are left out."""
    return [document for document in yaml.safe_load_all(block.text) if not isinstance(document, list)]


def fences(text: str) -> int:
    """Returns how many lines open or close a block; an odd number means that one is not closed."""
    return len(re.findall(r"^ *```", text, re.MULTILINE))


def commands(block: Block) -> list[list[str]]:
    """The words of each command of a sh block, without comments."""
    joined = block.text.replace("\\\n", " ")
    return [words for line in joined.splitlines() if (words := shlex.split(line, comments=True))]


def _block(match: re.Match[str]) -> Block:
    kind, mark = match["kind"], match["mark"].strip()
    if kind not in KINDS:
        raise ValueError(f'a block is marked "{kind}"; must be one of {", ".join(KINDS)}')
    if mark and (mark != "invalid" or kind not in ("toml", "yaml")):
        raise ValueError(f'a {kind} block is marked "{mark}"; the only mark is invalid, for toml and yaml')
    return Block(kind, match["name"] or "", mark == "invalid", match["text"])


def _with_text(match: re.Match[str], text: str) -> str:
    begin, end = (at - match.start() for at in match.span("text"))
    return f"{match[0][:begin]}{text}{match[0][end:]}"


def _session(text: str, world: World) -> Iterator[str]:
    for part in re.findall(r"^\$ .*\n(?:(?!\$ ).*\n)*", text, re.MULTILINE):  # a command, and the lines of its output
        command, _, shown = part.partition("\n")
        output = world.run(command.removeprefix("$ "), shown)
        yield f"{command}\n{shown if same(output) == same(shown) else output}"
