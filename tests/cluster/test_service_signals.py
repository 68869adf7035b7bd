"""Signals to the service, and commands that a user runs while the service is running."""

from __future__ import annotations

import signal
import threading

from tests.cluster import faults
from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE
from tests.cluster.proxy import Proxy
from tests.cluster.service import DONGLES, Service

SEATS = "example.com/seats"
STOP = 12.0
"""Seconds that the service may take to end: less than systemd's TimeoutStopSec."""


def test_sighup_reloads_and_sigterm_leaves_the_node_as_it_is(cluster: Cluster, s: Service) -> None:
    s.start()
    s.configure(DONGLES + f'[resources."{SEATS}"]\nstatic = {{ quantity = 7 }}\n')
    s.reload()
    assert (s.capacity(), s.capacity(SEATS)) == ("1", "7")
    (reloading,) = s.notifications.times("RELOADING=1")
    started, reloaded = s.notifications.times("READY=1")
    assert started < reloading < reloaded
    assert len(s.notifications.times("MONOTONIC_USEC=")) == 1
    before = cluster.node(s.node)
    s.stop(deadline=STOP)
    assert s.process is not None
    assert s.process.process.returncode == 0
    assert s.notifications.times("STOPPING=1")
    assert cluster.node(s.node) == before
    assert s.machine.processes() == []


def test_the_service_is_killed(proxied: Service, proxy: Proxy) -> None:
    s = proxied
    s.requests()
    go = threading.Event()
    held = proxy.fault(faults.hold(go), "PATCH")
    s.machine.plug("1-2")
    s.wait(lambda: held.matched, PATIENCE, "a pass is under way")
    s.stop(signal.SIGKILL)
    go.set()
    s.start()
    s.wait_capacity("2")
    assert s.requested().count("patch nodes/status") == 1, "no double write"
    assert s.last_applied() == {DONGLE: 2}


def test_commands_by_hand_beside_it(s: Service) -> None:
    s.start()
    assert s.process is not None
    for command, instead in (("apply", "systemctl reload capacityd"), ("withdraw", "systemctl stop capacityd")):
        refused = s.cli(command)
        assert refused.returncode == 2
        assert f"PID {s.process.pid}" in refused.stderr
        assert instead in refused.stderr
    assert s.cli("plan").returncode == 0
    second = s.cli("run")
    assert second.returncode == 1
    assert "already running" in second.stderr
    assert s.last_applied() == {DONGLE: 1}
    s.stop()
    assert s.cli("withdraw").returncode == 0
    assert s.last_applied() == {}
