"""Draws the dashboard as docs/how-to/dashboard.png, from the results of its queries: make docs-dashboard.

It stands in for a picture of Grafana, which Debian does not have. It needs what tests/picture.txt pins.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image, PngImagePlugin

from tests.support import fleet_day
from tests.support.dashboard import PICTURE, PICTURE_KEY, Panel, digest, panels
from tests.support.fleet_day import MINUTES, START, STEP
from tests.support.prometheus import Prometheus, serving

SHOWN = 200
"""The minute that the panels with a single number show, so that they show the faults."""

WIDTH, ROW, GAP = 1200, 34, 14  # pixels: the picture's width, a grid row's height, and between panels
TITLE, LEGEND = 20, 52  # pixels that a panel's title and its legend take
DPI = 100
COLORS = ("#1f77b4", "#2ca02c", "#ff7f0e", "#d62728", "#9467bd", "#8c564b", "#17becf", "#7f7f7f")


def main() -> None:
    shown = panels()
    height = max(panel.y + panel.height for panel in shown) * ROW
    matplotlib.rcParams.update({"font.size": 7, "font.family": "DejaVu Sans", "axes.linewidth": 0.5})
    figure = Figure(figsize=(WIDTH / DPI, height / DPI), dpi=DPI)
    with tempfile.TemporaryDirectory(prefix="capacityd-dashboard-") as folder:
        with serving(Path(folder), fleet_day.samples()) as prometheus:
            for panel in shown:
                draw(figure, height, panel, prometheus)
        unfinished = Path(folder, "picture.png")
        figure.savefig(unfinished)
        save(unfinished)


def draw(figure: Any, height: int, panel: Panel, prometheus: Prometheus) -> None:
    """Draws a panel. height: of the picture, in pixels."""
    single, column = panel.kind == "stat", WIDTH / 24
    left, right = panel.x * column + GAP, (panel.x + panel.width) * column - GAP
    top, bottom = panel.y * ROW + GAP / 2, (panel.y + panel.height) * ROW - GAP / 2
    figure.text(left / WIDTH, 1 - (top + 9) / height, panel.title, fontsize=8, weight="bold", va="center")
    place = (left + 30, top + TITLE, right - 12, bottom - (0 if single else LEGEND))
    box = (place[0] / WIDTH, 1 - place[3] / height, (place[2] - place[0]) / WIDTH, (place[3] - place[1]) / height)
    axes = figure.add_axes(box)
    if single:
        time = START + SHOWN * STEP
        (series,) = prometheus.query(panel.queries[0].expr, time, time, STEP)
        axes.set_axis_off()
        axes.text(0.5, 0.5, f"{series.values[0][1]:g}", fontsize=24, ha="center", va="center")
        return
    hours = [minute * STEP / 3600 for minute in range(MINUTES + 1)]
    lines = []
    for query in panel.queries:
        for series in prometheus.query(query.expr, START, START + MINUTES * STEP, STEP):
            at = dict(series.values)
            lines.append((query.name(series.labels), [at.get(START + h * 3600, float("nan")) for h in hours]))
    # Long times are in minutes: Grafana chooses a unit by itself, too.
    scale = 60 if panel.unit == "s" and max(v for _, values in lines for v in values if v == v) > 600 else 1
    for number, (name, values) in enumerate(lines):
        axes.plot(
            hours,
            [value / scale for value in values],
            linestyle="--" if panel.dashed and re.fullmatch(panel.dashed, name) else "-",
            linewidth=1.0,
            color=COLORS[number % len(COLORS)],
            label=name,
            drawstyle="steps-post",
        )
    axes.set_xlim(0, hours[-1])
    axes.set_ylim(bottom=0)
    axes.grid(linewidth=0.3)
    axes.tick_params(length=2, width=0.5)
    axes.set_xticks(range(7), [f"{hour}:00" for hour in range(8, 15)])
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    if panel.unit == "s":
        axes.set_ylabel("minutes" if scale == 60 else "seconds", labelpad=1)
    axes.legend(loc="upper left", bbox_to_anchor=(-0.03, -0.09), ncol=3, frameon=False, fontsize=6, borderpad=0)


def save(drawn: Path) -> None:
    """Saves it with few colours, so that it is small, and with the digest of its queries."""
    metadata = PngImagePlugin.PngInfo()
    metadata.add_text(PICTURE_KEY, digest())
    with Image.open(drawn) as picture:
        small = picture.convert("RGB").quantize(64, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
        small.save(PICTURE, optimize=True, pnginfo=metadata)


if __name__ == "__main__":
    main()
