"""The service's folders are full. Without room for the machine record, it publishes raises, but lowers, removes or
loses nothing, and the Node says so. Without room in the runtime directory, only `status` is stale."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from capacityd.model.pace import SHORTEST_PAUSE
from capacityd.model.plan import UNSAVED
from capacityd.model.reasons import RetryCause
from tests.cluster.controlplane import Cluster
from tests.cluster.service import PROMPT, Service, service

A, B = "example.com/a", "example.com/b"
FULL = "No space left on device"
RETRY = 2 * SHORTEST_PAUSE[RetryCause.STATE] + PROMPT
"""Seconds within which a second retry has an effect. The first one may come too early."""


@pytest.fixture
def s(cluster: Cluster) -> Iterator[Service]:
    """A service whose folders are small file systems. Its two resources are the numbers in the files a and b."""
    with service(cluster) as s:
        for folder in (s.runtime_directory, s.state_directory):
            folder.mkdir()
            s.machine.run("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder)
        machine_has(s, a=4, b=7)
        s.configure("".join(f'[resources."example.com/{n}"]\nfile = {{ path = "{s.folder}/{n}" }}\n' for n in "ab"))
        yield s


def machine_has(s: Service, **numbers: int) -> None:
    for name, number in numbers.items():
        new = s.folder / f"{name}.new"
        new.write_text(str(number))
        new.rename(s.folder / name)


def fill(s: Service, folder: Path) -> None:
    s.machine.run("sh", "-c", f"dd if=/dev/zero of={folder}/fill bs=4k status=none || :")


def test_full_while_it_runs(cluster: Cluster, s: Service) -> None:
    """The service retries saving, with at most one GET each time, and one log entry in all."""
    folder = s.state_directory
    s.start(settled=False)
    s.wait_capacity("7", B)
    s.wait_passes(1)
    fill(s, folder)
    s.requests()
    passes = s.passes()
    machine_has(s, a=3)
    s.wait_passes(3, passes)
    requested = s.requested()
    assert requested.count("patch nodes/status") == 1
    assert requested.count("get nodes") == len(requested) - 1 <= s.passes() - passes
    assert s.condition()["reason"] == "StateNotWritable"
    assert s.condition()["message"].startswith(f"{UNSAVED}: ")
    assert FULL in s.condition()["message"]

    cluster.set_capacity(s.node, {A: "0"})
    machine_has(s, a=5)
    (s.folder / "b").unlink()
    s.join()  # so that the service retries at once
    s.wait_capacity("5", A)
    machine_has(s, a=3)
    s.wait_passes(1, s.passes(), RETRY)
    assert (s.capacity(A), s.capacity(B)) == ("5", "7"), "nothing gets less"
    assert s.log().count(FULL) == 1
    assert f"{B}: unknown" not in s.log(), "what can't be remembered would be logged after each pass"
    assert s.cli("status").returncode == 4

    s.machine.run("rm", folder / "fill")
    machine_has(s, b=6)
    s.reload()  # else the repair takes up to a minute
    s.wait_capacity("3", A)
    s.wait_capacity("6", B)
    s.wait(lambda: s.condition()["status"] == "True", PROMPT, "nothing is wrong any more")
    assert s.last_applied() == {A: 3, B: 6}
    assert s.log().count("recovered") == 1
    assert "Traceback" not in s.log()


def test_full_when_it_starts(s: Service) -> None:
    """Without room in the runtime directory, numbers rise and fall as ever, and `status` says what it cannot show."""
    fill(s, s.runtime_directory)
    s.start(ready=False, settled=False)
    s.wait_capacity("4", A)
    s.wait(lambda: "the configuration check failed and is retried: " in s.log(), PROMPT, "it is logged")
    machine_has(s, a=3)
    s.wait_capacity("3", A)
    assert f"! {s.runtime_directory} is not writable: {FULL}; the information below is stale" in s.cli("status").stdout
    s.wait(lambda: s.condition()["status"] == "True", PROMPT, "nothing is wrong")
    assert s.log().count(FULL) == 1, "it is logged once"
    assert "Traceback" not in s.log()


def test_read_only_when_it_starts(s: Service) -> None:
    """The service exits; systemd restarts it every five seconds."""
    s.machine.run("mount", "-o", "remount,ro", s.runtime_directory)
    done = s.cli("run")
    assert done.returncode == 1
    assert f"{s.runtime_directory} is not writable" in done.stderr
