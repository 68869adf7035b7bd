"""make docs-boot: measures joins, and draws the time line of a boot as docs/how-to/boot.svg.

The data are in docs/how-to/boot.json: those of now, which are measured anew, and those before allocatable was written.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from tests import ROOT
from tests.cluster.controlplane import control_plane
from tests.cluster.joining import join

DATA, PICTURE = (ROOT / "docs/how-to" / name for name in ("boot.json", "boot.svg"))
JOINS = 5

_LINES = {
    "before": "Before: the kubelet copies capacity to allocatable (red: the condition is True, and no pod fits)",
    "now": "Now: capacityd writes both (green: from allocatable to the first pod)",
}
_MOMENTS = {
    "node": "Node created",
    "capacity": "capacity",
    "condition": "condition True",
    "allocatable": "allocatable",
    "bound": "pod bound",
    "running": "pod runs",
}
_WIDTH, _HEIGHT, _LEFT, _RIGHT = 820, 330, 30, 30  # pixels
_TOP, _LINE_HEIGHT = 70, 130  # of the first line, and from one to the next
_FONT = 'font-family="sans-serif" font-size="12"'
_SAME = 0.1
"""Moments within so many seconds share a label."""


def measure(joins: int = JOINS) -> dict[str, float]:
    """The median of each moment, in seconds since the kubeconfig appeared."""
    with control_plane() as cluster:
        measured = [asdict(join(cluster)) for _ in range(joins)]
    return {moment: round(statistics.median(one[moment] for one in measured), 2) for moment in measured[0]}


def draw(data: Mapping[str, Any]) -> str:
    """The picture of these data, as SVG."""
    seconds = max(max(data[line].values()) for line in _LINES)
    scale = (_WIDTH - _LEFT - _RIGHT) / (int(seconds) + 1)
    parts = [part for number, line in enumerate(_LINES) for part in _line(line, data[line], number, scale)]
    parts += _axis(int(seconds) + 1, scale)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" {_FONT}>'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>", ""])


def _line(line: str, moments: Mapping[str, float], number: int, scale: float) -> Iterator[str]:
    y = _TOP + number * _LINE_HEIGHT
    yield f'<text x="{_LEFT}" y="{y - 45}" font-weight="bold">{_LINES[line]}</text>'
    yield f'<line x1="{_LEFT}" y1="{y}" x2="{_WIDTH - _RIGHT}" y2="{y}" stroke="#999"/>'
    yield _bar(moments["condition"], moments["allocatable"], y, scale, "#d62728")
    yield _bar(moments["allocatable"], moments["running"], y, scale, "#2ca02c")
    for row, (label, at) in enumerate(_labels(moments)):
        x, text_y = _LEFT + at * scale, y - 28 if row % 2 else y + 28
        anchor = "end" if x > _WIDTH * 0.75 else "start"
        yield f'<circle cx="{x:.1f}" cy="{y}" r="4"/>'
        yield f'<line x1="{x:.1f}" y1="{y}" x2="{x:.1f}" y2="{text_y}" stroke="#999"/>'
        baseline = text_y + (12 if text_y > y else 0)
        yield f'<text x="{x:.1f}" y="{baseline}" text-anchor="{anchor}">{label} {at:.1f} s</text>'


def _bar(begin: float, end: float, y: int, scale: float, color: str) -> str:
    width = max(0.0, (end - begin) * scale)
    return f'<rect x="{_LEFT + begin * scale:.1f}" y="{y - 5}" width="{width:.1f}" height="10" fill="{color}"/>'


def _labels(moments: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Each label with its time: those of about the same time are one."""
    yield "kubeconfig", 0.0
    names: list[str] = []
    at = 0.0
    for moment, name in sorted(_MOMENTS.items(), key=lambda item: moments[item[0]]):
        if names and moments[moment] - at > _SAME:
            yield ", ".join(names), at
            names = []
        at = at if names else moments[moment]
        names.append(name)
    yield ", ".join(names), at


def _axis(seconds: int, scale: float) -> Iterator[str]:
    y = _HEIGHT - 25
    for second in range(0, seconds + 1, 1 if seconds <= 20 else 5):
        x = _LEFT + second * scale
        yield f'<line x1="{x:.1f}" y1="{y - 5}" x2="{x:.1f}" y2="{y}" stroke="#999"/>'
        yield f'<text x="{x:.1f}" y="{y + 14}" text-anchor="middle">{second} s</text>'
    yield f'<line x1="{_LEFT}" y1="{y}" x2="{_WIDTH - _RIGHT}" y2="{y}" stroke="#999"/>'


def main() -> None:
    data = json.loads(DATA.read_text()) | {"now": measure()}
    save(data)


def save(data: Mapping[str, Any]) -> None:
    """Writes the data and the picture of them."""
    DATA.write_text(json.dumps(data, indent=2) + "\n")
    PICTURE.write_text(draw(data))


if __name__ == "__main__":
    main()
