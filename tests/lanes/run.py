"""Runs the parts of a lane side by side, and prints what happens."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from tests.lanes.job import Job, Outcome
from tests.lanes.needs import target
from tests.lanes.parts import Part

_AT_ONCE = (os.cpu_count() or 1) + 1
_SILENCE = 60.0
"""Seconds without output after which the running parts are named."""


class Lane:
    """One run of a lane."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.begun = self._last_output_at = time.monotonic()
        self._waiting = list(parts)
        self._names = {part.name for part in parts}
        self._jobs: list[Job] = []
        self._outcomes: dict[str, Outcome] = {}

    def run(self) -> list[Outcome]:
        """The outcome of each part, in the order in which they end."""
        try:
            self._leave_out()
            while self._waiting or self._jobs:
                self._start_parts()
                self._collect_ended()
                if time.monotonic() - self._last_output_at >= _SILENCE:
                    self._say(f"running: {', '.join(job.part.name for job in self._jobs)}")
                time.sleep(0.2)
        finally:
            for job in self._jobs:
                job.kill()
        return list(self._outcomes.values())

    def _leave_out(self) -> None:
        """Reports the parts that this machine can't run."""
        parts: dict[str, list[str]] = {}
        for part in list(self._waiting):
            needs = [*(need() for need in part.needs), *map(target, part.prepare)]
            missing = next((need for need in needs if need), None)
            if missing:
                self._waiting.remove(part)
                self._outcomes[part.name] = Outcome(part, left_out=missing)
                parts.setdefault(missing, []).append(part.name)
        for missing, names in parts.items():
            self._say(f"left out: {', '.join(names)}: {missing}")

    def _start_parts(self) -> None:
        for part in list(self._waiting):
            before = self._outcomes.get(part.after or "")
            waits_for_another = part.after in self._names and before is None
            if len(self._jobs) < _AT_ONCE and not waits_for_another:
                self._waiting.remove(part)
                if before and before.failed:
                    failed = {part.name: f"not run, because {part.after} failed"}
                    self._outcomes[part.name] = Outcome(part, failed=failed)
                else:
                    self._jobs.append(Job(part))

    def _collect_ended(self) -> None:
        ended = [job for job in self._jobs if job.has_ended()]
        for job in ended:
            self._jobs.remove(job)
            outcome = self._outcomes[job.part.name] = job.outcome
            for name, text in (outcome.failed | outcome.flaky).items():
                self._say(f"{'flaky' if name in outcome.flaky else 'FAILED'}: {name}\n{text}")
            self._say(f"{job.part.name}: {counts(outcome)} in {outcome.seconds:.0f} s")

    def _say(self, text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self.begun), 60)
        print(f"[{minutes}:{seconds:02}] {text}", flush=True)
        self._last_output_at = time.monotonic()


def counts(outcome: Outcome) -> str:
    """Returns text such as "12 passed, 1 failed, 2 skipped"; for a tool "passed" or "failed"."""
    if outcome.left_out:
        return "left out"
    if not outcome.part.pytest:
        return "failed" if outcome.failed else "passed"
    numbers = {"failed": len(outcome.failed), "skipped": len(outcome.skipped), "flaky": len(outcome.flaky)}
    return ", ".join([f"{outcome.passed} passed", *(f"{n} {what}" for what, n in numbers.items() if n)])
