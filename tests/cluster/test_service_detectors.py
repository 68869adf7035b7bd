"""Detectors that misbehave: the others are published on time, the broken one is unknown and its last value stands."""

from __future__ import annotations

import pytest

from tests.cluster.controlplane import Cluster
from tests.cluster.service import DONGLE, DONGLES, SLACK, Service, service
from tests.unit.machines import usb_device

SEATS = "example.com/seats"

BROKEN = {
    "hangs": ("sleep 1000", "did not end within 4 s"),
    "dies": ("kill -SEGV $$", "killed by signal 11"),
    "eats": ("exec /usr/bin/python3 -c 'x = bytearray(1 << 30); print(len(x))'", "MemoryError"),
    "leaves-children": ("setsid sleep 1000 & setsid sleep 1000 & exit 1", "ended with status 1"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_one(cluster: Cluster, how: str) -> None:
    script, why = BROKEN[how]
    with service(cluster, usb_device("1-1")) as s:
        # The first time it works, as its last value is to stand.
        program(s, "echo 7")
        s.configure(DONGLES + f'[resources."{SEATS}"]\nexec = {{ command = ["{s.folder}/seats"], timeout = "4s" }}\n')
        s.start()
        assert s.capacity(SEATS) == "7"
        program(s, script)
        s.machine.plug("1-2")
        s.wait_capacity("2", 3 + SLACK)
        s.wait(lambda: s.condition()["message"] == f"unknown: {SEATS}", 10 + SLACK, "the condition tells")
        s.wait_looks(2)
        s.wait(lambda: s.process and s.machine.processes() == [s.process.pid], SLACK, "nothing of it is left")
        (seats,) = [r for r in s.status()["resources"] if r["name"] == SEATS]
        assert (seats["reading"], seats["published"], seats["capacity"]) == ("unknown", 7, "7")
        assert why in seats["note"]
        assert s.condition()["status"] == "False"

        s.stop()
        s.requests()
        s.start()  # ready before the broken one has ended
        s.machine.plug("1-3")
        s.wait_capacity("3", 10 + SLACK)
        assert s.record() == {DONGLE: 3, SEATS: 7}
        assert s.capacity(SEATS) == "7"


def program(s: Service, script: str) -> None:
    new = s.folder / "seats.new"
    new.write_text(f"#!/bin/sh\n{script}\n")
    new.chmod(0o755)
    new.rename(s.folder / "seats")


def test_one_that_is_slow_delays_no_other(cluster: Cluster) -> None:
    """Not even when the service starts; and each is written once."""
    with service(cluster, usb_device("1-1")) as s:
        done = s.folder / "done"
        program(s, f"until [ -e {done} ]; do sleep 0.1; done; echo 7")
        s.configure(DONGLES + f'[resources."{SEATS}"]\nexec = {{ command = ["{s.folder}/seats"], timeout = "5min" }}\n')
        s.start(settled=False)
        s.wait_capacity("1", 3 + SLACK)
        assert s.condition() == {}, "its first word comes when all is read"
        done.touch()
        s.wait_capacity("7", 1 + SLACK, SEATS)
        s.wait_looks(1)
        assert s.condition()["status"] == "True"
        s.requests()
        done.unlink()
        s.machine.plug("1-2")
        s.wait_capacity("2", 4 + SLACK)
        done.touch()
        s.wait_looks(2)
        assert s.asked() == ["get nodes", "patch nodes/status", "create events"]
