"""Programs that run beside the tests, and waiting for what they do: none outlives the test run, however that ends."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 120.0
"""Seconds to wait for what takes a few on a quiet machine. It is no promise: only what hangs is to be noticed."""

_SHORTEST, _LONGEST = 0.05, 0.15
"""Seconds between two evaluations: most are requests, which on a busy machine are work that others wait for."""

# The kernel kills what is started with this when the thread that started it ends, even by SIGKILL.
TIED_TO_US = ("setpriv", "--pdeathsig", "KILL", "--")


@dataclass(frozen=True, order=True, slots=True)
class Moment:
    """at: time.monotonic(). starved: starvation() by then."""

    at: float
    starved: float

    @classmethod
    def now(cls) -> Moment:
        return cls(time.monotonic(), starvation())

    def since(self, before: Moment) -> float:
        """Seconds that a promise is held to. One in which some program waited for a processor counts for a fifth."""
        took = self.at - before.at
        return took - 0.8 * min(took, self.starved - before.starved)


def wait_until(condition: Callable[[], T], deadline: float, what: str, pause: float | None = None) -> T:
    """The first true value of the condition, evaluated often, at first more so; TimeoutError after deadline seconds.

    They are seconds as a Moment has them, so that it waits longer on a machine that is busy. pause: seconds between two
    evaluations of a condition that takes much processor time; None for the usual ones.
    """
    begun, rest = Moment.now(), pause or _SHORTEST
    while not (value := condition()):
        if time.monotonic() - begun.at > deadline and Moment.now().since(begun) > deadline:
            raise TimeoutError(f"not within {deadline:g} s: {what}; last seen: {value!r}")
        time.sleep(rest)
        rest = pause or min(1.1 * rest, _LONGEST)
    return value


def starvation() -> float:
    """Seconds since boot in which some program was ready to run without a processor; 0 where Linux does not count them.

    https://docs.kernel.org/accounting/psi.html
    """
    try:
        some, _, _ = Path("/proc/pressure/cpu").read_text().partition("\n")
    except OSError:
        return 0.0
    return int(some.rpartition("total=")[2]) / 1e6


@contextmanager
def workspace() -> Iterator[Path]:
    """A temporary folder that goes even if this process is killed: another one waits for the end of a pipe."""
    folder = Path(tempfile.mkdtemp(prefix="capacityd-cluster-"))
    # Processes that were killed with us may still be writing, hence more than one attempt.
    script = 'cat; for _ in $(seq 100); do rm -rf -- "$0" && exit; sleep 0.2; done; exit 1'
    janitor = subprocess.Popen(["sh", "-c", script, folder], stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield folder
    finally:
        janitor.communicate()
        assert janitor.returncode == 0, f"{folder} could not be removed"


def free_port() -> int:
    """One that nobody else is given as long as this process runs, whoever of them listens first.

    Below those that the kernel gives to outgoing connections, which could take it before somebody listens.
    """
    while True:
        port = random.SystemRandom().randrange(15_000, 32_000)
        with socket.socket() as s, socket.socket(socket.AF_UNIX) as ours:
            try:
                s.bind(("127.0.0.1", port))
                ours.bind(f"\0capacityd-tests-port-{port}")
            except OSError:
                continue
            ours.detach()  # open until this process ends
            return port


class Daemon:
    """A program that runs until it is stopped; its output goes to a file, for waiting and for error messages."""

    def __init__(
        self, command: Sequence[str | Path], log: Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self.log = log
        self.name = log.stem
        # Appended to, so that a restarted program keeps its history; what is appended from here on counts.
        with open(log, "ab") as output:
            self._start = output.tell()
            self.process = subprocess.Popen(
                [*TIED_TO_US, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=cwd,
                env=env,
                # Ctrl-C is for the test run, which then ends its programs in order.
                start_new_session=True,
            )

    def __enter__(self) -> Daemon:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self.process.pid

    def output(self) -> str:
        with open(self.log, "rb") as log:
            log.seek(self._start)
            return log.read().decode(errors="replace")

    def wait_for(self, condition: Callable[[], T], deadline: float, what: str) -> T:
        """As wait_until, but an ended program is reported at once, with the end of its output."""

        def alive_and() -> T:
            value = condition()
            if not value and self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.process.returncode}:\n{self.output()[-3000:]}")
            return value

        try:
            return wait_until(alive_and, deadline, what)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; the end of the output of {self.name}:\n{self.output()[-3000:]}") from None

    def wait_for_line(self, line: str, deadline: float, times: int = 1) -> None:
        """Until its output has this line so many times."""
        self.wait_for(
            lambda: self.output().splitlines().count(line) >= times, deadline, f"{self.name} prints {line!r} ({times})"
        )

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGKILL, deadline: float = PATIENCE) -> None:
        """By SIGKILL by default: the state of a test's programs is thrown away."""
        self.process.send_signal(number)
        try:
            wait_until(lambda: self.process.poll() is not None, deadline, f"{self.name} ends")
        except TimeoutError:
            self.process.kill()
            self.process.wait()
            raise
