"""The text below the options of --help: examples, signs, exit statuses and files."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

_WIDTH = 80
"""Columns of a standard terminal."""


def epilog(
    examples: Sequence[tuple[str, str]],
    statuses: Mapping[int, str],
    signs: str = "",
    files: Sequence[tuple[str, str]] = (),
) -> str:
    """Returns the text.

    examples: pairs of command line and purpose. statuses: exit status -> its meaning. signs: the meaning of the signs
    in the output. files: pairs of path and what is there.
    """
    parts = [["examples:", *_aligned(examples, before_meaning="# ")]]
    if signs:
        parts.append(["signs:", *_wrapped(f"  {signs}", indent=2)])
    lines = [line for code, text in statuses.items() for line in _wrapped(f"  {code}  {text}", indent=5)]
    parts.append(["exit status:", *lines])
    if files:
        parts.append(["files:", *_aligned(files)])
    return "\n\n".join("\n".join(part) for part in parts)


def _aligned(rows: Sequence[tuple[str, str]], before_meaning: str = "") -> list[str]:
    """A line for each pair, with the meanings in one column."""
    width = max(len(name) for name, _ in rows)
    return [f"  {name:<{width}}  {before_meaning}{meaning}" for name, meaning in rows]


def _wrapped(line: str, indent: int) -> list[str]:
    """The line, broken into lines of at most _WIDTH characters. indent: spaces before each line except the first."""
    return textwrap.wrap(line, _WIDTH, subsequent_indent=" " * indent)
