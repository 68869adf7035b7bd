"""A detector that hangs, dies, raises, exhausts memory or leaves programs makes only its own resource unknown."""

from __future__ import annotations

import errno
import faulthandler
import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from capacityd.discovery import child, runner
from capacityd.discovery.child import max_blocked_of
from capacityd.discovery.runner import probe
from capacityd.host.live import LiveHost
from capacityd.linux.subreaper import become_subreaper, children, kill_children
from capacityd.model.errors import Cause
from capacityd.model.host import Host
from capacityd.model.reading import Absent, Contribution, Quantity, Reading, Unknown
from capacityd.schema.config import Config, Resource, Table
from capacityd.schema.device import ValueDetector
from tests.support.forked import forked, has_children, open_files, still_alive
from tests.support.machines import machine, usb_device
from tests.support.readings import resource

MakeDouble = Callable[[Callable[[], Any]], Resource]

HOST = machine(usb_device("1-1"), usb_device("1-2"))
# Two resources whose detectors work, and their readings.
GOOD = [
    Resource("example.com/first", "static", (Table(settings={"quantity": 3}),)),
    Resource("example.com/last", "usb", resource("usb").tables),
]
GOOD_READINGS: dict[str, Reading] = {
    "example.com/first": Quantity(3, (Contribution("configuration", 3),)),
    "example.com/last": Quantity(2, (Contribution("1-1", 1), Contribution("1-2", 1))),
}


@pytest.fixture
def make_double(monkeypatch: pytest.MonkeyPatch) -> MakeDouble:
    """A function that makes a detector named "double" from an action, and returns a resource of this detector."""

    def make(action: Callable[[], Any]) -> Resource:
        def read(_: Host, __: Mapping[str, object]) -> Contribution:
            return Contribution("double", int(action() or 0))

        module = ModuleType("capacityd.detectors.double")
        module.DETECTOR = ValueDetector("double", "a double", {}, read)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return Resource("example.com/double", "double", (Table(),))

    return make


def readings(*resources: Resource, host: Host = HOST, **more: Any) -> dict[str, Reading]:
    """Takes the readings in a forked process, in which no child and no new open file may be left."""

    def run_pass() -> dict[str, Reading]:
        before = open_files()
        by_resource = probe(Config(resources), host, "node", **more)
        assert not has_children()
        assert open_files() == before
        return by_resource

    return forked(run_pass)


def limit_the_double(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Shortens the deadline of the detector "double" only."""
    usual = child.max_blocked_of

    def limit_of(resource: Resource) -> float:
        return seconds if resource.detector == "double" else usual(resource)

    monkeypatch.setattr(child, "max_blocked_of", limit_of)


def wait_for_ever() -> None:
    reader, _ = os.pipe()
    os.read(reader, 1)


def die_of(number: int) -> None:
    """Kills this process by a signal."""
    faulthandler.disable()  # pytest's fault handler would print a long traceback
    os.kill(os.getpid(), number)


def fail_to_import() -> None:
    raise ImportError("No module named x\x1b[2J")


def fill_memory() -> int:
    return len(bytearray(1 << 30))


@pytest.mark.parametrize(
    ("action", "reason", "cause"),
    [
        (lambda: die_of(signal.SIGKILL), "was killed by signal 9 (SIGKILL, out of memory?)", Cause.KILLED),
        (lambda: die_of(signal.SIGABRT), "was killed by signal 6 (SIGABRT)", Cause.KILLED),
        (lambda: sys.exit(0), "ended without a reading", Cause.DETECTOR_FAILED),
        (fail_to_import, 'failed: ImportError; "sudo capacityd probe', Cause.DETECTOR_FAILED),
        (fill_memory, "needed more than 512 MiB of memory", Cause.KILLED),
    ],
)
def test_a_detector_that_fails_makes_only_its_resource_unknown(
    make_double: MakeDouble, action: Callable[[], Any], reason: str, cause: Cause
) -> None:
    by_resource = readings(GOOD[0], make_double(action), GOOD[1])
    bad = by_resource.pop("example.com/double")
    assert isinstance(bad, Unknown)
    assert reason in bad.reason
    assert bad.cause is cause
    assert by_resource == GOOD_READINGS


@pytest.mark.slow
def test_a_detector_that_cannot_be_killed_delays_no_pass_and_is_not_started_again(
    make_double: MakeDouble, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The test disables the kill, so the detector stays, as in an uninterruptible sleep, and is left to the service."""
    config = Config((GOOD[0], make_double(wait_for_ever), GOOD[1]))

    def run_pass() -> dict[str, Reading]:
        """Runs a pass without forked(), which would wait for the detector."""
        pid = os.fork()
        if pid == 0:
            (tmp_path / "found").write_bytes(pickle.dumps(probe(config, HOST, "node")))
            os._exit(0)
        os.waitpid(pid, 0)
        restored: dict[str, Reading] = pickle.loads((tmp_path / "found").read_bytes())
        return restored

    def serve() -> tuple[list[dict[str, Reading]], str, bool]:
        become_subreaper()
        reader, writer = os.pipe()
        os.dup2(writer, 1)
        os.close(writer)
        try:
            with monkeypatch.context() as immortal:
                immortal.setattr(os, "killpg", lambda *_: None)
                first = run_pass()
            os.dup2(2, 1)  # now only the detector could keep the pipe open
            is_closed = bool(select.select([reader], [], [], 0)[0])  # the end of the file can be read
            with open(f"/proc/self/task/{os.getpid()}/children") as f:
                (left,) = f.read().split()
            second = run_pass()
            os.kill(int(left), signal.SIGKILL)
            os.waitid(os.P_PID, int(left), os.WEXITED | os.WNOWAIT)  # waits for the end, but leaves a zombie
            third = run_pass()
        finally:
            kill_children(time.monotonic() + 10)
        return [first, second, third], left, is_closed

    limit_the_double(monkeypatch, 1.0)
    passes, left, is_closed = forked(serve)
    late = Unknown("the detector double did not end within 1 s", Cause.TIMEOUT)
    hangs = Unknown(f"the detector double of an earlier pass hangs in the kernel (process {left})", Cause.HANGING)
    assert [readings.pop("example.com/double") for readings in passes] == [late, hangs, late]
    assert passes == [GOOD_READINGS] * 3
    assert is_closed, "the detector does not keep the output of a pass open"


def test_children_of_a_detector_are_killed_with_it(
    make_double: MakeDouble, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    marker = tmp_path / f"left-{os.getpid()}"
    marker.symlink_to("/bin/sleep")

    def fork() -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if os.fork() == 0:
            os.execv(marker, [str(marker), "3600"])
        wait_for_ever()

    monkeypatch.setattr(child, "MAX_BLOCKED", 0.3)
    assert isinstance(readings(make_double(fork))["example.com/double"], Unknown)
    assert still_alive(marker.name) == []


def test_more_hanging_detectors_than_run_at_once_do_not_delay_the_others(
    make_double: MakeDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_the_double(monkeypatch, 0.1)
    double = make_double(wait_for_ever)
    hanging = [replace(double, name=f"example.com/hanging-{n}") for n in range(9)]
    config = Config((*hanging, *reversed(GOOD)), broken={"example.com/broken": 'unknown key "vendro"'})
    by_resource = forked(lambda: probe(config, HOST, "node"))
    assert [*by_resource] == sorted(by_resource)
    late = Unknown("the detector double did not end within 0.1 s", Cause.TIMEOUT)
    wrong = Unknown('configuration: unknown key "vendro"', Cause.CONFIGURATION)
    unknown = {resource.name: late for resource in hanging} | {"example.com/broken": wrong}
    assert by_resource == GOOD_READINGS | unknown


@pytest.mark.slow
def test_a_reading_larger_than_the_pipe_arrives_complete() -> None:
    host = machine(*(usb_device(f"{bus}-{port}") for bus in range(1, 31) for port in range(1, 61)))
    reading = readings(GOOD[1], resource("usb", {"serial": "none"}), host=host, explain=True)["example.com/thing"]
    assert isinstance(reading, Absent)
    assert len(reading.rejections) == 30 * 60


def runs(folder: Path, *texts: str, timeout: float = 20.0) -> Resource:
    """A resource with a table for each text, which runs the text as a shell script."""
    tables = []
    for number, text in enumerate(texts):
        path = folder / f"program{number}"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        tables.append(Table(settings={"command": (str(path),), "timeout": timeout}))
    return Resource("example.com/program", "exec", tuple(tables))


def test_a_program_that_hangs_stops_the_programs_after_it(tmp_path: Path) -> None:
    """The programs of several tables run one after another in one child."""
    hangs = runs(tmp_path, "exec sleep 3600", f"touch {tmp_path}/ran", timeout=0.2)
    assert max_blocked_of(hangs) > 2 * 0.2
    assert max_blocked_of(GOOD[0]) == child.MAX_BLOCKED
    by_resource = readings(hangs, GOOD[0], host=LiveHost())
    assert isinstance(reading := by_resource["example.com/program"], Unknown)
    assert by_resource["example.com/first"] == GOOD_READINGS["example.com/first"]
    assert reading.cause is Cause.TIMEOUT
    assert not (tmp_path / "ran").exists()


def test_programs_of_a_killed_detector_are_killed(tmp_path: Path) -> None:
    marker = tmp_path / f"left-{os.getpid()}"
    marker.symlink_to("/bin/sleep")
    kills = runs(tmp_path, f"setsid -f {marker} 3600; kill -KILL $PPID; exec {marker} 3600")
    reading = readings(kills, host=LiveHost())["example.com/program"]
    assert isinstance(reading, Unknown)
    assert reading.cause is Cause.KILLED
    assert still_alive(marker.name) == []


def test_a_program_may_reserve_much_address_space(tmp_path: Path) -> None:
    """Go and Java do so. The limit applies only to private, writable memory."""
    reserves_8_gib = "import mmap; mmap.mmap(-1, 1 << 33, prot=mmap.PROT_READ); print(5)"
    by_resource = readings(runs(tmp_path, f"exec {sys.executable} -c '{reserves_8_gib}'"), host=LiveHost())
    assert isinstance(by_resource["example.com/program"], Quantity)


@pytest.mark.parametrize("one_at_a_time", [True, False])
def test_without_a_free_process_a_detector_waits_or_is_unknown(
    monkeypatch: pytest.MonkeyPatch, one_at_a_time: bool
) -> None:
    """one_at_a_time: whether one process may run. Otherwise, none may."""
    fork = os.fork

    def limited() -> int:
        if one_at_a_time and not children(os.getpid()):
            return fork()
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    def run_pass() -> dict[str, Reading]:
        before = open_files()
        monkeypatch.setattr("os.fork", limited)
        by_resource = probe(Config(tuple(GOOD)), HOST, "node")
        assert open_files() == before
        return by_resource

    why = "could not be started: Resource temporarily unavailable"
    unknown = {r.name: Unknown(f"the detector {r.detector} {why}", Cause.DETECTOR_FAILED) for r in GOOD}
    assert forked(run_pass) == (GOOD_READINGS if one_at_a_time else unknown)


def test_an_interrupted_probe_leaves_no_child_and_no_open_file(
    make_double: MakeDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = make_double(wait_for_ever)

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    def run_pass() -> None:
        before = open_files()
        monkeypatch.setattr(runner, "wait_for_any", interrupted)
        with pytest.raises(KeyboardInterrupt):
            probe(Config((stuck, *GOOD)), HOST, "node")
        assert not has_children()
        assert open_files() == before

    forked(run_pass)


def test_processor_time_does_not_count_toward_a_detectors_deadline(
    make_double: MakeDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The busy time is read only after the first deadline. The detector ends at that moment."""
    reader, writer = os.pipe()

    def busy_all_the_time(_: int) -> float:
        os.write(writer, b"x")
        return 1e9

    limit_the_double(monkeypatch, 0.05)
    monkeypatch.setattr(child, "busy_time", busy_all_the_time)
    by_resource = readings(GOOD[0], make_double(lambda: len(os.read(reader, 1))), GOOD[1])
    assert by_resource.pop("example.com/double") == Quantity(1, (Contribution("double", 1),))
    assert by_resource == GOOD_READINGS


def test_a_detector_that_never_ends_is_killed_although_it_runs(
    make_double: MakeDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_the_double(monkeypatch, 0.08)
    for module in (child, runner):
        monkeypatch.setattr(module, "MAX_BUSY", 0.1)
    monkeypatch.setattr(child, "busy_time", lambda _: 1e9)
    by_resource = readings(make_double(wait_for_ever), GOOD[0])
    assert by_resource["example.com/double"] == Unknown("the detector double did not end within 0.1 s", Cause.TIMEOUT)
