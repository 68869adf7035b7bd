"""When admission in the API server changes what the service writes, the service reports a failure."""

from __future__ import annotations

import pytest

from capacityd.model.node import CONDITION
from tests.cluster.admission import create_policy, delete_policy, removal_of, try_to_write
from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import DONGLES, PROMPT, Service
from tests.cluster.versions import MUTATING_POLICIES

SEATS = "example.com/seats"


def forbid(cluster: Cluster, node: str) -> None:
    """From now on, a write of dongles to this Node succeeds, but the API server does not store the dongles."""
    written = f"object.metadata.name == '{node}' && '{DONGLE}' in object.status.capacity"
    create_policy(cluster, f"no-dongles-{node}", written, removal_of("capacity", DONGLE))
    wait_until(lambda: not written_by_another(cluster, node), PATIENCE, "the API server has noticed the policy")


def allow(cluster: Cluster, node: str) -> None:
    """Ends the effect of forbid()."""
    delete_policy(cluster, f"no-dongles-{node}")
    wait_until(
        lambda: written_by_another(cluster, node), PATIENCE, "the API server has noticed that the policy is gone"
    )


def written_by_another(cluster: Cluster, node: str) -> bool:
    """Whether dongles would be stored, by a dry run, so that the service does not see them."""
    return DONGLE in try_to_write(cluster, node, {"capacity": {DONGLE: "9"}})["capacity"]


@pytest.mark.protocol
@pytest.mark.since(MUTATING_POLICIES)
def test_a_policy_takes_a_resource_out_of_the_write(cluster: Cluster, s: Service) -> None:
    s.configure(DONGLES + f'[resources."{SEATS}"]\nstatic = {{ quantity = 1000 }}\n')
    forbid(cluster, s.node)
    s.start()
    reason = "the API server accepted 1 but stored none (allocatable 1); does an admission webhook or policy change it?"
    assert (s.capacity(SEATS), s.capacity()) == ("1k", None), "the others are published"
    assert s.condition()["message"] == f"denied: {DONGLE}: {reason}"
    assert (s.condition()["status"], s.condition()["reason"]) == ("False", "Denied")
    assert [event for event in s.events() if reason in event] == [f"denied: {DONGLE}: {reason}"]
    allow(cluster, s.node)
    s.reload()
    assert s.capacity() == "1"
    s.wait(lambda: s.condition()["status"] == "True", PROMPT, "the condition is True")


@pytest.mark.protocol
@pytest.mark.since(MUTATING_POLICIES)
def test_a_policy_drops_the_condition(cluster: Cluster, s: Service) -> None:
    """Everything is published, but the Node can't show what is wrong. status and the journal show it."""
    name, ours = f"no-condition-{s.node}", f"c, c.type == '{CONDITION}'"
    written = f"object.metadata.name == '{s.node}' && has(object.status.conditions)"
    # Kubernetes 1.37 can't convert a condition to JSON, so the policy builds each one.
    built = "{'type': c.type, 'status': c.status}"
    others = f"object.status.conditions.filter(c, c.type != '{CONDITION}').map(c, {built})"
    create_policy(
        cluster,
        name,
        f"{written} && object.status.conditions.exists({ours})",
        f'[JSONPatch{{op: "replace", path: "/status/conditions", value: {others}}}]',
    )

    def stored() -> bool:
        conditions = [{"type": CONDITION, "status": "True"}, {"type": "Other", "status": "True"}]
        kept = try_to_write(cluster, s.node, {"conditions": conditions})["conditions"]
        return any(condition["type"] == CONDITION for condition in kept)  # type: ignore[index]

    wait_until(lambda: not stored(), PATIENCE, "the API server has noticed the policy")
    s.start()
    assert s.capacity() == "1"
    status = s.cli("status")
    denied = "the condition CapacityPublished is denied: the condition is stored differently"
    assert f"! {denied}" in status.stdout
    assert (status.returncode, "degraded" in status.stdout) == (4, True)
    s.reload()
    assert s.cli("status").returncode == 4
    assert s.log().count(f"Node {s.node}: {denied}") == 1
    delete_policy(cluster, name)
    wait_until(stored, PATIENCE, "the API server has noticed that the policy is gone")
    s.reload()
    assert s.condition()["status"] == "True"
    assert s.cli("status").returncode == 0
    assert s.log().count(f"Node {s.node}: the condition CapacityPublished is stored again") == 1
