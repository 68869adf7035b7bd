"""make bench: what the agent costs, beside what can't be had for less. Prints a table; a missed target is marked.

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
from tests.bench.measure import Figure, Run, capacityd, in_turn, ratio
from tests.cluster.agent import PYTHON
from tests.support.terminals import CASES, world

_MIB = 1 << 20
ROUNDS = 20


def probing(folder: Path) -> list[Figure]:
    """The start of a command that probes six resources, beside a Python that does nothing.

    The limits here and below are about 0.15 s on a slow machine: what a person still takes for at once.
    """
    config = folder / "six.toml"
    config.write_text(machines.SIX)
    probe = capacityd("probe", "--config", config)
    with machines.bound(machines.tour(folder / "tour")):
        imported = subprocess.run(
            [PYTHON, "-X", "importtime", *probe[1:]], cwd=ROOT, capture_output=True, text=True, check=True
        )
        probes, nothings = in_turn([probe, [PYTHON, "-I", "-c", "pass"]], ROUNDS)
    assert imported.stdout.count("\n") == 7, imported.stdout
    loaded = [line.rpartition("|")[2].strip() for line in imported.stderr.splitlines()]
    assert "capacityd.discovery.runner" in loaded, imported.stderr
    return [
        Figure("probe of 6 resources, time over that of python3 -I -c pass", _ratio(probes, nothings), "{:.2f}", 12),
        Figure(
            "  modules of the Kubernetes client that it imports",
            sum(name.split(".")[0] == "kubernetes" for name in loaded),
            "{:.0f}",
            0,
        ),
        Figure("  probe", _milliseconds(probes), "{:.1f} ms"),
        Figure("  python3 -I -c pass", _milliseconds(nothings), "{:.1f} ms"),
    ]


def starting(folder: Path) -> list[Figure]:
    """The start of what a person types, beside a Python that does nothing; in a pipe and on a terminal."""
    config = folder / "started.toml"
    config.write_text(machines.SIX)
    typed = {
        "--help": (capacityd("--help"), 6),
        "status": (capacityd("status"), 12),
        "probe of 6 resources": (capacityd("probe", "--config", config), None),
    }
    commands = [command for command, _ in typed.values()]
    with world(CASES["status-healthy"]) as there, machines.bound(machines.tour(folder / "started")):
        environment = {"RUNTIME_DIRECTORY": str(there / "run"), "TERM": "xterm-256color"}
        *runs, nothings = in_turn(
            [*commands, *commands, [PYTHON, "-I", "-c", "pass"]], ROUNDS, environment, terminals=range(3, 6)
        )
    figures = []
    for n, (name, (_, most)) in enumerate(typed.items()):
        figures.append(
            Figure(f"{name}, time over that of python3 -I -c pass", _ratio(runs[n], nothings), "{:.2f}", most)
        )
        figures.append(Figure("  on a terminal", _ratio(runs[n + 3], nothings), "{:.2f}", most))
    return figures


def enumerating(folder: Path) -> list[Figure]:
    """Many devices: time and memory must not grow faster than their number."""
    config = folder / "usb.toml"
    config.write_text(machines.USB)
    probe = capacityd("probe", "--config", config)
    figures: list[Figure] = []
    times: list[float] = []
    for number, seconds, peak in ((10, None, None), (1_000, None, None), (10_000, 0.5, 40.0)):
        with machines.bound(machines.many(folder / str(number), number)):
            [runs] = in_turn([probe], 9)
            output = subprocess.run(probe, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert output.split()[3:] == ["example.com/dongle", str(number // 2), "-"], output
        times.append(statistics.median(run.seconds for run in runs))
        figures.append(Figure(f"probe of {number} USB devices, time", times[-1], "{:.2f} s", seconds))
        figures.append(Figure("  peak memory", max(run.peak for run in runs) / _MIB, "{:.1f} MiB", peak))
    figures.append(Figure("  10000 devices over 1000, time", times[2] / times[1], "{:.1f}", 10))
    return figures


def _ratio(these: list[Run], those: list[Run]) -> float:
    return ratio([run.seconds for run in these], [run.seconds for run in those])


def _milliseconds(runs: list[Run]) -> float:
    return 1000 * statistics.median(run.seconds for run in runs)


PARTS: dict[str, Callable[[Path], Iterable[Figure]]] = {
    "probing": probing,
    "starting": starting,
    "enumerating": enumerating,
    "idle": lambda _: idle.figures(),
    "plugging": lambda _: plugging.figures(),
}


def main() -> None:
    """All of it, or the parts that are named."""
    parts = sys.argv[1:] or [*PARTS]
    if unknown := [part for part in parts if part not in PARTS]:
        sys.exit(f'make bench: unknown part "{unknown[0]}"; must be one of {", ".join(PARTS)}')
    if machines.OUTSIDE not in os.environ:
        again = ["unshare", "--mount", "--propagation", "private", sys.executable, "-m", "tests.bench", *parts]
        os.execvpe(again[0], again, os.environ | {machines.OUTSIDE: machines.mount_namespace()})
    print(f"{'':<66}{'measured':>10}{'at most':>10}")
    with machines.in_memory() as folder:
        for part in parts:
            for figure in PARTS[part](folder):
                print(figure.line(), flush=True)


if __name__ == "__main__":
    main()
