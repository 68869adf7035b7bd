"""One part while it runs, and its outcome."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass, field
from xml.etree import ElementTree

from tests import ROOT
from tests.lanes.parts import Part

_FOLDER = ROOT / "build/lanes"


@dataclass(slots=True)
class Outcome:
    """The results of a part. seconds, cpu: of all runs."""

    part: Part
    failed: dict[str, str] = field(default_factory=dict)  # a test, or the part itself -> the text of its failure
    ended: set[str] = field(default_factory=set)  # the tests that have ended
    skipped: dict[str, str] = field(default_factory=dict)  # test -> the reason
    flaky: dict[str, str] = field(default_factory=dict)  # a test that passed only in the second run -> its failure
    left_out: str = ""
    seconds: float = 0.0
    cpu: float = 0.0

    @property
    def passed(self) -> int:
        """The number of tests that have passed; a tool counts as one."""
        if not self.part.pytest:
            return int(not self.failed and not self.left_out)
        return len(self.ended - self.failed.keys() - self.skipped.keys())


class Job:
    """A part that has been started; its output goes to build/lanes/NAME.log."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.outcome = Outcome(part)
        self._log = _FOLDER / f"{part.name}.log"
        self._results = _FOLDER / f"{part.name}.xml"
        self._is_second_run = False
        _FOLDER.mkdir(parents=True, exist_ok=True)
        self._log.unlink(missing_ok=True)
        self._start()

    def has_ended(self) -> bool:
        """Whether the part has ended. Repeats failed tests once: on a busy machine, a test can miss its deadline."""
        pid, waited, usage = os.wait4(self._process.pid, os.WNOHANG)
        if not pid:
            return False
        status = self._process.returncode = os.waitstatus_to_exitcode(waited)
        outcome = self.outcome
        outcome.seconds += time.monotonic() - self._begun
        outcome.cpu += usage.ru_utime + usage.ru_stime
        failed_before = outcome.failed
        outcome.failed = {}
        self._read_results()
        # Status 1: tests failed. Any other status but 0 means that pytest has not run all of them.
        if status == 1 and outcome.failed and not self._is_second_run:
            self._is_second_run = True
            self._start()
            return False
        outcome.flaky = {test: text for test, text in failed_before.items() if test not in outcome.failed}
        if status and not outcome.failed:
            last_lines = self._log.read_text(errors="replace").splitlines()[-40:]
            outcome.failed = {self.part.name: "\n".join(last_lines), **outcome.flaky}
            outcome.flaky = {}
        return True

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGINT)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _start(self) -> None:
        self._results.unlink(missing_ok=True)
        self._begun = time.monotonic()
        with open(self._log, "ab") as output:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", "sh", "-ec", self._script()],
                cwd=ROOT,
                env={**os.environ, **self.part.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for the runner, which then ends the parts
            )

    def _script(self) -> str:
        commands = [shlex.join(command) for command in self.part.commands]
        if self.part.pytest:
            commands[-1] += f" -o cache_dir=.pytest_cache/{self.part.name}"
            commands[-1] += f" -o junit_family=xunit1 --junitxml={shlex.quote(str(self._results))}"
            if self._is_second_run and not self.part.whole_again:
                commands[-1] += " --last-failed --last-failed-no-failures none"
        if self.part.prepare:
            # Parts share these targets, so only one part at a time makes them.
            lock = ["flock", str(_FOLDER / "prepare.lock")]
            commands.insert(0, shlex.join([*lock, "make", "--no-print-directory", *self.part.prepare]))
        return "; ".join(commands)

    def _read_results(self) -> None:
        """Adds the results of this run's tests, which pytest has written."""
        if not self._results.exists():
            return
        for case in ElementTree.parse(self._results).iter("testcase"):
            test = f"{case.get('file', '')}::{case.get('name')}"
            self.outcome.ended.add(test)
            for result in case:
                if result.tag in ("failure", "error"):
                    self.outcome.failed[test] = result.text or ""
                elif result.get("type") == "pytest.skip":
                    self.outcome.skipped[test] = result.get("message", "")
