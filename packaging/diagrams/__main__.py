"""python3 packaging/diagrams: draws docs/diagrams/*.dot with Graphviz, as SVG files in the same folder.

The colours follow the reader's preference for light or dark. Each picture contains the checksum of its source; a test
uses the checksum to find outdated pictures.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
_DEFAULTS = (
    *("-Nfontname=Helvetica", "-Nfontsize=13", "-Nshape=box", "-Nstyle=rounded", "-Nmargin=0.14,0.08"),
    *(
        "-Efontname=Helvetica",
        "-Efontsize=12",
        "-Earrowsize=0.7",
        "-Gfontname=Helvetica",
        "-Gfontsize=12",
        "-Gpad=0.15",
    ),
)
_SIZE = r'width="\1" height="\2" viewBox="0 0 \1 \2"'


def source_sum(dot: Path) -> str:
    """Returns the checksum of a diagram's source together with the common style."""
    return hashlib.sha256(dot.read_bytes() + (FOLDER / "style.css").read_bytes()).hexdigest()


def draw(dot: Path) -> str:
    """Returns the diagram as SVG. Its size is in pixels, which every renderer supports."""
    done = subprocess.run(["/usr/bin/dot", "-Tsvg", *_DEFAULTS, dot], capture_output=True, text=True, check=True)
    svg = done.stdout[done.stdout.index("<svg") :]
    svg = re.sub(r'width="\d+pt" height="\d+pt"\n viewBox="0.00 0.00 ([\d.]+) ([\d.]+)"', _SIZE, svg, count=1)
    svg = re.sub(r"<!--.*?-->\n?", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<title>[^<\s]*</title>\n", "", svg)  # titles of nodes and edges are internal names
    style = f"<!-- source: {source_sum(dot)} -->\n<style>\n{(FOLDER / 'style.css').read_text()}</style>\n"
    return re.sub(r"(<svg[^>]*>\n)", lambda tag: tag[1] + style, svg, count=1)


if __name__ == "__main__":
    for source in sorted((FOLDER.parents[1] / "docs/diagrams").glob("*.dot")):
        source.with_suffix(".svg").write_text(draw(source))
