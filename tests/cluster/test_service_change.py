"""Another writer changes the label, and a policy changes what the running service writes."""

from __future__ import annotations

import pytest

from tests.cluster.admission import create_policy, delete_policy, removal_of, try_to_write
from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import DONGLES, PROMPT, Service
from tests.cluster.versions import MUTATING_POLICIES

SEATS = "example.com/seats"


@pytest.mark.protocol
def test_a_label_follows_the_number_and_is_restored(cluster: Cluster, s: Service) -> None:
    def label() -> str | None:
        value: str | None = cluster.node(s.node)["metadata"]["labels"].get(DONGLE)
        return value

    s.configure(f"{DONGLES}label = true\n")
    s.start()
    assert (s.capacity(), label()) == ("1", "1")
    s.machine.plug("1-2")
    s.wait_capacity("2")
    assert label() == "2"
    theirs = {"metadata": {"labels": {DONGLE: "7"}}}
    cluster.admin.patch(f"/api/v1/nodes/{s.node}", theirs)
    wait_until(lambda: label() == "2", PATIENCE, "the label is restored")
    s.configure(DONGLES)
    s.reload()
    wait_until(lambda: label() is None, PATIENCE, "the label is removed")
    assert s.published() == {DONGLE: 2}


@pytest.mark.protocol
@pytest.mark.since(MUTATING_POLICIES)
def test_a_policy_takes_a_resource_out_of_the_write(cluster: Cluster, s: Service) -> None:
    def stored() -> bool:
        """Whether dongles would be stored, by a dry run, so that the service does not see them."""
        return DONGLE in try_to_write(cluster, s.node, {"capacity": {DONGLE: "9"}})["capacity"]

    s.configure(DONGLES + f'[resources."{SEATS}"]\nstatic = {{ quantity = 1000 }}\n')
    policy = f"no-dongles-{s.node}"
    written = f"object.metadata.name == '{s.node}' && '{DONGLE}' in object.status.capacity"
    create_policy(cluster, policy, written, removal_of("capacity", DONGLE))
    wait_until(lambda: not stored(), PATIENCE, "the API server has noticed the policy")
    s.start()
    reason = "the API server accepted 1 but stored none (allocatable 1); does an admission webhook or policy change it?"
    assert (s.capacity(SEATS), s.capacity()) == ("1k", None), "the others are published"
    assert s.condition()["message"] == f"denied: {DONGLE}: {reason}"
    assert (s.condition()["status"], s.condition()["reason"]) == ("False", "Denied")
    delete_policy(cluster, policy)
    wait_until(stored, PATIENCE, "the policy is gone")
    s.reload()
    assert s.capacity() == "1"
    s.wait(lambda: s.condition()["status"] == "True", PROMPT, "the condition is True")
