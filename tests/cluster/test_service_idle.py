"""Nothing changes: no request is made."""

from __future__ import annotations

import time

from capacityd.model.reasons import PassReason
from tests.cluster.processes import PATIENCE
from tests.cluster.service import DONGLES, PUBLISHED, Service
from tests.support.machines import usb_path


def test_what_does_not_concern_us_causes_no_request(s: Service) -> None:
    """And the resync, by default once an hour, is far away."""
    marker = s.folder / "seats"
    marker.write_text("7")
    s.configure(DONGLES + f'[resources."example.com/seats"]\nfile = {{ path = "{marker}" }}\n')
    s.start()
    assert 0.8 * 3600 - PATIENCE < s.status()["next_reconcile"] - time.time() <= 1.2 * 3600
    s.requests()
    passes = s.passes()
    s.machine.plug("1-2", vendor="1234", events=False)
    s.machine.event("add", usb_path("1-2"), "usb", "usb_device")  # just one, so that there is one pass
    s.wait_passes(1, passes)
    assert s.last_pass().reasons == (PassReason.HARDWARE,), "its event was received, and it matches nothing"
    for number in range(50):
        s.machine.event("add", f"/sys/devices/virtual/block/loop{number}", "block", "disk")
        s.machine.event("add", f"/sys/devices/virtual/net/veth{number}", "net")
    new = s.folder / "seats.new"
    new.write_text("7\n")
    new.rename(marker)
    s.wait_passes(2, passes)
    assert s.last_pass().reasons == (PassReason.FILE,), "events of other subsystems are not received at all"
    assert s.requested() == []


def test_a_resync_is_one_get(s: Service) -> None:
    s.configure(resync="1s")
    began = time.monotonic()
    s.start()
    s.wait_passes(5)
    s.stop()
    resyncs = s.passes() - 1
    assert resyncs <= (time.monotonic() - began) / 0.8
    requested = s.requested()
    # One more may have been killed on its way.
    assert requested in [["create selfsubjectreviews", *PUBLISHED, *["get nodes"] * n] for n in (resyncs, resyncs + 1)]
