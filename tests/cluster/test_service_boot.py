"""The service starts: on a node that is not one yet, on one where nothing is to be done, while devices come up."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

from capacityd.linux.clock import uptime
from capacityd.model.waits import WaitReason
from capacityd.service.schedule import DEBOUNCE
from tests.cluster.agent import DONGLE
from tests.cluster.audit import Request
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import node_user
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import PROMPT, PUBLISHED, Service, service
from tests.support.machines import usb_device


def test_kubeconfig_server_and_node_may_come_later(cluster: Cluster) -> None:
    name = cluster.node_name()
    with service(cluster, usb_device("1-1"), node=name) as s:
        s.kubeconfig.unlink()
        s.disconnect()
        s.start()  # it is ready after its first probe
        assert str(s.kubeconfig) in s.last_pass().error
        s.join()
        s.wait(lambda: "refused the connection" in s.last_pass().error, PROMPT, "it tries to connect")
        s.connect()
        s.wait(lambda: "Has the kubelet registered?" in s.last_pass().error, PROMPT, "it requests the Node")
        assert "patch nodes/status" not in s.requested()
        cluster.create_node(name)
        s.wait_capacity("1")
        s.wait(lambda: "recovered" in s.log(), PROMPT, "there is no error left")
        assert s.log().count("Has the kubelet registered?") == 1, "each error is logged once"


def test_a_node_of_which_no_event_tells(cluster: Cluster) -> None:
    """It is registered some time after the kubeconfig: one worker waits for it, and makes no pass until then."""
    name = cluster.node_name()
    with service(cluster, usb_device("1-1"), node=name) as s:
        s.start()
        passes = s.passes()
        asked = list[Request]()

        def asks_again() -> bool:
            asked.extend(s.requests())
            return len(asked) >= 5

        wait_until(asks_again, PATIENCE, "it requests the Node again and again")
        requests = {(r.verb, r.resource, r.code) for r in asked}
        assert requests == {("create", "selfsubjectreviews", 201), ("get", "nodes", 404)}
        assert s.passes() == passes
        cluster.create_node(name)
        s.wait_capacity("1")
        s.wait_passes(1, passes)
        assert [r.verb for r in s.requests() if r.code != 404] == ["get", "get", "patch", "create"]
        cluster.admin.delete(f"/api/v1/nodes/{name}")
        s.reload()
        s.wait(lambda: "Has the kubelet registered?" in s.last_pass().error, PROMPT, "it waits again")
        s.reload()


def test_the_machine_joins(cluster: Cluster, s: Service) -> None:
    """Its kubeconfig comes first, the certificate in it later, as a link, as the kubelet makes it. Both are events."""
    s.kubeconfig.unlink()
    s.start()
    why = f"the kubeconfig, {s.kubeconfig}, does not exist. Has the kubelet joined the cluster?"
    assert s.notifications.times(f"STATUS=waiting for a kubeconfig: {why}")
    assert 600 - PATIENCE < s.status()["next_reconcile"] - time.time() <= 900, "there is nothing to be tried"
    pair = s.folder / "pki" / "kubelet-client-current.pem"
    made = cluster.kubeconfig(node_user(s.node), s.folder / "joined", credentials="certificate")
    document = json.loads(made.read_text())
    (user,) = (entry["user"] for entry in document["users"])
    now = Path(user["client-certificate"])
    user |= {"client-certificate": str(pair), "client-key": str(pair)}
    passes = s.passes()
    new = s.folder / "new"
    new.write_text(json.dumps(document))
    new.rename(s.kubeconfig)
    s.wait(lambda: str(pair) in s.last_pass().error, PROMPT, "it has read the kubeconfig")
    s.wait_passes(2, passes)  # the second sees what may have come before it listened for the certificate
    # In one step, as a pass may begin between two.
    made_beside = s.folder / "pki.new"
    made_beside.mkdir()
    (made_beside / pair.name).symlink_to(now)
    made_beside.rename(pair.parent)
    s.wait_capacity("1")
    s.wait(lambda: "recovered" in s.log(), PROMPT, "there is no error left")
    assert s.requested() == ["create selfsubjectreviews", *PUBLISHED]


def test_nothing_to_change(cluster: Cluster, s: Service) -> None:
    assert s.cli("apply").returncode == 0
    before = cluster.node(s.node)["metadata"]["resourceVersion"]
    s.requests()
    s.start()
    assert s.requested() == ["create selfsubjectreviews", "get nodes"]
    assert cluster.node(s.node)["metadata"]["resourceVersion"] == before


def first_pass_in(s: Service) -> float:
    """Seconds until the pass that first reads the Node."""
    (wait,) = s.last_pass().waits
    assert wait.reason is WaitReason.START_JITTER
    return wait.until - uptime()


def test_a_delayed_start(s: Service) -> None:
    """It is ready after its first probe, sends no request for now, and then makes the same requests."""
    s.configure(start_jitter="1h")
    s.start()
    while first_pass_in(s) < 60:  # too soon for what follows: once in sixty times
        s.stop()
        s.start()
    assert [r["reading"] for r in s.status()["resources"]] == [1]
    passes, woken = s.passes(), len(s.notifications.times("WATCHDOG=1"))
    s.machine.plug("1-2")
    s.wait(lambda: len(s.notifications.times("WATCHDOG=1")) > woken, PROMPT, "it receives the event")
    assert s.passes() == passes
    assert s.requested() == []
    s.stop()
    s.configure(start_jitter="1s")
    s.start()
    s.wait_capacity("2")
    assert s.requested() == ["create selfsubjectreviews", *PUBLISHED]


def test_devices_that_come_up_while_the_machine_boots_make_one_write(cluster: Cluster) -> None:
    """If each comes soon after the one before it; on a machine that is too busy for that the test begins anew."""
    wait_until(lambda: four_come_up(cluster), PATIENCE, "four devices come up in quick succession")


def four_come_up(cluster: Cluster) -> bool:
    """Whether they did so in time for one write, which is checked then."""
    with service(cluster, uptime=5) as s:
        s.configure(lower_after="10s")
        s.start(ready=False, settled=False)
        s.machine.plug("1-1")
        s.wait_notification("STATUS=waiting")  # from now on it listens
        before, slow = time.monotonic(), False
        for port in ("1-2", "1-3", "1-4"):
            passes, now = len(s.notifications.times("WATCHDOG=1")), time.monotonic()
            s.machine.plug(port)
            slow, before = slow or time.monotonic() - before > DEBOUNCE / 2, now
            s.wait(lambda before=passes: len(s.notifications.times("WATCHDOG=1")) > before, PROMPT, "it runs")  # type: ignore[misc]
        s.wait_notification("READY=1")
        s.wait_capacity("4")
        s.wait_passes(1)
        if not slow:
            assert s.requested() == ["create selfsubjectreviews", *PUBLISHED]
            assert s.events() == [f"{DONGLE}: none → 4 (found)"]
        return not slow


def test_a_device_that_is_late_at_boot_lowers_nothing(cluster: Cluster) -> None:
    """Published before the reboot: 2. At boot one is there, the other comes up after lower_after."""
    with service(cluster, usb_device("1-1"), uptime=5) as s:
        s.machine.plug("1-2", events=False)
        assert s.cli("apply").returncode == 0
        s.machine.unplug("1-2", events=False)
        s.requests()
        s.start()
        assert s.capacity() == "2"
        (held,) = s.status()["resources"]
        assert held["reading"] == 1
        # 60 s while the machine boots, not the 1 s that is configured.
        assert re.fullmatch(r"held back for ([2-5].|60) s more, in case it comes back \(lower_after\)", held["note"])
        s.machine.plug("1-2")
        s.wait(lambda: not s.held_back(), PROMPT, "nothing is held back any more")
        assert s.requested() == ["create selfsubjectreviews", "get nodes"]
        assert s.capacity() == "2"
