"""Runs the parts of a lane side by side, and prints each event at once."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from tests.lanes.job import Job, Outcome
from tests.lanes.needs import target
from tests.lanes.parts import Part

_AT_ONCE = (os.cpu_count() or 1) + 1
_SILENCE = 10.0
"""Seconds without output after which a line is printed, unless the output is a terminal."""


class Lane:
    """One run of a lane."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.begun = time.monotonic()
        self._waiting = list(parts)
        self._names = {part.name for part in parts}
        self._jobs: list[Job] = []
        self._outcomes: dict[str, Outcome] = {}
        self._spoken = self.begun
        self._moving = sys.stdout.isatty()

    def run(self) -> list[Outcome]:
        """Returns the outcome of each part, in the order in which they end."""
        try:
            self._leave_out()
            while self._waiting or self._jobs:
                self._start()
                self._look()
                self._progress()
                time.sleep(0.2)
        finally:
            for job in self._jobs:
                job.kill()
        return list(self._outcomes.values())

    def _leave_out(self) -> None:
        """Reports the parts that this machine can't run."""
        parts: dict[str, list[str]] = {}
        for part in list(self._waiting):
            needs = (*(need() for need in part.needs), *map(target, part.prepare))
            if missing := next(filter(None, needs), None):
                self._waiting.remove(part)
                self._outcomes[part.name] = Outcome(part, left_out=missing)
                parts.setdefault(missing, []).append(part.name)
        for missing, names in parts.items():
            self.say(f"left out: {', '.join(names)}: {missing}")

    def _start(self) -> None:
        for part in list(self._waiting):
            before = self._outcomes.get(part.after or "")
            if len(self._jobs) < _AT_ONCE and (before or part.after not in self._names):
                self._waiting.remove(part)
                if before and before.failed:
                    failed = {part.name: f"not run, because {part.after} failed"}
                    self._outcomes[part.name] = Outcome(part, failed=failed)
                else:
                    self._jobs.append(Job(part))

    def _look(self) -> None:
        for job in list(self._jobs):
            # Get the status first: then the events include all that the part wrote before its end.
            status = job.poll()
            for name, text in job.events():
                self.say(f"FAILED {name}\n{text}")
            if status is None:
                continue
            # 1: tests failed. Any other status means that pytest has not run all of them.
            if status == 1 and job.repeat():
                self.say(f"{job.part.name}: flaky unless it fails again")
                continue
            job.end(status)
            self._jobs.remove(job)
            self._outcomes[job.part.name] = job.outcome
            if job.part.name in job.outcome.failed:
                self.say(f"FAILED {job.part.name}\n{job.outcome.failed[job.part.name]}")
            made = f": {job.part.made}" if job.part.made and not job.outcome.failed else ""
            self.say(f"{job.part.name}: {counts(job.outcome)} in {job.outcome.seconds:.0f} s{made}")

    def say(self, text: str) -> None:
        clear = "\r\033[K" if self._moving else ""
        print(f"{clear}[{self.clock()}] {text}", flush=True)
        self._spoken = time.monotonic()

    def clock(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self.begun), 60)
        return f"{minutes}:{seconds:02}"

    def _progress(self) -> None:
        states = " | ".join(job.state() for job in self._jobs)
        if self._moving:
            width = os.get_terminal_size(sys.stdout.fileno()).columns
            print(f"\r\033[K{f'[{self.clock()}] {states}'[: width - 1]}", end="", flush=True)
        elif time.monotonic() - self._spoken >= _SILENCE:
            self.say(states)


def counts(outcome: Outcome) -> str:
    """Returns text such as "12 passed, 1 failed, 2 skipped"; for a tool "passed" or "failed"."""
    if outcome.left_out:
        return "left out"
    if not outcome.part.pytest:
        return "failed" if outcome.failed else "passed"
    numbers = {"failed": len(outcome.failed), "skipped": len(outcome.skipped), "flaky": len(outcome.flaky)}
    return ", ".join([f"{outcome.passed} passed", *(f"{n} {what}" for what, n in numbers.items() if n)])
