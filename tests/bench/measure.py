"""Measured values. Commands are run in turn, so that a busy machine slows all of them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT
from tests.cluster.agent import PYTHON

# the command that the package's launcher runs, with the sources
_BOOT = "import sys; sys.path.insert(0, 'agent'); from capacityd.__main__ import main; sys.exit(main())"
NOTHING = (PYTHON, "-I", "-c", "pass")

Command = Sequence[str | Path]


@dataclass(frozen=True, slots=True)
class Figure:
    """A line of the table. most: its limit; None for a value that only explains another one."""

    what: str
    value: float
    form: str
    most: float | None = None

    @property
    def missed(self) -> bool:
        return self.most is not None and self.value > self.most

    def line(self) -> str:
        most = "" if self.most is None else self.form.format(self.most)
        return (
            f"{self.what:<66}{self.form.format(self.value):>10}{most:>10}{'  MISSED' if self.missed else ''}".rstrip()
        )


def capacityd(*arguments: str | Path) -> Command:
    return [PYTHON, "-I", "-c", _BOOT, *arguments]


def in_turn(
    commands: Sequence[Command], rounds: int, environment: Mapping[str, str] | None = None
) -> list[list[float]]:
    """Runs A B A B …, after one uncounted round. Returns the seconds of each run, by command."""
    variables = {"PATH": os.environ["PATH"], **(environment or {})}
    taken: list[list[float]] = [[] for _ in commands]
    for number in range(rounds + 1):
        for command, seconds in zip(commands, taken, strict=True):
            began = time.perf_counter()
            subprocess.run(command, cwd=ROOT, env=variables, stdout=subprocess.DEVNULL, check=True)
            if number:
                seconds.append(time.perf_counter() - began)
    return taken
