"""capacityd leaves keys of others unchanged, whatever its annotation on the Node claims."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.agent import ANNOTATION, Agent, condition_of, our_events
from tests.cluster.controlplane import BASE_CAPACITY, Cluster
from tests.cluster.kubelet import Kubelet
from tests.cluster.pods import run_pod
from tests.cluster.processes import PATIENCE, wait_until

CARD = "example.com/card"
CARDS = f'[resources."{CARD}"]\nstatic = {{ quantity = 5 }}\n'
ADOPT = "adopt = true\n"


THEIRS = {f"example.com/theirs-{n}": value for n, value in enumerate(["0", "4", "7", "1k", "9223372036854775807"])}
"""Keys of others, with various values: capacityd would publish 4, and 0 may belong to a device plugin that returns."""


def configured(more: str = "") -> str:
    return "".join(f'[resources."{name}"]\nstatic = {{ quantity = 4 }}\n{more}' for name in THEIRS)


@pytest.mark.protocol
def test_a_key_that_is_not_ours_is_refused(cluster: Cluster, agent: Agent) -> None:
    """The refusal ends when the key is adopted: from then on the key is capacityd's."""
    why = "not published by capacityd; adopt = true takes it over"
    cluster.set_capacity(agent.node, THEIRS)
    agent.configure(configured())
    for attempt in ("first", "second"):
        assert agent.run("apply", status=4).stdout.count(why) == len(THEIRS), attempt
        document = cluster.node(agent.node)
        assert document["status"]["capacity"] == {**BASE_CAPACITY, **THEIRS}, attempt
        assert ANNOTATION not in document["metadata"].get("annotations", {}), attempt
        assert (condition_of(document) or {})["reason"] == "Refused"
        events = our_events(cluster, agent.node)
        assert [reason for reason, _ in events] == ["Refused"], f"{attempt}: one Event"
        assert all(name in events[0][1] for name in THEIRS)
    agent.run("withdraw")
    assert cluster.capacity(agent.node) == {**BASE_CAPACITY, **THEIRS}, "withdraw leaves it, too"

    agent.configure(configured(ADOPT))
    agent.run("apply")
    document = cluster.node(agent.node)
    assert document["status"]["capacity"] == {**BASE_CAPACITY, **dict.fromkeys(THEIRS, "4")}
    assert json.loads(document["metadata"]["annotations"][ANNOTATION]) == dict.fromkeys(THEIRS, 4)
    assert (condition_of(document) or {})["status"] == "True"
    agent.configure(configured())
    agent.run("apply")
    agent.run("withdraw")
    assert cluster.capacity(agent.node) == BASE_CAPACITY


@pytest.mark.protocol
def test_the_name_of_a_device_plugin_is_refused(cluster: Cluster, kubelet: Kubelet, tmp_path: Path) -> None:
    """The name is refused before the Node shows the plugin, and while pods hold devices of a plugin that has gone."""
    kubelet.start()
    agent = Agent(cluster, kubelet.name, tmp_path / "agent", kubelet=kubelet)
    with kubelet.device_plugin(CARD, 3):
        wait_until(lambda: cluster.allocatable(kubelet.name).get(CARD) == "3", PATIENCE, "its devices are allocatable")
        run_pod(cluster, kubelet.name, CARD)
        refused(cluster, agent, "3")
        kubelet.stop()
        cluster.set_capacity(kubelet.name, {CARD: None})
        refused(cluster, agent, None)
        cluster.set_capacity(kubelet.name, {CARD: "3"})
    kubelet.start()
    wait_until(lambda: cluster.capacity(kubelet.name)[CARD] == "0", PATIENCE, "the kubelet knows that it is gone")
    refused(cluster, agent, "0")
    # Five minutes later the kubelet has forgotten the registration, and only the pod shows the name.
    kubelet.stop()
    checkpoint = json.loads(kubelet.checkpoint.read_text())
    assert [entry["ResourceName"] for entry in checkpoint["Data"]["PodDeviceEntries"]] == [CARD]
    checkpoint["Data"]["RegisteredDevices"] = {}
    kubelet.checkpoint.write_text(json.dumps(checkpoint))
    refused(cluster, agent, "0")


def refused(cluster: Cluster, agent: Agent, value: str | None) -> None:
    """apply and withdraw leave the card's key as it is; apply reports why."""
    for more in ("", ADOPT):
        agent.configure(CARDS + more)
        assert "a device plugin has this name" in agent.run("apply", status=4).stdout
        agent.run("withdraw")
        assert cluster.capacity(agent.node).get(CARD) == value
