"""make docs-boot: measures joins, and draws the time line of a boot as docs/how-to/boot.svg.

The data are in docs/how-to/boot.json: those of now, which are measured anew, and those before allocatable was written.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tests import ROOT
from tests.cluster.controlplane import control_plane
from tests.cluster.joining import join

DATA, PICTURE = (ROOT / "docs/how-to" / name for name in ("boot.json", "boot.svg"))
JOINS = 5

_COLUMNS = {
    "before": ("Before", "the kubelet copies capacity", "to allocatable"),
    "now": ("Now", "capacityd writes both", ""),
}
_MOMENTS = {
    "node": "Node created",
    "capacity": "capacity",
    "condition": "condition True",
    "allocatable": "allocatable",
    "bound": "pod bound",
    "running": "pod runs",
}
_LEGEND = (
    ("early", "condition True, but no pod fits"),
    ("ready", "from allocatable to the first pod"),
)
_WIDTH, _TOP, _SECOND = 400, 75, 30  # pixels: as wide as a phone's page; where the time begins; for each second
_FIRST, _NEXT = 50, 185  # of the first column, and from one to the next
_LINE = 15
_SAME = 0.1
"""Moments within so many seconds share a label."""
_STYLE = """\
svg { font-family: system-ui, sans-serif; }
text { fill: #1c2733; font-size: 13px; }
.small { fill: #4a5866; font-size: 12px; }
.head { font-weight: 600; }
line { stroke: #9aa7b3; }
circle { fill: #1c2733; }
.early { fill: #d0342c; }
.ready { fill: #2a8f3c; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .small { fill: #b4c0cc; }
  circle { fill: #e6edf3; }
  .early { fill: #ff6b60; }
  .ready { fill: #4cc763; }
}
"""


def measure(joins: int = JOINS) -> dict[str, float]:
    """The median of each moment, in seconds since the kubeconfig appeared."""
    with control_plane() as cluster:
        measured = [asdict(join(cluster)) for _ in range(joins)]
    return {moment: round(statistics.median(one[moment] for one in measured), 2) for moment in measured[0]}


def draw(data: Mapping[str, Any]) -> str:
    """The picture of these data, as SVG: time runs downwards, so that it is readable on a phone."""
    seconds = int(max(max(data[column].values()) for column in _COLUMNS)) + 1
    bottom = _TOP + seconds * _SECOND
    height = bottom + 25 + _LINE * len(_LEGEND)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}">'
    )
    parts = [f"<style>\n{_STYLE}</style>", *_axis(seconds)]
    for number, (column, title) in enumerate(_COLUMNS.items()):
        parts += _column(data[column], title, _FIRST + number * _NEXT, bottom)
    for number, (kind, meaning) in enumerate(_LEGEND):
        y = bottom + 25 + number * _LINE
        parts += [f'<rect class="{kind}" x="{_FIRST - 5}" y="{y - 9}" width="10" height="10"/>']
        parts += [f'<text class="small" x="{_FIRST + 12}" y="{y}">{meaning}</text>']
    return "\n".join([head, *parts, "</svg>", ""])


def _column(moments: Mapping[str, float], title: Sequence[str], x: int, bottom: int) -> Iterator[str]:
    for number, text in enumerate(title):
        kind = "small" if number else "head"
        yield f'<text class="{kind}" x="{x - 5}" y="{16 + number * _LINE}">{text}</text>'
    yield f'<line x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}"/>'
    yield from _bar("early", moments["condition"], moments["allocatable"], x)
    yield from _bar("ready", moments["allocatable"], moments["running"], x)
    free = 0.0
    for names, at in _labels(moments):
        y = _TOP + at * _SECOND
        baseline = max(y + 4, free)
        yield f'<circle cx="{x}" cy="{y:.1f}" r="3"/>'
        yield f'<line x1="{x}" y1="{y:.1f}" x2="{x + 14}" y2="{baseline - 4:.1f}"/>'
        for number, text in enumerate([f"{at:.1f} s {names[0]}", *names[1:]]):
            yield f'<text x="{x + 17}" y="{baseline + number * _LINE:.1f}">{text}</text>'
        free = baseline + len(names) * _LINE + 2


def _bar(kind: str, begin: float, end: float, x: int) -> Iterator[str]:
    if end > begin:
        y, length = _TOP + begin * _SECOND, (end - begin) * _SECOND
        yield f'<rect class="{kind}" x="{x - 8}" y="{y:.1f}" width="16" height="{length:.1f}"/>'


def _labels(moments: Mapping[str, float]) -> Iterator[tuple[list[str], float]]:
    """The names of each label with its time: moments of about the same time have one label."""
    names, at = ["kubeconfig"], 0.0
    for moment, name in sorted(_MOMENTS.items(), key=lambda item: moments[item[0]]):
        if moments[moment] - at > _SAME:
            yield names, at
            names, at = [], moments[moment]
        names.append(name)
    yield names, at


def _axis(seconds: int) -> Iterator[str]:
    for second in range(0, seconds + 1, 2 if seconds <= 20 else 5):
        y = _TOP + second * _SECOND
        yield f'<line x1="{_FIRST - 14}" y1="{y}" x2="{_FIRST - 8}" y2="{y}"/>'
        yield f'<text class="small" x="{_FIRST - 18}" y="{y + 4}" text-anchor="end">{second} s</text>'


def main() -> None:
    data = json.loads(DATA.read_text()) | {"now": measure()}
    save(data)


def save(data: Mapping[str, Any]) -> None:
    """Writes the data and the picture of them."""
    DATA.write_text(json.dumps(data, indent=2) + "\n")
    PICTURE.write_text(draw(data))


if __name__ == "__main__":
    main()
