"""The life of a node from boot to withdrawal, with a real kubelet and scheduler."""

from __future__ import annotations

from itertools import groupby

import pytest

from tests.cluster.admission import create_denial, delete_denial, is_denied
from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.kubelet import Kubelet
from tests.cluster.nodewatch import watch_node, wrongly_true_after_others
from tests.cluster.pods import out_of, run_pod
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import DONGLES, PROMPT, service_on_machine
from tests.support.machines import usb_device

pytestmark = pytest.mark.protocol


@pytest.mark.short
def test_a_node_from_its_boot_to_withdrawal(cluster: Cluster, kubelet: Kubelet) -> None:
    """Each kind of cause changes a published number once. The test checks the effects on pods.

    In every version of the Node, the condition is True only if all that is published is allocatable.
    """
    name, seats = kubelet.name, "example.com/seats"
    dongles = [usb_device(f"1-{port}") for port in range(1, 5)]
    with watch_node(cluster, name) as watch, service_on_machine(cluster, *dongles, kubelet=kubelet) as service:
        file = service.folder / "seats"
        file.write_text("7")
        service.configure(f'{DONGLES}[resources."{seats}"]\nfile = {{ path = "{file}" }}\n')

        service.start()
        service.wait_error("Has the kubelet registered?")
        kubelet.start()
        service.wait_capacity("4")
        assert service.capacity(seats) == "7"
        wait_until(lambda: cluster.allocatable(name).get(DONGLE) == "4", PATIENCE, "allocatable follows")

        three = run_pod(cluster, name, DONGLE, "3")
        two = cluster.create_pod(name, {DONGLE: "2"})
        wait_until(lambda: f"Insufficient {DONGLE}" in cluster.unschedulable(two), PATIENCE, "two more are too many")
        service.machine.plug("1-5")
        service.wait_capacity("5")
        wait_until(lambda: cluster.pod_phase(two) == "Running", PATIENCE, "with a fifth, there are enough")
        service.machine.unplug("1-5")
        service.wait_capacity("4")
        assert [cluster.pod_phase(pod) for pod in (three, two)] == ["Running", "Running"], "nothing is evicted"

        kubelet.restart()

        def stopped() -> list[str]:
            return [pod for pod in (three, two) if out_of(cluster, pod, DONGLE)]

        assert len(wait_until(stopped, PATIENCE, "what no longer fits is stopped")) == 1

        kubelet.restart(zeroing=True)
        service.wait_capacity("4")
        service.wait(lambda: any("restored" in event for event in service.events()), PROMPT, "an Event has the reason")
        service.wait_true("4")

        kubelet.stop()
        cluster.admin.delete(f"/api/v1/nodes/{name}")
        kubelet.start()
        service.wait_true("4")

        create_denial(cluster, f"story-{name}", name, DONGLE)
        wait_until(lambda: is_denied(cluster, name, DONGLE), PATIENCE, "the API server has noticed the policy")
        service.machine.plug("1-5")
        file.write_text("8")
        service.wait_capacity("8", seats)
        service.wait(lambda: service.condition().get("reason") == "Denied", PROMPT, "the condition says so")
        assert (service.condition()["status"], service.capacity()) == ("False", "4")
        assert "not today" in service.condition()["message"]
        delete_denial(cluster, f"story-{name}")
        wait_until(
            lambda: not is_denied(cluster, name, DONGLE), PATIENCE, "the API server has noticed that the policy is gone"
        )
        service.reload()
        service.wait_true("5")

        # Seats, not dongles: the dongles have changed so often that the rate limit would delay this change.
        cluster.set_capacity(name, {seats: "9", "example.com/theirs": "1"})
        service.reload()
        service.wait_capacity("8", seats)
        service.stop()
        assert service.cli("withdraw").returncode == 0
        assert {key for key in cluster.capacity(name) if key.startswith("example.com/")} == {"example.com/theirs"}
        assert not service.condition()
        assert service.published() == {}
    quantities = [version.allocatable.get(DONGLE) for version in watch if version.condition.get("status") == "True"]
    not_zeroed = [quantity for quantity in quantities if quantity != "0"]
    assert [quantity for quantity, _ in groupby(not_zeroed)] == ["4", "5", "4", "5"]
    types = [version.type for version in watch]
    assert (types.count("ADDED"), types.count("DELETED")) == (2, 1)
    for wrong in wrongly_true_after_others(watch.versions):
        assert wrong.allocatable[DONGLE] == "0", "only the kubelet's 0 makes the condition wrong"
        corrected = next(v.received for v in watch if v.received > wrong.received and not v.wrongly_true)
        assert corrected - wrong.received < 60
