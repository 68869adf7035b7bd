"""Runs programs beside the tests, and waits for their effects. No program outlives the test run."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 120.0
"""Seconds to wait for something that takes a few seconds on a quiet machine. The limit only serves to notice hangs."""

_SHORTEST, _LONGEST = 0.05, 0.15
"""Seconds between two evaluations of a condition. Most evaluations make a request, which slows down a busy machine."""

# The kernel kills a program started with this prefix when the thread that started it ends, even by SIGKILL.
TIED_TO_US = ("setpriv", "--pdeathsig", "KILL", "--")


def wait_until(condition: Callable[[], T], deadline: float, what: str, pause: float | None = None) -> T:
    """Waits for a true value of the condition, and returns it. Raises TimeoutError after deadline seconds.

    A second in which some program waited for a CPU counts as a fifth, so the wait is longer on a busy machine.
    pause: seconds between two evaluations. None: a pause that grows during the wait.
    """
    begun, starved, rest = time.monotonic(), starvation(), pause or _SHORTEST
    while not (value := condition()):
        elapsed = time.monotonic() - begun
        if elapsed > deadline and elapsed - 0.8 * min(elapsed, starvation() - starved) > deadline:
            raise TimeoutError(f"not within {deadline:g} s: {what}; last seen: {value!r}")
        time.sleep(rest)
        rest = pause or min(1.1 * rest, _LONGEST)
    return value


def starvation() -> float:
    """Seconds since boot in which some program waited for a CPU. 0: Linux does not count them.

    https://docs.kernel.org/accounting/psi.html
    """
    try:
        line, _, _ = Path("/proc/pressure/cpu").read_text().partition("\n")
    except OSError:
        return 0.0
    return int(line.rpartition("total=")[2]) / 1e6  # "some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS"


@contextmanager
def workspace() -> Iterator[Path]:
    """A temporary folder. Another process removes it when this process ends, even if this process is killed."""
    folder = Path(tempfile.mkdtemp(prefix="capacityd-cluster-"))
    # Processes that were killed with us may still be writing, so try more than once.
    script = 'cat; for _ in $(seq 100); do rm -rf -- "$0" && exit; sleep 0.2; done; exit 1'
    janitor = subprocess.Popen(["sh", "-c", script, folder], stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield folder
    finally:
        janitor.communicate()
        assert janitor.returncode == 0, f"{folder} could not be removed"


def free_port() -> int:
    """A port that no other caller gets as long as this process runs, even before a program listens on it.

    It is below the kernel's range for outgoing connections, so that no connection takes it first.
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
    """A program that runs until it is stopped. Its output goes to a file, for waiting and for error messages."""

    def __init__(self, command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.log = log
        self.name = log.stem
        # Append, to keep the output from before a restart. output() returns only what comes from here on.
        with open(log, "ab") as output:
            self._start = output.tell()
            self.process = subprocess.Popen(
                [*TIED_TO_US, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=env,
                # Ctrl-C reaches only the test run, which then ends its programs in order.
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
        """Does the same as wait_until(), but raises RuntimeError with the end of the output if the program ends."""

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
        """Waits until the output contains this line this many times."""
        self.wait_for(
            lambda: self.output().splitlines().count(line) >= times, deadline, f"{self.name} prints {line!r} ({times})"
        )

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGKILL, deadline: float = PATIENCE) -> None:
        """Stops the program. The default is SIGKILL, because nobody needs its state after the test."""
        self.process.send_signal(number)
        try:
            wait_until(lambda: self.process.poll() is not None, deadline, f"{self.name} ends")
        except TimeoutError:
            self.process.kill()
            self.process.wait()
            raise
