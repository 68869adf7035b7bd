"""What the service tells of itself: status, and observe."""

from __future__ import annotations

import re

from tests.cluster.controlplane import Cluster
from tests.cluster.service import DONGLE, DONGLES, SLACK, service
from tests.unit.machines import usb_device

SEATS, GPU = "example.com/seats", "example.com/gpu"
OTHERS = (
    f'[resources."{SEATS}"]\nfile = {{ path = "/no/such/file" }}\n[resources."{GPU}"]\nstatic = {{ quantity = 2 }}\n'
)


def test_status(cluster: Cluster) -> None:
    with service(cluster, usb_device("1-1"), usb_device("1-2")) as s:
        done = s.cli("status")
        assert (done.returncode, done.stdout.splitlines()[0]) == (1, "capacityd does not run")
        cluster.set_capacity(s.node, {GPU: "9"})
        s.configure(DONGLES + OTHERS, lower_after="9min")
        s.start()
        s.machine.unplug("1-2")
        s.wait(lambda: s.seen()["held"], 3 + SLACK, "what is lower is held back")
        cluster.admin.patch(f"/api/v1/nodes/{s.node}/status", {"status": {"allocatable": {DONGLE: "2"}}})
        done = s.cli("status")
        assert done.returncode == 4
        assert s.process is not None
        lines = done.stdout.splitlines()
        assert lines[0] == f"capacityd runs (process {s.process.pid}), but not all is well; Node {s.node}"
        looked, asked, wrote, again = lines[1].split(", ")
        assert looked.startswith("looked ")
        assert looked.endswith(" s ago (hardware)")
        assert asked.startswith("asked the Node ")
        assert wrote.startswith("wrote ")
        assert re.fullmatch("looks again in [2-9] min or when something changes", again)
        rows = {line.split()[0]: line.split(maxsplit=4)[1:] for line in lines if line.startswith("example.com/")}
        assert rows[DONGLE][:2] == ["1", "2"]
        assert rows[DONGLE][3] == "lowered to 1 in 9 min, unless it comes back"
        assert rows[SEATS] == ["unknown", "-", "-"]
        assert rows[GPU] == ["2", "9", "-", "refused"]
        assert f"! {GPU}: refused: not published by capacityd; adopt = true takes it over" in lines
        assert any(line.startswith(f"! {SEATS}: unknown: ") and "/no/such/file" in line for line in lines)
        found = s.status()
        assert found["service"]["pid"] == s.process.pid
        assert {r["name"]: r["wrong"] for r in found["resources"]} == {DONGLE: False, SEATS: True, GPU: True}
        assert s.told("STATUS=")
        assert "the API server" not in s.cli("status").stdout
        s.unreach()
        s.machine.plug("1-3")
        s.machine.plug("1-4")
        s.wait(lambda: s.seen()["trouble"], 3 + SLACK, "it can't be reached")
        assert "! the API server" in s.cli("status").stdout


def test_observe(cluster: Cluster) -> None:
    """All is reported, and nothing written."""
    with service(cluster, usb_device("1-1")) as s:
        assert s.cli("apply").returncode == 0
        before = cluster.node(s.node)
        s.configure(DONGLES + OTHERS, "observe = true", lower_after="1s")
        s.requests()
        s.start()
        s.machine.plug("1-2")
        s.wait(lambda: s.seen()["readings"][0]["quantity"] == 2, 3 + SLACK, "it looks")
        s.wait_looks(2)
        resources = {r["name"]: r for r in s.status()["resources"]}
        assert (resources[DONGLE]["reading"], resources[DONGLE]["published"], resources[DONGLE]["capacity"]) == (
            2,
            1,
            "1",
        )
        assert resources[DONGLE]["note"] == "would be 2: the hardware changed"
        assert resources[GPU]["note"] == "would be 2: found"
        assert s.cli("status").stdout.splitlines()[0].endswith(f"; Node {s.node} is only observed (observe = true)")
        s.machine.unplug("1-1")
        s.machine.unplug("1-2")
        s.wait(lambda: s.seen()["readings"][0]["outcome"] == "absent" and not s.seen()["held"], 9 + SLACK, "it looks")
        assert {r.verb for r in s.requests()} == {"create", "get"}
        assert cluster.node(s.node) == before
