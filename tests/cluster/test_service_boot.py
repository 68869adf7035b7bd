"""The service starts before its machine joins a cluster, with nothing to change, and before a device has come up."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from pathlib import Path

from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import node_user
from tests.cluster.processes import PATIENCE
from tests.cluster.service import FIRST, GET, PROMPT, WROTE_FIRST, Service, service
from tests.support.machines import usb_device


def test_the_machine_joins(cluster: Cluster) -> None:
    """First the kubeconfig appears, then its certificate (a link, as the kubelet makes it). Both are events.

    Then the API server becomes reachable. The Node appears last; the service watches for it.
    """
    name = cluster.node_name()
    with service(cluster, usb_device("1-1"), node=name) as s:
        s.kubeconfig.unlink()
        s.disconnect()
        s.start()  # the service is ready after its first probe
        why = f"the kubeconfig, {s.kubeconfig}, does not exist. Has the kubelet joined the cluster?"
        assert s.notifications.times(f"STATUS=waiting for a kubeconfig: {why}")
        assert s.status()["next_reconcile"] - time.time() <= 60, "an event may have been lost"
        pair = s.folder / "pki" / "kubelet-client-current.pem"
        made = cluster.kubeconfig(node_user(name), s.folder / "joined", credentials="certificate")
        document = json.loads(made.read_text())
        (user,) = (entry["user"] for entry in document["users"])
        now = Path(user["client-certificate"])
        user |= {"client-certificate": str(pair), "client-key": str(pair)}
        passes = s.passes()
        new = s.folder / "new"
        new.write_text(json.dumps(document))
        new.rename(s.kubeconfig)
        s.wait(lambda: "client-certificate named in" in s.last_pass().error, PROMPT, "it has read the kubeconfig")
        s.wait_passes(2, passes)  # the second pass sees a certificate that came before the service watched its path
        # In one step, because a pass may begin between two steps.
        made_beside = s.folder / "pki.new"
        made_beside.mkdir()
        (made_beside / pair.name).symlink_to(now)
        made_beside.rename(pair.parent)
        s.wait(lambda: "refused the connection" in s.last_pass().error, PROMPT, "it tries to connect")
        s.connect()
        s.wait(lambda: "Has the kubelet registered?" in s.last_pass().error, PROMPT, "it requests the Node")
        s.wait(lambda: s.watched, PATIENCE, "it watches for the Node")
        counts = Counter((r.verb, r.resource, r.code) for r in s.requests() if r.verb != "watch")
        # After a denied GET, the next pass asks again who it is. The watcher makes a GET as well if the API server says
        # nothing about a Node that does not exist.
        assert set(counts) == {("create", "selfsubjectreviews", 201), ("get", "nodes", 404)}
        assert all(count in (1, 2) for count in counts.values()), counts
        cluster.create_node(name)
        s.wait_capacity("1")
        assert [r for r in s.requested() if r not in FIRST] == WROTE_FIRST
        s.wait(lambda: "recovered" in s.log(), PROMPT, "there is no error left")
        assert s.log().count("Has the kubelet registered?") == 1, "each error is logged once"
        cluster.admin.delete(f"/api/v1/nodes/{name}")
        s.wait(lambda: "Has the kubelet registered?" in s.last_pass().error, PROMPT, "it waits again")
        s.reload()


def test_a_start_with_nothing_to_change_writes_nothing(cluster: Cluster, s: Service) -> None:
    assert s.cli("apply").returncode == 0
    before = cluster.node(s.node)["metadata"]["resourceVersion"]
    s.requests()
    s.start()
    assert s.requested() == FIRST
    assert cluster.node(s.node)["metadata"]["resourceVersion"] == before


def test_a_device_that_is_late_at_boot_lowers_nothing(cluster: Cluster) -> None:
    """Two devices are published before the reboot. At boot one is present; the other comes up after lower_after."""
    with service(cluster, usb_device("1-1"), uptime=5) as s:
        s.machine.plug("1-2", events=False)
        assert s.cli("apply").returncode == 0
        s.machine.unplug("1-2", events=False)
        s.requests()
        s.start()
        assert s.capacity() == "2"
        (held,) = s.status()["resources"]
        assert held["reading"] == 1
        # 60 s while the machine boots, not the configured 1 s.
        assert re.fullmatch(r"held back for ([2-5].|60) s more, in case it comes back \(lower_after\)", held["note"])
        s.machine.plug("1-2")
        s.wait(lambda: not s.held_back(), PROMPT, "nothing is held back any more")
        assert s.requested() == [*FIRST, GET]
        assert s.capacity() == "2"
