"""The life of a node from boot to withdrawal, with a real kubelet and scheduler."""

from __future__ import annotations

import pytest

from tests.cluster.admission import create_denial, delete_denial, is_denied
from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.kubelet import Kubelet
from tests.cluster.pods import out_of, run_pod
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import DONGLES, PROMPT, service
from tests.support.machines import usb_device

pytestmark = pytest.mark.protocol


@pytest.mark.short
def test_a_node_from_its_boot_to_withdrawal(cluster: Cluster, kubelet: Kubelet) -> None:
    """Each kind of cause changes a published number once. The test checks the effects on pods."""
    name, seats = kubelet.name, "example.com/seats"
    dongles = [usb_device(f"1-{n}") for n in range(1, 5)]
    with service(cluster, *dongles, node=name, around=kubelet.inside([])) as s:
        file = s.folder / "seats"
        file.write_text("7")
        s.configure(f'{DONGLES}[resources."{seats}"]\nfile = {{ path = "{file}" }}\n')

        s.start()
        s.wait(lambda: "Has the kubelet registered?" in s.last_pass().error, PROMPT, "it waits for its Node")
        kubelet.start()
        s.wait_capacity("4")
        assert s.capacity(seats) == "7"
        wait_until(lambda: cluster.allocatable(name).get(DONGLE) == "4", PATIENCE, "allocatable follows")

        three = run_pod(cluster, name, DONGLE, "3")
        two = cluster.create_pod(name, {DONGLE: "2"})
        wait_until(lambda: f"Insufficient {DONGLE}" in cluster.unschedulable(two), PATIENCE, "two more are too many")
        s.machine.plug("1-5")
        s.wait_capacity("5")
        wait_until(lambda: cluster.pod_phase(two) == "Running", PATIENCE, "with a fifth they are not")
        s.machine.unplug("1-5")
        s.wait_capacity("4")
        assert [cluster.pod_phase(pod) for pod in (three, two)] == ["Running", "Running"], "nothing is evicted"

        kubelet.restart()
        stopped = wait_until(
            lambda: [pod for pod in (three, two) if out_of(cluster, pod, DONGLE)],
            PATIENCE,
            "what no longer fits is stopped",
        )
        assert len(stopped) == 1

        kubelet.restart(zeroing=True)
        s.wait_capacity("4")
        s.wait(lambda: any("restored" in event for event in s.events()), PROMPT, "an Event has the reason")
        wait_until(lambda: cluster.allocatable(name).get(DONGLE) == "4", PATIENCE, "allocatable follows")

        create_denial(cluster, f"story-{name}", name, DONGLE)
        wait_until(lambda: is_denied(cluster, name, DONGLE), PATIENCE, "the API server has noticed the policy")
        s.machine.plug("1-5")
        file.write_text("8")
        s.wait_capacity("8", seats)
        s.wait(lambda: s.condition().get("reason") == "Denied", PROMPT, "the condition has it")
        assert (s.condition()["status"], s.capacity()) == ("False", "4")
        assert "not today" in s.condition()["message"]
        delete_denial(cluster, f"story-{name}")
        wait_until(
            lambda: not is_denied(cluster, name, DONGLE), PATIENCE, "the API server has noticed that the policy is gone"
        )
        s.reload()
        s.wait_capacity("5")
        s.wait(lambda: s.condition()["status"] == "True", PROMPT, "nothing is wrong any more")

        # Seats, not dongles: the dongles have changed so often that the rate limit would delay this change.
        cluster.set_capacity(name, {seats: "9", "example.com/theirs": "1"})
        s.reload()
        s.wait_capacity("8", seats)
        s.stop()
        assert s.cli("withdraw").returncode == 0
        assert {key for key in cluster.capacity(name) if key.startswith("example.com/")} == {"example.com/theirs"}
        assert not s.condition()
        assert s.published() == {}
