"""Each detector by itself: one that hangs, dies, raises, eats memory or leaves programs behind costs nobody else."""

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
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from capacityd import probe as probing
from capacityd.errors import HostError
from capacityd.explanation import Rejection
from capacityd.host import Host
from capacityd.host.live import LiveHost
from capacityd.model import (
    Absent,
    Config,
    Evidence,
    Quantity,
    Reading,
    Resource,
    Table,
    Unknown,
    ValueDetector,
)
from capacityd.orphans import adopt_orphans, end_children
from capacityd.probe import _packed, _unpacked, allowed_seconds, probe
from tests.unit.forked import forked, has_children, open_files, still_alive
from tests.unit.looking import resource
from tests.unit.machines import machine, usb_device

HOST = machine(usb_device("1-1"), usb_device("1-2"))
GOOD = [
    Resource("example.com/first", "static", (Table(settings={"quantity": 3}),)),
    Resource("example.com/last", "usb", resource("usb").tables),
]
READ: dict[str, Reading] = {
    "example.com/first": Quantity(3, (Evidence("configuration", 3),)),
    "example.com/last": Quantity(2, (Evidence("1-1", 1), Evidence("1-2", 1))),
}


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], Resource]:
    """Makes a detector "double" that does something, and gives a resource of it."""

    def make(action: Callable[[], Any]) -> Resource:
        def read(_: Host, __: Mapping[str, object]) -> Evidence:
            return Evidence("double", int(action() or 0))

        module = ModuleType("capacityd.detectors.double")
        module.DETECTOR = ValueDetector("double", "a double", {}, read)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return Resource("example.com/double", "double", (Table(),))

    return make


def readings(*resources: Resource, host: Host = HOST, **more: Any) -> dict[str, Reading]:
    """The readings, from a process that must have no child and nothing open afterwards that it had not before."""

    def look() -> dict[str, Reading]:
        before = open_files()
        found = probe(Config(resources), host, "node", **more)
        assert not has_children()
        assert open_files() == before
        return found

    return forked(look)


def only_the_double_has(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """The good ones take as long as they take."""
    usual = probing.allowed_seconds
    monkeypatch.setattr(probing, "allowed_seconds", lambda r: seconds if r.detector == "double" else usual(r))


def wait_for_ever() -> None:
    ours, _ = os.pipe()
    os.read(ours, 1)


def die_of(number: int) -> None:
    faulthandler.disable()  # pytest's own; it would fill the output
    os.kill(os.getpid(), number)


def needs(module: str) -> None:
    raise ImportError(f"No module named {module}\x1b[2J")


def fill_memory() -> int:
    return len(bytearray(1 << 30))


def leak_memory() -> None:
    pieces = []
    while True:
        pieces.append(bytearray(1 << 20))


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (lambda: die_of(signal.SIGKILL), "was killed by signal 9 (SIGKILL, out of memory?)"),
        (lambda: die_of(signal.SIGSEGV), "was killed by signal 11 (SIGSEGV)"),
        (lambda: die_of(signal.SIGABRT), "was killed by signal 6 (SIGABRT)"),
        (lambda: os._exit(7), "ended without a reading"),
        (lambda: sys.exit(0), "ended without a reading"),
        (lambda: 1 // 0, r"failed: ZeroDivisionError: "),
        (lambda: needs("x"), r"failed: ImportError: No module named x\x1b[2J"),
        (fill_memory, "needed more than 512 MiB of memory"),
        (leak_memory, "needed more than 512 MiB of memory"),
    ],
)
def test_one_that_fails_is_unknown_and_harms_no_other(
    double: Callable[[Callable[[], Any]], Resource], action: Callable[[], Any], reason: str
) -> None:
    found = readings(GOOD[0], double(action), GOOD[1])
    bad = found.pop("example.com/double")
    assert isinstance(bad, Unknown)
    assert reason in bad.reason
    assert found == READ


def test_one_that_hangs_is_unknown_and_harms_no_other(
    double: Callable[[Callable[[], Any]], Resource], monkeypatch: pytest.MonkeyPatch
) -> None:
    only_the_double_has(monkeypatch, 1.0)
    found = readings(GOOD[0], double(wait_for_ever), GOOD[1])
    assert found.pop("example.com/double") == Unknown("the detector double did not end within 1 s")
    assert found == READ


def test_one_that_hangs_and_ignores_signals_is_ended(
    double: Callable[[Callable[[], Any]], Resource], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ignore() -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        wait_for_ever()

    monkeypatch.setattr(probing, "DEADLINE", 0.3)
    assert isinstance(readings(double(ignore))["example.com/double"], Unknown)


def test_one_that_can_not_be_ended_keeps_no_look_waiting_and_is_not_started_again(
    double: Callable[[Callable[[], Any]], Resource], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As one in an uninterruptible sleep; here nobody kills it. What a look leaves is the service's own child then."""
    config = Config((GOOD[0], double(wait_for_ever), GOOD[1]))

    def look() -> dict[str, Reading]:
        """Not by forked(), which would wait for what is left."""
        pid = os.fork()
        if pid == 0:
            (tmp_path / "found").write_bytes(pickle.dumps(probe(config, HOST, "node")))
            os._exit(0)
        os.waitpid(pid, 0)
        found: dict[str, Reading] = pickle.loads((tmp_path / "found").read_bytes())
        return found

    def serve() -> tuple[list[dict[str, Reading]], str, bool]:
        adopt_orphans()
        heard, output = os.pipe()
        os.dup2(output, 1)
        os.close(output)
        try:
            with monkeypatch.context() as immortal:
                immortal.setattr(os, "killpg", lambda *_: None)
                first = look()
            os.dup2(2, 1)
            silent = bool(select.select([heard], [], [], 0)[0])
            with open(f"/proc/self/task/{os.getpid()}/children") as f:
                (left,) = f.read().split()
            second = look()
        finally:
            end_children(time.monotonic() + 10)
        return [first, second, look()], left, silent

    only_the_double_has(monkeypatch, 1.0)
    found, left, silent = forked(serve)
    late = Unknown("the detector double did not end within 1 s")
    hangs = Unknown(f"the detector double of an earlier look hangs in the kernel (process {left})")
    assert [f.pop("example.com/double") for f in found] == [late, hangs, late]
    assert found == [READ] * 3
    assert silent, "nobody holds what a look says its words through"


def test_what_a_detector_forks_ends_with_it(
    double: Callable[[Callable[[], Any]], Resource], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    marker = tmp_path / f"left-{os.getpid()}"
    marker.symlink_to("/bin/sleep")

    def fork() -> None:
        if os.fork() == 0:
            os.execv(marker, [str(marker), "3600"])
        wait_for_ever()

    monkeypatch.setattr(probing, "DEADLINE", 0.3)
    assert isinstance(readings(double(fork))["example.com/double"], Unknown)
    assert still_alive(marker.name) == []


def test_more_hang_than_run_at_once(
    double: Callable[[Callable[[], Any]], Resource], monkeypatch: pytest.MonkeyPatch
) -> None:
    only_the_double_has(monkeypatch, 0.2)
    stuck = double(wait_for_ever)
    many = [Resource(f"example.com/{n}", "double", stuck.tables) for n in range(20)]
    found = readings(*many, *GOOD)
    assert sum(isinstance(r, Unknown) for r in found.values()) == 20
    assert {name: found[name] for name in READ} == READ


def test_readings_are_in_order_of_their_names_with_those_that_have_a_mistake() -> None:
    config = Config(tuple(reversed(GOOD)), broken={"example.com/broken": 'unknown key "vendro"'})
    found = forked(lambda: probe(config, HOST, "node"))
    assert list(found) == ["example.com/broken", "example.com/first", "example.com/last"]
    assert found["example.com/broken"] == Unknown('configuration: unknown key "vendro"')


def test_nothing_configured_is_nothing_read() -> None:
    assert readings() == {}


def test_a_large_reading_comes_through() -> None:
    host = machine(*(usb_device(f"{bus}-{port}") for bus in range(1, 31) for port in range(1, 61)))
    found = readings(GOOD[1], resource("usb", {"serial": "none"}), host=host, explain=True)
    assert isinstance(reading := found["example.com/thing"], Absent)
    assert len(reading.rejections) == 30 * 60


@pytest.mark.parametrize(
    "reading",
    [
        Quantity(3, (Evidence("1-1", 1, "note"), Evidence("sda", 1.5)), (Rejection("1-2", "why"),), "warning"),
        Quantity(0),
        Absent("none", (Rejection("1-2", "why"),)),
        Unknown("why"),
    ],
)
def test_readings_survive_the_pipe(reading: Reading) -> None:
    assert _unpacked(_packed(reading)) == reading


def program(folder: Path, text: str) -> tuple[str, ...]:
    path = folder / f"program{len(list(folder.iterdir()))}"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return (str(path),)


def runs(*commands: tuple[str, ...], timeout: float = 20.0, name: str = "example.com/program") -> Resource:
    return Resource(name, "exec", tuple(Table(settings={"command": c, "timeout": timeout}) for c in commands))


def test_programs_that_hang_add_up_no_further_than_they_are_allowed(tmp_path: Path) -> None:
    """Several tables run one after another in one child; the first that hangs decides, and the others are not run."""
    hangs = runs(program(tmp_path, "exec sleep 3600"), program(tmp_path, f"touch {tmp_path}/ran"), timeout=0.2)
    assert allowed_seconds(hangs) > 2 * 0.2
    found = readings(hangs, GOOD[0], host=LiveHost())
    assert isinstance(reading := found["example.com/program"], Unknown)
    assert found["example.com/first"] == READ["example.com/first"]
    assert "did not end within 0.2 s" in reading.reason
    assert not (tmp_path / "ran").exists()


def test_programs_add_up(tmp_path: Path) -> None:
    found = readings(runs(program(tmp_path, "echo 3"), program(tmp_path, "echo 4")), host=LiveHost())
    assert isinstance(reading := found["example.com/program"], Quantity)
    assert reading.value == 7


def test_a_detector_that_is_killed_leaves_its_program_to_be_ended(tmp_path: Path) -> None:
    marker = tmp_path / f"left-{os.getpid()}"
    marker.symlink_to("/bin/sleep")
    kills = runs(program(tmp_path, f"setsid -f {marker} 3600; kill -KILL $PPID; exec {marker} 3600"))
    found = readings(kills, GOOD[0], host=LiveHost())
    assert isinstance(reading := found["example.com/program"], Unknown)
    assert found["example.com/first"] == READ["example.com/first"]
    assert "was killed by signal 9" in reading.reason
    assert still_alive(marker.name) == []


def test_a_program_may_not_eat_all_memory(tmp_path: Path) -> None:
    python = program(tmp_path, f"exec {sys.executable} -c 'print(len(bytearray(1 << 30)))'")
    found = readings(runs(python), host=LiveHost())
    assert isinstance(reading := found["example.com/program"], Unknown)
    assert "MemoryError" in reading.reason


def test_a_program_that_counts_on_much_address_space_runs(tmp_path: Path) -> None:
    """Go and Java reserve far more than they use; only what is private and writable is limited."""
    reserves = "import mmap; mmap.mmap(-1, 1 << 33, prot=mmap.PROT_READ); print(5)"
    found = readings(runs(program(tmp_path, f"exec {sys.executable} -c '{reserves}'")), host=LiveHost())
    assert isinstance(found["example.com/program"], Quantity)


@pytest.mark.parametrize("limit", [os.EX_OK, 1, 2])
def test_without_a_process_for_it_a_detector_is_unknown(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """limit: how many may run at once. What has one that has ended before it is read after all."""
    fork, running = os.fork, set[int]()

    def limited() -> int:
        for pid in list(running):
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                running.discard(pid)
        if len(running) >= limit:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        if pid := fork():
            running.add(pid)
        return pid

    def look() -> dict[str, Reading]:
        before = open_files()
        monkeypatch.setattr("os.fork", limited)
        found = probe(Config(tuple(GOOD)), HOST, "node")
        assert open_files() == before
        return found

    why = "could not be started: Resource temporarily unavailable"
    if limit:
        assert forked(look) == READ
    else:
        assert forked(look) == {r.name: Unknown(f"the detector {r.detector} {why}") for r in GOOD}


def test_an_interrupted_probe_leaves_nothing(
    double: Callable[[Callable[[], Any]], Resource], monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = double(wait_for_ever)

    def interrupted(_: object, until: float) -> None:
        raise KeyboardInterrupt

    def look() -> None:
        before = open_files()
        monkeypatch.setattr(probing, "_wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            probe(Config((stuck, *GOOD)), HOST, "node")
        assert not has_children()
        assert open_files() == before

    forked(look)


def test_a_host_error_is_told_and_not_called_a_failure(double: Callable[[Callable[[], Any]], Resource]) -> None:
    def fails() -> None:
        raise HostError("the door is shut")

    assert readings(double(fails))["example.com/double"] == Unknown("the door is shut")


def test_how_long_a_reading_may_take() -> None:
    assert allowed_seconds(GOOD[0]) == probing.DEADLINE
    assert allowed_seconds(runs(("/bin/a",), ("/bin/b",), timeout=30.0)) > 60
