"""Signals, and commands by hand beside the running service."""

from __future__ import annotations

import signal

from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE
from tests.cluster.service import DONGLES, PROMPT, Service
from tests.cluster.test_service_own_faults import STOP

SEATS = "example.com/seats"


def hanging(s: Service) -> str:
    """A resource whose program hangs, as does the program's child. A file shows that the program runs."""
    program = s.folder / "hanging"
    program.write_text(f"#!/bin/sh\nsetsid sleep 1000 &\ntouch {s.folder}/runs\nsleep 1000\n")
    program.chmod(0o755)
    return f'[resources."{SEATS}"]\nexec = {{ command = ["{program}"], timeout = "100s" }}\n'


def test_sigterm_ends_it_and_leaves_the_node_as_it_is(cluster: Cluster, s: Service) -> None:
    s.start()
    before = cluster.node(s.node)
    s.stop(deadline=STOP)
    assert s.process is not None
    assert s.process.process.returncode == 0
    assert s.notifications.times("STOPPING=1")
    assert cluster.node(s.node) == before
    assert s.machine.processes() == []


def test_sigterm_with_a_detector_that_hangs(s: Service) -> None:
    s.configure(DONGLES + hanging(s))
    s.start(ready=False, settled=False)
    s.wait((s.folder / "runs").exists, PATIENCE, "the program runs")
    s.wait(lambda: len(s.machine.processes()) >= 5, PATIENCE, "all that it starts runs")
    s.stop(deadline=STOP)
    assert s.machine.processes() == []


def test_sighup_reloads(s: Service) -> None:
    s.start()
    s.configure(DONGLES + f'[resources."{SEATS}"]\nstatic = {{ quantity = 7 }}\n')
    s.reload()
    assert s.capacity(SEATS) == "7"
    (reloading,) = s.notifications.times("RELOADING=1")
    ready = s.notifications.times("READY=1")
    assert len(ready) == 2
    assert ready[0] < reloading < ready[1]
    assert len(s.notifications.times("MONOTONIC_USEC=")) == 1
    assert s.capacity() == "1"


def test_reloads_delay_no_pass(s: Service) -> None:
    """SIGHUP as often as it is looked at. The first passes of a device that comes meanwhile are made all the same."""
    s.start()
    s.machine.plug("1-2")

    def raised() -> bool:
        assert s.process is not None
        s.process.send(signal.SIGHUP)
        return s.capacity() == "2"

    s.wait(raised, PROMPT, "it is published while it is reloaded again and again")


def test_commands_by_hand_beside_it(s: Service) -> None:
    s.start()
    s.machine.plug("1-2")
    done = s.cli("apply")  # at the same time as the service
    assert done.returncode == 0, done.stderr
    s.wait(lambda: s.published() == {DONGLE: 2}, PATIENCE, "the service has made its pass, too")
    assert s.capacity() == "2"
    assert [r.code for r in s.requests() if r.verb == "patch"] == [200, 200], "one of the two found it done"
    refused = s.cli("withdraw")
    assert refused.returncode == 2
    assert s.process is not None
    assert f"PID {s.process.pid}" in refused.stderr
    second = s.cli("run")
    assert second.returncode == 1
    assert "already running" in second.stderr
    assert s.last_applied() == {DONGLE: 2}
    s.stop()
    assert s.cli("withdraw").returncode == 0
    assert s.last_applied() == {}
