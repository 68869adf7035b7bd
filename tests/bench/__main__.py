"""make bench: memory, wake-ups, open files and times of the agent. Exits 1 if a value is above its limit.

It runs in its own mount namespace, where made-up machines are bound over /sys.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from tests import ROOT
from tests.bench import idle, machines, plugging
from tests.bench.measure import NOTHING, Figure, capacityd, in_turn
from tests.support.terminals import ServiceFiles


def starting(folder: Path) -> list[Figure]:
    """The start of commands, relative to an idle Python program.

    The limits are about 0.15 s on a slow machine, which a person still perceives as immediate.
    """
    config = folder / "six.toml"
    config.write_text(machines.SIX)
    limits = {"--help": 6, "status": 12, "probe": 12}
    commands = [capacityd("--help"), capacityd("status"), capacityd("probe", "--config", config)]
    with ServiceFiles().written(folder), machines.bound(machines.tour(folder / "tour")):
        *runs, nothings = in_turn([*commands, NOTHING], 20, {"RUNTIME_DIRECTORY": str(folder)})
    return [
        Figure(f"{name}, time over that of python3 -I -c pass", _ratio(seconds, nothings), "{:.2f}", most)
        for (name, most), seconds in zip(limits.items(), runs, strict=True)
    ]


def enumerating(folder: Path) -> list[Figure]:
    """Many devices: the time must not grow faster than their number.

    The limit of the time is relative to an idle Python program, because a time in seconds says more about the machine
    than about the program: 60 is about 0.7 s where an idle program takes 12 ms.
    """
    config = folder / "usb.toml"
    config.write_text(machines.USB)
    probe = capacityd("probe", "--config", config)
    figures: list[Figure] = []
    nothings: list[float] = []
    for number in (1_000, 10_000):
        with machines.bound(machines.many(folder / str(number), number)):
            seconds, nothings = in_turn([probe, NOTHING], 9)
            output = subprocess.run(probe, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert output.split()[3:] == ["example.com/dongle", str(number // 2), "-"], output
        figures.append(Figure(f"probe of {number} USB devices", statistics.median(seconds), "{:.2f} s"))
    few, many = (figure.value for figure in figures)
    return [
        *figures,
        Figure("  10000 devices over 1000", many / few, "{:.1f}", 10),
        Figure("  10000 devices over python3 -I -c pass", many / statistics.median(nothings), "{:.1f}", 60),
    ]


def _ratio(these: list[float], those: list[float]) -> float:
    """The median of the pairwise ratios."""
    return statistics.median(a / b for a, b in zip(these, those, strict=True))


PARTS: dict[str, Callable[[Path], Iterable[Figure]]] = {
    "starting": starting,
    "enumerating": enumerating,
    "idle": lambda _: idle.figures(),
    "plugging": lambda _: plugging.figures(),
}


def main(parts: list[str]) -> int:
    """Measures the named parts, or all parts."""
    if not set(parts) <= PARTS.keys():
        print(f"usage: python -m tests.bench [{'|'.join(PARTS)}]...", file=sys.stderr)
        return 2
    own, outside = (os.readlink(f"/proc/{pid}/ns/mnt") for pid in ("self", os.getppid()))
    if own == outside:
        again = ["unshare", "--mount", "--propagation", "private", sys.executable, "-m", "tests.bench", *parts]
        os.execvp(again[0], again)
    print(f"{'':<66}{'measured':>10}{'at most':>10}")
    missed = False
    with machines.in_memory() as folder:
        for part in parts or PARTS:
            for figure in PARTS[part](folder):
                print(figure.line(), flush=True)
                missed = missed or figure.missed
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
