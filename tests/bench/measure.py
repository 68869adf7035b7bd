"""Programs run in turn, and what they took: neighbouring runs are compared, so that a busy machine bears on both."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT
from tests.cluster.agent import PYTHON

_SPAWN = Path(__file__).with_name("spawn.py")
# As the launcher of the package does it, from the sources.
_BOOT = "import sys; sys.path.insert(0, 'agent'); from capacityd.__main__ import main; sys.exit(main())"
ENVIRONMENT = {"PATH": os.environ["PATH"]}

Command = Sequence[str | Path]


@dataclass(frozen=True, slots=True)
class Figure:
    """A line of the table. target: None where there is none; the figure is then there to explain another one."""

    what: str
    value: float
    form: str
    target: float | None = None

    def line(self) -> str:
        if self.target is None:
            return f"{self.what:<66}{self.form.format(self.value):>10}"
        verdict = "" if self.value <= self.target else "  MISSED"
        return f"{self.what:<66}{self.form.format(self.value):>10}{self.form.format(self.target):>10}{verdict}"


@dataclass(frozen=True, slots=True)
class Run:
    seconds: float
    cpu: float
    peak: int  # bytes
    status: int


def capacityd(*arguments: str | Path) -> Command:
    return [PYTHON, "-I", "-c", _BOOT, *arguments]


def in_turn(
    commands: Sequence[Command],
    rounds: int,
    environment: Mapping[str, str] | None = None,
    warm: bool = True,
    terminals: Collection[int] = (),
) -> list[list[Run]]:
    """Runs A B A B …, if asked to after one of each that does not count. For each command its runs, in order.

    terminals: the numbers of the commands that write to a terminal.
    """
    asked = {
        "commands": [[str(part) for part in command] for command in commands],
        "environment": {**ENVIRONMENT, **(environment or {})},
        "rounds": rounds + warm,
        "terminals": list(terminals),
    }
    output = subprocess.run(
        [PYTHON, "-I", "-S", _SPAWN], input=json.dumps(asked), stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT
    )
    rounds_of_runs = [[Run(*run) for run in each] for each in json.loads(output.stdout)]
    for each in rounds_of_runs:
        for command, run in zip(commands, each, strict=True):
            if run.status != 0:
                raise RuntimeError(f"{' '.join(map(str, command))} ended with {run.status}")
    return [list(runs) for runs in zip(*rounds_of_runs[warm:], strict=True)]


def ratio(these: Sequence[float], those: Sequence[float]) -> float:
    """The median of the ratios by pair."""
    return statistics.median(a / b for a, b in zip(these, those, strict=True))
