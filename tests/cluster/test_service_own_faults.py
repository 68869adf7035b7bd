"""Faults of the service itself: it is killed, loses events, and its clocks are wrong."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from capacityd.model.reasons import RetryCause
from capacityd.service.schedule import BACKOFFS, DEBOUNCE
from tests.cluster import faults
from tests.cluster.agent import AGENT, DONGLE, PYTHON
from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE, TIED_TO_US
from tests.cluster.proxy import Proxy
from tests.cluster.service import PUBLISHED, Service, service
from tests.support.machines import bare, merge, nic, usb_device, usb_path

KILLS = 50
STOP = 12.0
"""Seconds that the service may take to end: less than systemd's TimeoutStopSec."""

_DOUBLES = Path(__file__).with_name("doubles.py")


_FULL = """import os, sys
reads, writes = os.pipe()
os.set_blocking(writes, False)
try:
    while True:
        os.write(writes, b"x" * 4096)
except BlockingIOError:
    os.set_blocking(writes, True)
os.set_inheritable(reads, True)
os.dup2(writes, 2)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_an_unread_standard_error(s: Service) -> None:
    """A pipe that is full. Each write to the Node is logged there, so a pass that waited for it would not end."""
    s.configure()
    s.command = [PYTHON, "-I", "-c", _FULL, *s.command]
    s.start()
    assert s.capacity() == "1"
    s.machine.plug("1-2")
    s.wait_capacity("2")
    s.stop(deadline=STOP)


def test_passes_are_killed(cluster: Cluster) -> None:
    """At any moment, each with something to write: capacity and record always agree."""
    chance = random.Random(1)
    with service(cluster, usb_device("1-1")) as s, killer(s) as kill:
        s.configure(lower_after="0s")
        s.start()
        s.stop()
        life, killed, late, plugged = 0.1, 0, 0, False
        while killed < KILLS or not late:  # some are killed when they have written
            (s.machine.unplug if plugged else s.machine.plug)("1-2", events=False)
            plugged = not plugged
            over = False
            while s.capacity() != ("2" if plugged else "1"):
                over = not kill(chance.uniform(0, life))
                killed += not over
                life *= 0.8 if over else 1.1  # so that it is killed at all ages
                node = cluster.node(s.node)
                published = node["metadata"]["annotations"]["capacityd/published"]
                assert published == f'{{"{DONGLE}":{node["status"]["capacity"][DONGLE]}}}'
            late += not over
        s.start()
        s.wait_capacity("2" if plugged else "1")
        s.wait_idle()  # it writes its own files until then
        left = [path.name for path in s.runtime_directory.iterdir() if path.suffix != ".json" and ".json." in path.name]
        assert left == [], "what they left half written is removed"


@contextmanager
def killer(s: Service) -> Iterator[Callable[[float], bool]]:
    """Runs a pass and kills it after so many seconds; whether it still ran then."""
    arguments: list[str | Path] = ["--config", s.config, "worker", s.runtime_directory, "reconcile", "resync"]
    command = s.inside([PYTHON, "-I", Path(__file__).with_name("killer.py"), AGENT, *arguments])
    process = subprocess.Popen([*TIED_TO_US, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        requests, answers = process.stdin, process.stdout

        def kill(seconds: float) -> bool:
            (s.runtime_directory / "state.json").unlink(missing_ok=True)  # else what changes so often is held back
            print(seconds, file=requests, flush=True)
            return answers.readline() == "killed\n"

        yield kill
        requests.close()


def test_a_killed_pass_is_tried_again(proxied: Service, proxy: Proxy) -> None:
    s = proxied
    assert s.process is not None
    fault = proxy.fault(faults.stall(), "GET")  # so that it is killed at work
    s.machine.plug("1-2")
    s.wait(lambda: fault.matched, PATIENCE, "it makes a pass")
    (child,) = set(s.machine.processes()) - {s.process.pid}
    os.kill(child, signal.SIGKILL)
    s.wait_capacity("2")
    assert "the reconcile worker was killed by SIGKILL (out of memory?); retrying" in s.log()


def test_the_service_is_killed(proxied: Service, proxy: Proxy) -> None:
    s = proxied
    s.requests()
    go = threading.Event()
    held = proxy.fault(faults.hold(go), "GET")
    s.machine.plug("1-2")
    s.wait(lambda: held.matched, PATIENCE, "a pass is under way")
    s.stop(signal.SIGKILL)
    go.set()
    s.start()
    s.wait_capacity("2")
    assert s.requested().count("patch nodes/status") == 1, "no double write"
    assert s.last_applied() == {DONGLE: 2}


def test_killed_between_the_write_and_its_event(proxied: Service, proxy: Proxy) -> None:
    """Events are best effort: that of a worker that is killed is lost, and no later pass repeats one."""
    s = proxied
    assert s.process is not None
    fault = proxy.fault(faults.stall(), "POST", "*/events")
    s.machine.plug("1-2")
    s.wait(lambda: fault.matched, PATIENCE, "it creates the Event")
    for child in set(s.machine.processes()) - {s.process.pid}:
        with suppress(ProcessLookupError):  # it has waited for long enough
            os.kill(child, signal.SIGKILL)
    s.machine.plug("1-3")
    s.wait_capacity("3")
    assert s.events() == [f"{DONGLE}: none → 1 (found)", f"{DONGLE}: 2 → 3 (the reading changed)"]


def test_the_event_socket_overflows(s: Service) -> None:
    s.start()
    s.requests()
    assert s.process is not None
    s.process.send(signal.SIGSTOP)
    for _ in range(5000):
        s.machine.event("change", "/sys/devices/nothing", "usb", "usb_device")
    s.machine.plug("1-2")  # its own events are lost
    s.process.send(signal.SIGCONT)
    s.wait_capacity("2")
    s.machine.plug("1-3")
    s.wait_capacity("3")


def test_a_hundred_thousand_events(s: Service) -> None:
    """Of devices that are the same afterwards. They are a reason for a few passes, and none to read the Node."""
    s.start()
    s.requests()
    began, passes = time.monotonic(), s.passes()
    for _ in range(100_000):
        s.machine.event("change", usb_path("1-1"), "usb", "usb_device")
    s.machine.plug("1-2")
    s.wait_capacity("2")
    # Sent without a break they are one or two. Where the sender is held up, there is a break.
    assert s.passes() - passes <= (time.monotonic() - began) / DEBOUNCE + 1
    assert s.requested() == PUBLISHED


def test_udevd_starts_after_the_service(s: Service) -> None:
    """Without it libudev receives nothing, also later."""
    control = s.machine.tree / "run/udev/control"
    control.unlink()
    s.start()
    assert s.status()["event_source_errors"] == ["udev is not running: there are no device events"]
    passes = s.passes()
    s.machine.plug("1-2", events=False)
    control.touch()
    s.wait_capacity("2")
    s.wait_passes(1, passes)
    assert s.status()["event_source_errors"] == []
    s.machine.plug("1-3")
    s.wait_capacity("3")


def test_an_interface_is_renamed(cluster: Cluster) -> None:
    """There is no event of udev that we receive, but one of rtnetlink."""
    with service(cluster, nic("eth7")) as s:
        s.machine.run("ip", "tuntap", "add", "eth7", "mode", "tap")
        s.configure('[resources."example.com/uplink"]\nnic = { name = "data*", kind = "virtual" }\n')
        s.start()
        assert s.capacity("example.com/uplink") is None
        s.machine.add(merge(bare(), nic("data0")))
        s.machine.run("ip", "link", "set", "eth7", "name", "data0")
        s.wait_capacity("1", "example.com/uplink")


def test_a_full_state_folder(cluster: Cluster) -> None:
    """Saving is retried, but ever more rarely: one GET each time, and one log entry."""
    with service(cluster, usb_device("1-1"), usb_device("1-2")) as s:
        s.runtime_directory.mkdir()
        s.machine.run("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", s.runtime_directory)
        s.start(settled=False)
        s.wait_capacity("2")
        s.wait_passes(1)
        s.machine.run("sh", "-c", f"dd if=/dev/zero of={s.runtime_directory}/fill bs=4k status=none || :")
        s.requests()
        began, passes = time.monotonic(), s.passes()
        s.machine.unplug("1-2")
        s.wait_passes(3, passes)
        _, first, _ = BACKOFFS[RetryCause.STATE]
        assert time.monotonic() - began >= first * (1 + 2) * 2 / 3
        requested = s.requested()
        assert set(requested) == {"get nodes", "patch nodes/status"}
        assert requested.count("patch nodes/status") == 1
        assert len(requested) <= 4, "one GET for each pass, and one PATCH"
        assert s.condition()["reason"] == "StateNotWritable"
        assert s.capacity() == "2", "nothing is lowered meanwhile"
        s.machine.run("rm", f"{s.runtime_directory}/fill")
        s.reload()  # else it takes up to a minute and a half
        s.wait_capacity("1")


def test_clocks(cluster: Cluster) -> None:
    """The wall clock jumps back and forth; then the machine was suspended, and a device was pulled meanwhile."""
    with service(cluster, usb_device("1-1"), usb_device("1-2")) as s:
        clock = s.folder / "clock"
        set_to(clock, "0 0")
        s.configure(lower_after="2s")
        s.command = pretending(s, clock)
        s.start()
        s.requests()
        set_to(clock, f"{-86400 * 365} 0")
        s.machine.plug("1-3")
        s.wait_capacity("3")
        set_to(clock, f"{86400 * 365} 0")
        s.machine.unplug("1-3")
        s.wait_capacity("2")
        assert s.last_pass().error == ""
        s.requests()
        s.machine.unplug("1-2", events=False)
        set_to(clock, "0 3600")
        assert s.process is not None
        # Nothing wakes it while poll() counts no suspend; a timer would, within a minute.
        s.process.send(signal.SIGCHLD)
        s.wait_capacity("1")
        requested = s.requested()
        heartbeat = ["patch nodes/status"]  # its time was off by a year
        assert requested in (["get nodes", *PUBLISHED], ["get nodes", *heartbeat, *PUBLISHED])


def set_to(clock: Path, text: str) -> None:
    """In one step: it is read at any moment."""
    new = clock.with_suffix(".new")
    new.write_text(text)
    new.rename(clock)


def pretending(s: Service, clock: Path) -> Sequence[str | Path]:
    s.runtime_directory.mkdir()
    start: list[str | Path] = [PYTHON, "-I", _DOUBLES, clock, AGENT]
    return [
        *start,
        "service.main",
        s.runtime_directory,
        *start,
        "__main__",
        "--config",
        s.config,
        "worker",
        s.runtime_directory,
    ]
