"""The README's pictures: what commands print on a terminal about a recorded machine. python -m tests.unit.pictures
draws them anew."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import unittest.mock
from collections.abc import Iterator
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from capacityd.cli import run
from tests import ROOT

FOLDER = ROOT / "docs/pictures"
WIDTH = 104
PICTURES = {
    "devices": "devices --machine docs/tour/machine.json",
    "explain": "probe --explain --machine docs/tour/machine.json --config docs/pictures/why.toml",
}
_FONTS = re.compile(r"^ *@font-face \{\{.*?\}\}\n", re.DOTALL | re.MULTILINE)  # would be fetched from elsewhere


def drawn(name: str) -> str:
    """A picture as SVG."""
    command = f"capacityd {PICTURES[name]}"
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.assemble(("$ ", "bold green"), command), soft_wrap=True)
    console.print(Text.from_ansi(_said(shlex.split(PICTURES[name])).rstrip("\n")), soft_wrap=True)
    svg = console.export_svg(
        title="capacityd", theme=MONOKAI, code_format=_FONTS.sub("", CONSOLE_SVG_FORMAT), unique_id=f"capacityd-{name}"
    )
    return "".join(f"{line.rstrip()}\n" for line in svg.splitlines() if line.strip())


def words(svg: str) -> list[str]:
    """What stands in a picture: another version of rich may draw the same a little differently."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def _said(arguments: list[str]) -> str:
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": str(WIDTH), "LINES": "50"}
    said = io.StringIO()
    with unittest.mock.patch.dict(os.environ, terminal), _at(ROOT):
        os.environ.pop("NO_COLOR", None)
        with contextlib.redirect_stdout(said):
            run(arguments)
    return said.getvalue()


@contextlib.contextmanager
def _at(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def main() -> None:
    """Draws all of them."""
    for name in PICTURES:
        Path(FOLDER / f"{name}.svg").write_text(drawn(name), encoding="utf-8")


if __name__ == "__main__":
    main()
