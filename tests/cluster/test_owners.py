"""Whose key it is: what is not ours stays as it is, whatever our record on the Node claims."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cluster.agent import ANNOTATION, DONGLE, DONGLES, Agent, condition_of, our_events
from tests.cluster.controlplane import BASE_CAPACITY, Cluster
from tests.cluster.kubelet import Kubelet
from tests.cluster.pods import run_pod
from tests.cluster.processes import PATIENCE, wait_until

CARD = "example.com/card"
CARDS = f'[resources."{CARD}"]\nstatic = {{ quantity = 5 }}\n'
ADOPT = "adopt = true\n"


THEIRS = {f"example.com/theirs-{n}": value for n, value in enumerate(["0", "4", "7", "1k", "9223372036854775807"])}
"""Of any value: 4 is what we would publish, and a 0 may be a device plugin's that comes back."""


def configured(more: str = "") -> str:
    return "".join(f'[resources."{name}"]\nstatic = {{ quantity = 4 }}\n{more}' for name in THEIRS)


@pytest.mark.protocol
def test_a_key_that_is_not_ours_is_refused(cluster: Cluster, agent: Agent) -> None:
    cluster.set_capacity(agent.node, THEIRS)
    agent.configure(configured())
    for attempt in ("first", "second"):
        done = agent.run("apply", status=4)
        assert done.stdout.count("not published by capacityd; adopt = true takes it over") == len(THEIRS), attempt
        document = cluster.node(agent.node)
        assert document["status"]["capacity"] == {**BASE_CAPACITY, **THEIRS}, attempt
        assert ANNOTATION not in document["metadata"].get("annotations", {}), attempt
        ours = condition_of(document)
        assert ours is not None
        why = "not published by capacityd; adopt = true takes it over"
        others = ", ".join(name for name, value in THEIRS.items() if value != "4")
        message = f"refused: {others}: {why}; refused: example.com/theirs-1: the same value, but {why}"
        assert (ours["status"], ours["reason"], ours["message"]) == ("False", "Refused", message)
        events = our_events(cluster, agent.node)
        assert [reason for reason, _ in events] == ["CapacityRefused"], f"{attempt}: one Event"
        assert all(f"{name}: " in events[0][1] for name in THEIRS)
    assert [event["type"] for event in cluster.events_of(agent.node)] == ["Warning"]
    agent.run("withdraw")
    assert cluster.capacity(agent.node) == {**BASE_CAPACITY, **THEIRS}, "withdraw leaves it, too"


@pytest.mark.protocol
def test_adopt_takes_it(cluster: Cluster, agent: Agent) -> None:
    cluster.set_capacity(agent.node, THEIRS)
    agent.configure(configured())
    agent.run("apply", status=4)
    agent.configure(configured(ADOPT))
    agent.run("apply")
    document = cluster.node(agent.node)
    assert document["status"]["capacity"] == {**BASE_CAPACITY, **dict.fromkeys(THEIRS, "4")}
    assert json.loads(document["metadata"]["annotations"][ANNOTATION]) == dict.fromkeys(THEIRS, 4)
    ours = condition_of(document)
    assert ours is not None
    assert ours["status"] == "True"
    agent.configure(configured())
    agent.run("apply")
    agent.run("withdraw")
    assert cluster.capacity(agent.node) == BASE_CAPACITY, "from then on it is ours"


def test_a_refusal_does_not_affect_other_resources(cluster: Cluster, agent: Agent) -> None:
    cluster.set_capacity(agent.node, {DONGLE: "7"})
    agent.configure(DONGLES + CARDS)
    agent.run("apply", status=4)
    assert cluster.capacity(agent.node) == {**BASE_CAPACITY, DONGLE: "7", CARD: "5"}


@pytest.mark.protocol
def test_the_name_of_a_running_device_plugin(cluster: Cluster, kubelet: Kubelet, tmp_path: Path) -> None:
    kubelet.start()
    agent = Agent(cluster, kubelet.name, tmp_path / "agent", kubelet=kubelet)
    with kubelet.device_plugin(CARD, 3):
        wait_until(lambda: cluster.allocatable(kubelet.name).get(CARD) == "3", PATIENCE, "its devices are allocatable")
        for more in ("", ADOPT):
            agent.configure(CARDS + more)
            refused(cluster, agent, "3")


def test_a_device_plugin_that_the_node_does_not_show_yet(cluster: Cluster, kubelet: Kubelet, tmp_path: Path) -> None:
    """It is in the checkpoint at once, while the Node follows at the kubelet's next report."""
    kubelet.start()
    agent = Agent(cluster, kubelet.name, tmp_path / "agent", kubelet=kubelet)
    agent.configure(CARDS + ADOPT)
    with kubelet.device_plugin(CARD, 3):
        kubelet.stop()
        cluster.set_capacity(kubelet.name, {CARD: None})
        refused(cluster, agent, None)


@pytest.mark.protocol
def test_a_device_plugin_that_is_gone_while_pods_hold_its_devices(
    cluster: Cluster, kubelet: Kubelet, tmp_path: Path
) -> None:
    kubelet.start()
    agent = Agent(cluster, kubelet.name, tmp_path / "agent", kubelet=kubelet)
    with kubelet.device_plugin(CARD, 3):
        wait_until(lambda: cluster.allocatable(kubelet.name).get(CARD) == "3", PATIENCE, "its devices are allocatable")
        run_pod(cluster, kubelet.name, CARD)
    kubelet.restart()
    wait_until(lambda: cluster.capacity(kubelet.name)[CARD] == "0", PATIENCE, "the kubelet knows that it is gone")
    for more in ("", ADOPT):
        agent.configure(CARDS + more)
        refused(cluster, agent, "0")
    # Five minutes later the kubelet has forgotten the registration too, and only the pod shows it.
    kubelet.stop()
    checkpoint = json.loads(kubelet.checkpoint.read_text())
    assert [entry["ResourceName"] for entry in checkpoint["Data"]["PodDeviceEntries"]] == [CARD]
    checkpoint["Data"]["RegisteredDevices"] = {}
    kubelet.checkpoint.write_text(json.dumps(checkpoint))
    refused(cluster, agent, "0")


@pytest.mark.protocol
def test_a_device_plugin_that_takes_a_name_of_ours(cluster: Cluster, kubelet: Kubelet, tmp_path: Path) -> None:
    """From then on the key is the kubelet's: we give it up, also when it is no longer configured or withdrawn."""
    kubelet.start()
    agent = Agent(cluster, kubelet.name, tmp_path / "agent", kubelet=kubelet)
    agent.configure(DONGLES + CARDS)
    agent.run("apply", "--wait", "90s")
    with kubelet.device_plugin(CARD, 3):
        wait_until(lambda: cluster.allocatable(kubelet.name).get(CARD) == "3", PATIENCE, "the kubelet overwrites it")
        agent.run("apply", status=4)
        document = cluster.node(kubelet.name)
        assert json.loads(document["metadata"]["annotations"][ANNOTATION]) == {DONGLE: 4}
        forged = {"metadata": {"annotations": {ANNOTATION: json.dumps({CARD: 3, DONGLE: 4})}}}
        cluster.admin.patch(f"/api/v1/nodes/{agent.node}", forged)
        agent.run("withdraw", status=4)
        document = cluster.node(kubelet.name)
        assert document["status"]["capacity"][CARD] == "3"
        assert DONGLE not in document["status"]["capacity"]
        assert ANNOTATION not in document["metadata"]["annotations"]


def test_without_a_readable_checkpoint_nothing_is_adopted(cluster: Cluster, kubelet: Kubelet, tmp_path: Path) -> None:
    kubelet.start()
    agent = Agent(cluster, kubelet.name, tmp_path / "agent", kubelet=kubelet)
    agent.configure(CARDS + ADOPT + DONGLES)
    kubelet.stop()
    cluster.set_capacity(kubelet.name, {CARD: "2"})
    kubelet.checkpoint.write_text('{"Data": ')
    done = agent.run("apply", status=4)
    assert "not adopted" in done.stdout
    capacity = cluster.capacity(kubelet.name)
    assert (capacity[CARD], capacity[DONGLE]) == ("2", "4"), "what nobody has can be published"
    kubelet.checkpoint.unlink()
    agent.run("apply")
    assert cluster.capacity(kubelet.name)[CARD] == "5"


def refused(cluster: Cluster, agent: Agent, value: str | None) -> None:
    """apply and withdraw leave the card's key as it is, and report it."""
    done = agent.run("apply", status=4)
    assert "a device plugin has this name" in done.stdout
    agent.run("withdraw")
    capacity: Mapping[str, str] = cluster.capacity(agent.node)
    assert capacity.get(CARD) == value
