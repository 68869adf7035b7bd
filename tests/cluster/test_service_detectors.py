"""Detectors that misbehave: the others are published on time, the broken one is unknown and its last value stands."""

from __future__ import annotations

import shutil

import pytest

from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.service import DONGLES, PROMPT, Service, service
from tests.support.machines import files, usb_device

SEATS = "example.com/seats"

BROKEN = {
    "hangs": ("sleep 1000", "did not end within 2 s"),
    "dies": ("kill -SEGV $$", "killed by signal 11"),
    "eats": ("exec /usr/bin/python3 -c 'x = bytearray(1 << 30); print(len(x))'", "MemoryError"),
    "leaves-children": ("setsid sleep 1000 & setsid sleep 1000 & exit 1", "exited with status 1"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_one(cluster: Cluster, how: str) -> None:
    script, why = BROKEN[how]
    with service(cluster, usb_device("1-1")) as s:
        # The first time it works, as its last value is to stand.
        program(s, "echo 7")
        s.configure(DONGLES + seats(s, "1min"))
        s.start()
        assert s.capacity(SEATS) == "7"
        program(s, script)
        if how == "hangs":  # what ends gets the time that a slow machine takes
            s.configure(DONGLES + seats(s, "2s"))
            s.reload()
        s.machine.plug("1-2")
        s.wait_capacity("2")
        s.wait(lambda: s.condition()["message"] == f"unknown: {SEATS}", PROMPT, "the condition reports it")
        s.wait(lambda: s.process and s.machine.processes() == [s.process.pid], PROMPT, "nothing of it is left")
        (found,) = [r for r in s.status()["resources"] if r["name"] == SEATS]
        assert (found["reading"], found["published"], found["capacity"]) == ("unknown", 7, "7")
        assert why in found["note"]
        assert s.condition()["status"] == "False"

        s.stop()
        s.requests()
        s.start()  # ready before the broken one has ended
        s.machine.plug("1-3")
        s.wait_capacity("3")
        assert s.last_applied() == {DONGLE: 3, SEATS: 7}
        assert s.capacity(SEATS) == "7"


def seats(s: Service, timeout: str) -> str:
    return f'[resources."{SEATS}"]\nexec = {{ command = ["{s.folder}/seats"], timeout = "{timeout}" }}\n'


def program(s: Service, script: str) -> None:
    new = s.folder / "seats.new"
    new.write_text(f"#!/bin/sh\n{script}\n")
    new.chmod(0o755)
    new.rename(s.folder / "seats")


def test_a_processor_goes_offline_and_comes_back(cluster: Cluster) -> None:
    """By an event of udev, which a real kernel sends likewise; counted by psutil."""
    core, folder = "example.com/core", "/sys/devices/system/cpu"
    first, second = (
        files({f"{folder}/cpu{n}/topology/{name}": f"{n}\n" for name in ("core_cpus_list", "physical_package_id")})
        for n in range(2)
    )
    with service(cluster, first, second) as s:
        s.configure(f'[resources."{core}"]\ncpu = {{}}\nmeasure = "cores"\n')
        s.start()
        assert s.capacity(core) == "2"
        shutil.rmtree(f"{s.machine.tree}{folder}/cpu1/topology")
        s.machine.event("offline", f"{folder}/cpu1", "cpu")
        s.wait_capacity("1", core)
        s.machine.add(second)
        s.machine.event("online", f"{folder}/cpu1", "cpu")
        s.wait_capacity("2", core)


def test_a_part_of_the_memory_goes_offline(cluster: Cluster) -> None:
    """It is read again; the machine's own memory stays as it is."""
    with service(cluster) as s:
        s.configure('[resources."example.com/memory-mib"]\nmemory = {}\nmeasure = "size"\nunit = "MiB"\n')
        s.start()
        assert int(s.capacity("example.com/memory-mib") or 0) > 256
        passes = s.passes()
        s.machine.event("offline", "/sys/devices/system/memory/memory32", "memory")
        s.wait_passes(1, passes)
        assert s.status_file()["reasons"] == ["hardware"]
