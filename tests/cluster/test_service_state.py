"""The service's reports: status, and observe mode."""

from __future__ import annotations

import re

from capacityd.model.reading import Absent, reading_text
from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.service import DONGLES, PROMPT, Service, service
from tests.support.machines import usb_device

SEATS, GPU = "example.com/seats", "example.com/gpu"
OTHERS = (
    f'[resources."{SEATS}"]\nfile = {{ path = "/no/such/file" }}\n[resources."{GPU}"]\nstatic = {{ quantity = 2 }}\n'
)


def test_status(cluster: Cluster) -> None:
    with service(cluster, usb_device("1-1"), usb_device("1-2")) as s:
        done = s.cli("status")
        assert (done.returncode, done.stdout.splitlines()[0]) == (1, "capacityd is not running")
        cluster.set_capacity(s.node, {GPU: "9"})
        s.configure(DONGLES + OTHERS, lower_after="9min")
        s.start()
        s.machine.unplug("1-2")
        s.wait(lambda: s.held_back() == {DONGLE}, PROMPT, "what is lower is held back")
        done = s.cli("status")
        assert done.returncode == 4
        assert s.process is not None
        lines = done.stdout.splitlines()
        assert lines[0] == f"capacityd is running (PID {s.process.pid}), degraded; Node {s.node}"
        last, read, written, again = lines[1].split(", ")
        assert last.startswith("last pass ")
        assert last.endswith(" s ago (hardware)")
        assert read.startswith("Node read ")
        assert written.startswith("written ")
        assert re.fullmatch("next pass in [0-9]+ s or after an event", again)
        used = re.fullmatch(r"uses (\d+) MiB of memory, has used \d+\.\d s of CPU time", lines[2])
        assert used
        assert 5 < int(used[1]) < 40
        rows = {line.split()[0]: line.split(maxsplit=4)[1:] for line in lines if line.startswith("example.com/")}
        assert rows[DONGLE][:2] == ["1", "2"]
        assert re.fullmatch(r"held back for [0-9]+ min more, in case it comes back \(lower_after\)", rows[DONGLE][3])
        assert rows[SEATS] == ["unknown", "-", "-", "-"]
        assert rows[GPU] == ["2", "9", "-", "refused"]
        assert f"! {GPU}: refused: not published by capacityd; adopt = true takes it over" in lines
        assert any(line.startswith(f"! {SEATS}: unknown: ") and "/no/such/file" in line for line in lines)
        status = s.status()
        assert status["service"]["pid"] == s.process.pid
        assert 5 << 20 < status["service"]["memory_bytes"] < 40 << 20
        assert status["service"]["cpu_seconds"] > 0.1, "its workers' time is in it"
        assert {r["name"]: r["degraded"] for r in status["resources"]} == {DONGLE: False, SEATS: True, GPU: True}
        assert s.notifications.times("STATUS=")
        assert "API server" not in s.cli("status").stdout
        s.disconnect()
        s.machine.plug("1-3")
        s.machine.plug("1-4")
        s.wait(lambda: s.last_pass().error, PROMPT, "it can't be reached")
        assert "! API server" in s.cli("status").stdout


def test_observe(cluster: Cluster, s: Service) -> None:
    """All is reported, and nothing written; what was published before can be withdrawn."""
    assert s.cli("apply").returncode == 0
    before = cluster.node(s.node)
    s.configure(DONGLES + OTHERS, "observe = true", lower_after="1s")
    s.requests()
    s.start()
    s.machine.plug("1-2")
    s.wait(lambda: reading_text(s.last_pass().readings[DONGLE]) == "2", PROMPT, "a pass")
    resources = {r["name"]: r for r in s.status()["resources"]}
    assert (resources[DONGLE]["reading"], resources[DONGLE]["published"], resources[DONGLE]["capacity"]) == (
        2,
        1,
        "1",
    )
    assert resources[DONGLE]["note"] == "would be 2: the reading changed"
    assert resources[GPU]["note"] == "would be 2: found"
    assert s.cli("status").stdout.splitlines()[0].endswith(f"; Node {s.node} is not written (observe = true)")
    s.machine.unplug("1-1")
    s.machine.unplug("1-2")
    s.wait(
        lambda: isinstance(s.last_pass().readings[DONGLE], Absent) and not s.held_back(),
        PROMPT,
        "a pass",
    )
    assert {r.verb for r in s.requests()} == {"create", "get"}
    assert cluster.node(s.node) == before
    assert s.cli("withdraw").returncode == 0, "it would not publish again"
    node = cluster.node(s.node)
    assert (s.capacity(), s.condition(), node["metadata"].get("annotations", {})) == (None, {}, {})
