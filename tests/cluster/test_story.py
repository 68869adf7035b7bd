"""The documented story, on a real kubelet and scheduler: four dongles, the pods that get them, one dongle less."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cluster.admission import create_denial, delete_denial
from tests.cluster.agent import ANNOTATION, DONGLE, DONGLES, Agent, Machine, condition_of, our_events
from tests.cluster.api import Api, ApiError
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import ADMIN, node_user, token_of
from tests.cluster.kubelet import Kubelet
from tests.cluster.pods import out_of, run_pod
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import DONGLES as SERVED
from tests.cluster.service import PROMPT, service
from tests.support.machines import usb_device
from tests.support.tour import recording

pytestmark = pytest.mark.protocol

NIC, SCRATCH = "example.com/nic-mbps", "example.com/scratch-gib"
CONFIG = f"""\
{DONGLES}
[resources."{NIC}"]
nic = {{ name = "ens1f0" }}
measure = "speed"
unit = "Mbit/s"

[resources."{SCRATCH}"]
disk = {{ type = "nvme" }}
measure = "size"
unit = "GiB"
reserve = "10%"
"""


@pytest.mark.short
def test_a_node_from_its_boot_to_withdrawal(cluster: Cluster, kubelet: Kubelet) -> None:
    """The service beside a kubelet: each kind of cause, and what becomes of pods."""
    name, seats = kubelet.name, "example.com/seats"
    dongles = [usb_device(f"1-{n}") for n in range(1, 5)]
    with service(cluster, *dongles, node=name, around=kubelet.inside([])) as s:
        file = s.folder / "seats"
        file.write_text("7")
        s.configure(f'{SERVED}[resources."{seats}"]\nfile = {{ path = "{file}" }}\n')

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

        kubelet.restart(zeroing=True)
        s.wait_capacity("4")
        s.wait(lambda: any("restored" in event for event in s.events()), PROMPT, "an Event has the reason")
        wait_until(lambda: cluster.allocatable(name).get(DONGLE) == "4", PATIENCE, "allocatable follows")

        create_denial(cluster, f"story-{name}", name, DONGLE, 422, "not today")
        wait_until(lambda: denied(cluster, name), PATIENCE, "the API server has noticed the policy")
        s.machine.plug("1-5")
        file.write_text("8")
        s.wait_capacity("8", seats)
        s.wait(lambda: s.condition().get("reason") == "Denied", PROMPT, "the condition has it")
        assert (s.condition()["status"], s.capacity()) == ("False", "4")
        assert "not today" in s.condition()["message"]
        delete_denial(cluster, f"story-{name}")
        wait_until(lambda: not denied(cluster, name), PATIENCE, "the API server has noticed that the policy is gone")
        s.reload()
        s.wait_capacity("5")
        s.wait(lambda: s.condition()["status"] == "True", PROMPT, "nothing is wrong any more")

        # The dongles have changed so often by now that the rate limit would hold this back.
        cluster.set_capacity(name, {seats: "9", "example.com/theirs": "1"})
        s.reload()
        s.wait_capacity("8", seats)
        s.stop()
        assert s.cli("withdraw").returncode == 0
        assert {key for key in cluster.capacity(name) if key.startswith("example.com/")} == {"example.com/theirs"}
        assert not s.condition()
        assert s.last_applied() == {}


def denied(cluster: Cluster, node: str) -> bool:
    """Whether the Node's own user may not change its dongles: it is only tried."""
    user = Api(cluster.url, cluster.ca_file, token_of(node_user(node)))
    try:
        user.patch(f"/api/v1/nodes/{node}/status?dryRun=All", {"status": {"capacity": {DONGLE: "99"}}})
    except ApiError:
        return True
    return False


def test_story(cluster: Cluster, kubelet: Kubelet, tmp_path: Path) -> None:
    kubelet.start()
    agent = Agent(cluster, kubelet.name, tmp_path / "agent", machine=tour(tmp_path), kubelet=kubelet)
    agent.configure(CONFIG)
    assert not {DONGLE, NIC, SCRATCH} & set(cluster.capacity(kubelet.name))
    with cluster.audit.requests(agent.user, "capacityd") as requests:
        done = agent.run("apply", "--wait", "90s")
    assert "capacityd: allocatable after" in done.stderr
    published = {DONGLE: "4", NIC: "10k", SCRATCH: "1609"}
    for quantities in (cluster.capacity(kubelet.name), cluster.allocatable(kubelet.name)):
        assert {name: quantities.get(name) for name in published} == published
    patches = [request for request in requests.all() if request.verb == "patch"]
    assert [(p.resource, p.subresource, p.code) for p in patches] == [("nodes", "status", 200)]
    written = {o["path"].rpartition("/")[2].replace("~1", "/"): o["value"] for o in patches[0].body if o["op"] == "add"}
    assert {name: written[name] for name in published} == {DONGLE: "4", NIC: "10000", SCRATCH: "1609"}
    assert ANNOTATION in written, "the record of what is ours goes with it"

    three = run_pod(cluster, kubelet.name, DONGLE, "3")
    two = cluster.create_pod(kubelet.name, {DONGLE: "2"})
    assert f"Insufficient {DONGLE}" in wait_until(
        lambda: cluster.unschedulable(two), PATIENCE, "the second is turned away"
    )
    one = run_pod(cluster, kubelet.name, DONGLE, "1")
    assert cluster.pod_phase(two) == "Pending"

    agent.machine.pull("1-1.4")
    done = agent.run("apply")
    assert ["~", DONGLE, "4", "3"] in [line.split()[:4] for line in done.stdout.splitlines()]
    assert cluster.capacity(kubelet.name)[DONGLE] == "3"
    wait_until(lambda: cluster.allocatable(kubelet.name)[DONGLE] == "3", PATIENCE, "allocatable follows")
    late = cluster.create_pod(kubelet.name, {DONGLE: "1"})
    assert f"Insufficient {DONGLE}" in wait_until(lambda: cluster.unschedulable(late), PATIENCE, "three are all taken")
    assert [cluster.pod_phase(pod) for pod in (three, one)] == ["Running", "Running"], "nothing is evicted"

    kubelet.restart()
    stopped = wait_until(lambda: ended(cluster, three, one), PATIENCE, "a pod that no longer fits is stopped")
    # The kubelet admits them by age in whole seconds; of two of the same second either may come first.
    assert stopped in ([three], [one])
    wait_until(lambda: out_of(cluster, stopped[0], DONGLE), PATIENCE, "an Event has the reason")
    [other] = {three, one} - set(stopped)
    assert cluster.pod_phase(other) == "Running"
    assert cluster.capacity(kubelet.name)[DONGLE] == "3"


def test_withdraw_removes_all_own_keys_and_no_others(cluster: Cluster, kubelet: Kubelet, tmp_path: Path) -> None:
    kubelet.start()
    cluster.set_capacity(kubelet.name, {"example.com/theirs": "7"})
    cluster.admin.patch(f"/api/v1/nodes/{kubelet.name}", {"metadata": {"annotations": {"example.com/note": "theirs"}}})
    wait_until(lambda: "example.com/theirs" in cluster.allocatable(kubelet.name), PATIENCE, "allocatable follows")
    agent = Agent(cluster, kubelet.name, tmp_path / "agent", machine=tour(tmp_path), kubelet=kubelet)
    agent.configure(CONFIG)
    before = cluster.node(kubelet.name)
    agent.run("apply", "--wait", "90s")
    assert condition_of(cluster.node(kubelet.name)) is not None
    agent.run("withdraw")
    names = {DONGLE, NIC, SCRATCH}
    wait_until(lambda: not names & set(cluster.allocatable(kubelet.name)), PATIENCE, "allocatable follows")
    after = cluster.node(kubelet.name)
    assert after["metadata"].pop("annotations") == before["metadata"].pop("annotations")
    for node in (before, after):
        for changing in ("resourceVersion", "managedFields"):
            del node["metadata"][changing]
        for condition in node["status"]["conditions"]:
            del condition["lastHeartbeatTime"]
    assert after == before
    agent.run("apply", "--wait", "90s")
    assert cluster.capacity(kubelet.name)[DONGLE] == "4", "it can be had again"


def test_each_write_has_one_event_with_each_change_and_its_reason(cluster: Cluster, node: str, tmp_path: Path) -> None:
    agent = Agent(cluster, node, tmp_path / "agent", machine=tour(tmp_path))
    agent.configure(CONFIG)
    agent.run("apply")
    first = f"{DONGLE}: none → 4 (found); {NIC}: none → 10000 (found); {SCRATCH}: none → 1609 (found)"
    expected = [("CapacityChanged", first)]
    assert our_events(cluster, node) == expected
    agent.run("apply")
    assert our_events(cluster, node) == expected, "nothing changed"
    agent.machine.pull("1-1.4")
    agent.run("apply")
    lowered = "pods that no longer fit are stopped at the kubelet's next start"
    expected.append(("CapacityChanged", f"{DONGLE}: 4 → 3 (the reading changed); {lowered}"))
    assert our_events(cluster, node) == expected
    agent.configure(DONGLES)
    agent.run("apply")
    gone = f"{NIC}: 10000 → none (no longer configured); {SCRATCH}: 1609 → none (no longer configured)"
    expected.append(("CapacityChanged", gone))
    assert our_events(cluster, node) == expected
    agent.run("withdraw")
    expected.append(("CapacityChanged", f"{DONGLE}: 3 → none (withdrawn)"))
    assert our_events(cluster, node) == expected
    command: list[str | Path] = [
        cluster.binaries["kubectl"],
        f"--kubeconfig={cluster.kubeconfig(ADMIN)}",
        "describe",
        "node",
        node,
    ]
    described = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line.split(maxsplit=4) for line in described.partition("\nEvents:")[2].splitlines()]
    shown = [(line[1], line[-1]) for line in lines if "capacityd" in line]
    assert sorted(shown) == sorted(expected), "whole, each in its line"
    events = cluster.events_of(node)
    assert {event["involvedObject"]["uid"] for event in events} == {cluster.node(node)["metadata"]["uid"]}
    assert {event["type"] for event in events} == {"Normal"}


def tour(folder: Path) -> Machine:
    """The machine of the documentation."""
    return Machine(folder / "machine", recording())


def ended(cluster: Cluster, *pods: str) -> list[str]:
    """The pods among them that have been stopped."""
    return [pod for pod in pods if cluster.pod_phase(pod) in ("Failed", "Succeeded")]
