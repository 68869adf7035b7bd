"""Nothing changes: nothing is asked of the API server."""

from __future__ import annotations

import time
from itertools import pairwise

from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE
from tests.cluster.service import DONGLES, SLACK, service
from tests.support.machines import usb_device


def test_what_does_not_concern_us_causes_no_request(cluster: Cluster) -> None:
    with service(cluster, usb_device("1-1")) as s:
        marker = s.folder / "seats"
        marker.write_text("7")
        s.configure(DONGLES + f'[resources."example.com/seats"]\nfile = {{ path = "{marker}" }}\n')
        s.start()
        s.requests()
        looks = s.looks()
        s.machine.plug("1-2", vendor="1234")
        s.wait_looks(1, looks)
        assert s.seen()["reasons"] == ["hardware"], "it was heard, and matches nothing"
        for number in range(50):
            s.machine.event("add", f"/sys/devices/virtual/block/loop{number}", "block", "disk")
            s.machine.event("add", f"/sys/devices/virtual/net/veth{number}", "net")
        marker.write_text("7\n")
        s.wait_looks(2, looks)
        assert s.seen()["reasons"] == ["file"], "events of other subsystems are not heard at all"
        assert s.asked() == []


def test_the_resync_is_one_get_at_a_jittered_interval(cluster: Cluster) -> None:
    with service(cluster, usb_device("1-1")) as s:
        s.configure(resync="1s")
        s.start()
        s.requests()
        looks = s.looks()
        s.wait_looks(4, looks)
        asked = s.asked()
        assert set(asked) == {"get nodes"}
        assert 4 <= len(asked) <= 5
        moments = s.told("STATUS=")[-4:]
        pauses = [later.at - earlier.at for earlier, later in pairwise(moments)]
        assert all(pause >= 0.8 for pause in pauses)
        assert all(later.since(earlier) < 1.2 + SLACK for earlier, later in pairwise(moments))
        assert len({round(pause, 3) for pause in pauses}) > 1


def test_the_default_resync_is_far_away(cluster: Cluster) -> None:
    with service(cluster, usb_device("1-1")) as s:
        s.start()

        def left() -> float:
            return float(s.status()["next_reconcile"]) - time.time()

        s.wait(lambda: left() > 60, 15 + PATIENCE, "it has compared allocatable")
        assert 0.8 * 3600 - 60 < left() <= 1.2 * 3600
