"""One part while it runs, and its outcome."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.lanes.parts import Part

_FOLDER = ROOT / "build/lanes"


@dataclass(slots=True)
class Outcome:
    """The results of a part so far. seconds, cpu: of all runs. flaky: the tests that passed only in the second run."""

    part: Part
    failed: dict[str, str] = field(default_factory=dict)  # a test, or the part itself -> the text of its failure
    ended: dict[str, float] = field(default_factory=dict)  # test -> its seconds
    skipped: dict[str, str] = field(default_factory=dict)  # test -> the reason
    flaky: set[str] = field(default_factory=set)
    left_out: str = ""
    seconds: float = 0.0
    cpu: float = 0.0

    @property
    def passed(self) -> int:
        """The number of tests that have passed; a tool counts as one."""
        if not self.part.pytest:
            return int(not self.failed and not self.left_out)
        return len(self.ended.keys() - self.failed.keys() - self.skipped.keys())


class Job:
    """A part that has been started; its output goes to build/lanes/NAME.log."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.outcome = Outcome(part)
        self.log = _FOLDER / f"{part.name}.log"
        self.total = 0  # tests
        self.now = ""  # the test that was started last
        self._events = _FOLDER / f"{part.name}.events"
        _FOLDER.mkdir(parents=True, exist_ok=True)
        self.log.unlink(missing_ok=True)
        self._again = False
        self._start()

    def _start(self) -> None:
        self._events.write_text("")
        self._position = 0
        self._begun = time.monotonic()
        with open(self.log, "ab") as output:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", "sh", "-ec", self._script()],
                cwd=ROOT,
                env={**os.environ, **self.part.environment, "LANES_EVENTS": str(self._events)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for the runner, which then ends the parts
            )

    def _script(self) -> str:
        commands = [shlex.join(command) for command in self.part.commands]
        if self.part.pytest:
            commands[-1] += f" -o cache_dir=.pytest_cache/{self.part.name}"
            if self._again and not self.part.whole_again:
                commands[-1] += " --last-failed --last-failed-no-failures none"
        if self.part.prepare:
            # Parts share these targets, so only one part at a time makes them.
            lock = ["flock", str(_FOLDER / "prepare.lock")]
            commands.insert(0, shlex.join([*lock, "make", "--no-print-directory", *self.part.prepare]))
        return "; ".join(commands)

    def events(self) -> Iterator[tuple[str, str]]:
        """Yields each test that has failed since the last call, with the text of its failure."""
        with open(self._events) as file:
            file.seek(self._position)
            for line in iter(file.readline, ""):
                if not line.endswith("\n"):
                    break
                self._position += len(line.encode())
                yield from self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> Iterator[tuple[str, str]]:
        outcome = self.outcome
        if "collected" in event:
            self.total = self.total or event["collected"]
        elif "started" in event:
            self.now = event["started"]
        elif "failed" in event:
            outcome.failed[event["failed"]] = event["text"]
            yield event["failed"], event["text"]
        else:
            outcome.ended[event["ended"]] = event["seconds"]
            if event["skipped"] is not None:
                outcome.skipped[event["ended"]] = event["skipped"]

    def poll(self) -> int | None:
        """Returns the exit status, or None while the part runs."""
        pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        if not pid:
            return None
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self.outcome.seconds += time.monotonic() - self._begun
        self.outcome.cpu += usage.ru_utime + usage.ru_stime
        return self._process.returncode

    def repeat(self) -> bool:
        """Repeats the failed tests once, if any: on a busy machine, a test can miss its deadline."""
        if self._again or not self.part.pytest or not self.outcome.failed:
            return False
        self._again = True
        self.outcome.flaky = set(self.outcome.failed)
        self.outcome.failed.clear()
        self._start()
        return True

    def end(self, status: int) -> None:
        """A test that failed twice is not flaky. If the run fails without such a test, the part itself fails."""
        outcome = self.outcome
        outcome.flaky -= outcome.failed.keys()
        if status and not outcome.failed:
            outcome.failed[self.part.name] = self.tail(40)
            outcome.failed |= dict.fromkeys(outcome.flaky, "")
            outcome.flaky = set()

    def tail(self, lines: int) -> str:
        return "\n".join(Path(self.log).read_text(errors="replace").splitlines()[-lines:])

    def state(self) -> str:
        """Describes the progress in a few words."""
        ended = len(self.outcome.ended)
        if self.part.pytest:
            # Near the end, name the test that is still running.
            test = f" ({self.now.rpartition('/')[2]})" if self.now and self.total - ended < 20 else ""
            return f"{self.part.name} {ended}/{self.total or '?'}{test}"
        return f"{self.part.name}: {self.tail(1)[:80]}".rstrip(": ")

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGINT)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
