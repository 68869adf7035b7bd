"""The resident process: waits for a reason to look again, and has a short-lived child look. It decides nothing else.

So a detector that hangs or leaks, the Kubernetes client and the parsing of TOML never live here, and a child that dies
changes nothing. Children write the files in the state folder; this process only reads their last line.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import time

from capacityd.child import Child
from capacityd.orphans import adopt_orphans
from capacityd.schedule import BOOTING, RECHECK, Schedule
from capacityd.tell import DEAF, TROUBLE, WELL, notify, report
from capacityd.wake import UDEV, Signals, Sources

TYPE_CHECKING = False  # typing itself would stay in memory
if TYPE_CHECKING:
    from typing import Any

_MARGIN = 180.0  # seconds that a child may take, beside what the configuration allows its programs
_TICK = 60.0  # at most so long between two looks at the clocks and two signs of life to systemd
_CHECK_PAUSE, _CHECK_PAUSE_MOST = 5.0, 60.0  # seconds before a check that failed is tried again: the first, and at most
_SUSPENDED = 5.0  # seconds by which the clock that counts suspend must have gained
_LOCK = "service.lock"
_LOCK_PAUSE = 0.02  # seconds between attempts to take the lock, which a command by hand holds while it looks at it


class Service:
    """The loop. command: how a child is started; its first argument is then "check" or "look"."""

    def __init__(self, command: list[str], folder: str) -> None:
        self._command = command
        self._folder = folder
        self._signals = Signals()
        self._sources = Sources({})
        self._watched: dict[str, Any] = {}
        self._child: Child | None = None
        self._job = ""
        self._verdict: dict[str, Any] = {}
        self._reload = True
        self._check_at, self._check_pause = 0.0, _CHECK_PAUSE
        self._ready = False
        self._allowed = _MARGIN
        self._troubles: dict[str, str] = {}
        booting = time.clock_gettime(time.CLOCK_BOOTTIME) < BOOTING
        self._schedule = Schedule(time.monotonic(), _uniform, settle=booting)
        self._suspended = _suspended()

    def run(self) -> int:
        """Runs until a signal ends it; returns the exit status."""
        self._note(time.monotonic())
        while True:
            if self._child is None:
                if not os.path.exists(os.path.join(self._folder, _LOCK)):  # only systemd can make the folder again
                    report(3, f"{self._folder} is gone; the service ends, and begins anew with a new one", TROUBLE)
                    return 1
                self._begin(time.monotonic())
            reasons = self._wait()
            if "stop" in reasons:
                notify("STOPPING=1")
                if self._child is not None:
                    self._child.end()
                return 0
            if "reload" in reasons:
                self._reload = True
            if "udev" in reasons and os.path.exists(UDEV):
                self._open_sources()
                reasons.add("hardware")
            self._schedule.hear(reasons - {"reload", "child", "udev"}, time.monotonic())

    def _begin(self, now: float) -> None:
        """Starts a child if there is a reason to."""
        if self._reload and now >= self._check_at:
            self._reload = False
            if self._ready:
                notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
            self._job, arguments = "check", ["check", "reload" if self._ready else "boot"]
        elif self._watched and (reasons := self._schedule.take(now)):
            if self._sources.failed:  # it may be over, and what can't be heard until then is seen now
                self._open_sources()
            self._job, arguments = "look", ["look", ",".join(sorted(reasons))]
        else:
            return
        self._verdict = {}
        try:
            self._child = Child([*self._command, *arguments], self._allowed)
        except OSError as e:  # no memory, no process, no file left
            self._ended(f"could not be started: {e.strerror}")

    def _wait(self) -> set[str]:
        """Waits for anything at all; returns the reasons to look that came up."""
        poll = select.poll()
        child = self._child
        for fd in (self._signals.fileno(), *self._sources.filenos(), *([child.fileno()] if child else [])):
            poll.register(fd, select.POLLIN)
        moments = [child.deadline] if child else [self._check_at] if self._reload else []
        if not child and self._watched:  # a check that is tried again keeps no look waiting
            moments.append(self._schedule.wakes_at())
        pause = min(max(0.0, min(moments) - time.monotonic()), _TICK) if moments else _TICK
        ready = {fd for fd, _ in poll.poll(pause * 1000 + 1)}
        notify("WATCHDOG=1")
        heard, failures = self._sources.drain(ready)
        reasons = self._signals.drain() | self._resumed() | heard
        if failures:
            report(4, f"an event source failed and is opened anew: {failures[0]}", DEAF)
            self._open_sources()
            reasons.add("hardware")
        if child:
            if child.fileno() in ready:
                self._listen(child)
            elif child.deadline <= time.monotonic():
                child.end()
                self._ended(f"did not end within {self._allowed:.0f} s")
        return reasons

    def _resumed(self) -> set[str]:
        before, self._suspended = self._suspended, _suspended()
        return {"resume"} if self._suspended - before > _SUSPENDED else set()

    def _listen(self, child: Child) -> None:
        messages, over = child.hear()
        for message in messages:
            if message.get("probed") and not self._ready:
                self._ready = True
                notify("READY=1")
            self._verdict |= message
        if over:
            killed = child.end()
            self._ended(f"was killed by {killed}" if killed else "ended without a word")

    def _ended(self, otherwise: str) -> None:
        """A child is over. otherwise: how, if it has not said that it is done."""
        self._child = None
        now = time.monotonic()
        if self._job == "check":
            self._configured(otherwise)
        elif self._verdict.get("done"):
            self._tell("look", str(self._verdict.get("trouble", "")))
            if self._verdict.get("failed"):
                self._schedule.failed(now, self._verdict.get("retry_after"))
            else:
                asked = bool(self._verdict.get("asked", True))
                self._schedule.succeeded(now, self._verdict.get("again_in"), asked)
                if (start_in := self._verdict.get("start_in")) is not None:
                    self._schedule.start_in(float(start_in), now)
        else:
            self._tell("look", f"the look {otherwise}; it is tried again")
            self._schedule.failed(now, None)
        self._note(now)
        status = self._verdict.get("status") or "; ".join(self._troubles.values()) or "waiting"
        notify(f"STATUS={' '.join(status.split())}")

    def _configured(self, otherwise: str) -> None:
        """A check has ended. watch: what to listen to from now on; without it what was good before stays."""
        if self._verdict.get("done") and not self._verdict.get("failed"):
            self._tell("check", "")
            self._check_pause = _CHECK_PAUSE
        else:
            why = str(self._verdict.get("trouble") or otherwise)
            self._tell("check", f"the check of the configuration failed and is tried again: {why}")
            self._reload, self._check_at = True, time.monotonic() + self._check_pause
            self._check_pause = min(2 * self._check_pause, _CHECK_PAUSE_MOST)
        watch = self._verdict.get("watch")
        if watch is not None and watch != self._watched:
            if not self._watched:  # what comes up while the machine boots is heard from now on only, so quiet is, too
                self._schedule.hear({"boot"}, time.monotonic())
            self._watched = watch
            self._open_sources()
            self._schedule.recheck_every(float(watch.get("recheck", RECHECK)), time.monotonic())
        self._allowed = _MARGIN + float(self._watched.get("allowed", 0.0))
        if self._ready:
            notify("READY=1")
            self._schedule.hear({"config"}, time.monotonic())

    def _open_sources(self) -> None:
        """Opens what there is to listen to. What can't be heard is said: a re-check still finds what changed."""
        before = self._sources.deaf
        self._sources.close()
        self._sources = Sources(self._watched)
        for problem in self._sources.deaf:
            if problem not in before:
                report(4, f"{problem}; changes are found at the next look", DEAF)

    def _tell(self, job: str, trouble: str) -> None:
        """Says once what is wrong with a job, and once that all is over."""
        before = self._troubles.pop(job, "")
        if trouble:
            if trouble != before:
                report(4, trouble, TROUBLE)
            self._troubles[job] = trouble
        elif before and not self._troubles:
            report(5, "all is well again", WELL)

    def _note(self, now: float) -> None:
        """For status: when the next look is. Written aside and renamed, so that it is never seen half written.

        late: seconds of uptime at which it is written anew at the latest, unless this process is stuck.
        """
        path = os.path.join(self._folder, "service.json")
        left = max(0.0, self._schedule.wakes_at() - now)
        late = time.clock_gettime(time.CLOCK_BOOTTIME) + left + self._allowed + _TICK
        trouble = "; ".join(self._troubles.values())
        found = {
            "pid": os.getpid(),
            "next": time.time() + left,
            "late": late,
            "trouble": trouble,
            "deaf": self._sources.deaf,
        }
        try:
            with open(f"{path}.new", "w", encoding="utf-8") as f:
                os.fchmod(f.fileno(), 0o644)  # status needs no root
                json.dump(found, f)
            os.replace(f"{path}.new", path)
        except OSError:
            pass  # the children, who write here too, tell what comes of it; and status, that this is from before


def _uniform(low: float, high: float) -> float:
    """A random number, without the 4 MiB that the module random and its hashes take."""
    return low + (high - low) * int.from_bytes(os.urandom(4), "little") / 2**32


def _suspended() -> float:
    """Seconds that the machine has been suspended since it booted."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


def main(arguments: list[str]) -> int:
    """FOLDER COMMAND...: runs the service; COMMAND starts its children. Returns the exit status."""
    folder, *command = arguments
    lock = os.path.join(folder, _LOCK)
    try:
        if not _locked(lock):
            report(3, f"the service runs already; see {folder}/service.json", TROUBLE)
            return 1
    except OSError as e:
        report(3, f"{lock} could not be opened: {e.strerror}", TROUBLE)
        return 1
    adopt_orphans()
    return Service(command, folder).run()


def _locked(path: str) -> bool:
    """Takes the lock that tells that the service runs, for as long as it does: a process id alone can be another's."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for _ in range(10):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE)
    return False
