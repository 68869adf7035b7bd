"""The runtime directory is full or read-only. The service publishes as ever; only `status` is stale."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.controlplane import Cluster
from tests.cluster.service import PROMPT, Service, service

A, B = "example.com/a", "example.com/b"
FULL = "No space left on device"


@pytest.fixture
def s(cluster: Cluster) -> Iterator[Service]:
    """A service whose runtime directory is a small file system. Its resources are the numbers in the files a and b."""
    with service(cluster) as s:
        s.runtime_directory.mkdir()
        s.machine.run("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", s.runtime_directory)
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


def test_full_while_it_runs(s: Service) -> None:
    """Nothing about the Node depends on the files: not how often it is read, and not what is written."""
    s.start(settled=False)
    s.wait_capacity("7", B)
    s.wait_passes(1)
    fill(s, s.runtime_directory)
    s.requests()
    machine_has(s, a=5)
    s.wait_capacity("5", A)
    machine_has(s, a=3)
    s.wait_capacity("3", A)
    assert s.requested().count("patch nodes/status") == 2
    assert s.condition()["status"] == "True"
    status = s.cli("status")
    assert f"! {s.runtime_directory} is not writable: {FULL}; the information below is stale" in status.stdout

    s.machine.run("rm", s.runtime_directory / "fill")
    machine_has(s, b=6)
    s.wait_capacity("6", B)
    assert s.cli("status").returncode == 0
    assert s.last_applied() == {A: 3, B: 6}
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
