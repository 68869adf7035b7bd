"""Runs the shortest histories of each kind (tests/support/shortest.py) on the real API server.

    python -m tests.cluster.histories [--each N] [--kind KIND]

After each step the Node's condition must tell the truth; at the end, when all causes have gone, the Node must be right
within two passes.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.cluster.binaries import pinned
from tests.cluster.controlplane import control_plane
from tests.cluster.real_machine import RealMachine, real_machine
from tests.cluster.releases import programs
from tests.support.histories import History, take_all
from tests.support.shortest import KINDS, Step, histories


@dataclass
class Result:
    """The results of the histories of one kind."""

    kind: str
    histories: int = 0
    passes: int = 0
    kills: int = 0
    """How many passes were killed."""
    wrong: list[str] = field(default_factory=list)
    """For each history that failed: its steps, and the failure."""


def run(machine: RealMachine, kind: str, chosen: Sequence[Sequence[Step]]) -> Result:
    """Runs these histories of one kind."""
    result = Result(kind)
    for steps in chosen:
        lines: list[str] = []
        machine.reset()
        history = History(machine, lambda line, lines=lines: lines.append(str(line)))  # type: ignore[misc]
        try:
            take_all(history, steps)
            kills = sum(step.kill_at is not None for step in steps)
            assert len(history.kills) == kills, f"{history.kills} were reached instead of {kills} kill points"
        except (AssertionError, TimeoutError):
            result.wrong.append("\n".join([*lines, traceback.format_exc()]))
        result.histories += 1
        result.passes += history.passes
        result.kills += len(history.kills)
    return result


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--each", type=int, default=20, help="how many of each kind")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only these kinds")
    options = parser.parse_args()
    results = []
    row = "{:<24}{:>10}{:>8}{:>7}{:>7}".format
    print(row("kind", "histories", "passes", "kills", "wrong"), flush=True)
    with control_plane(binaries=programs(pinned(), None)) as cluster, real_machine(cluster) as machine:
        for kind in options.kind or KINDS:
            result = run(machine, kind, histories(kind)[: options.each])
            results.append(result)
            print(row(kind, result.histories, result.passes, result.kills, len(result.wrong)), flush=True)
    for result in results:
        for story in result.wrong:
            print(f"\n{result.kind}:\n{story}")
    return 1 if any(result.wrong for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
