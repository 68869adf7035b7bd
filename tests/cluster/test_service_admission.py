"""Something within the API server changes what the service writes: that is told, and is no success."""

from __future__ import annotations

import signal

from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import DONGLE, DONGLES, SLACK, service
from tests.support.machines import usb_device

POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
SEATS = "example.com/seats"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes/status"]}
REMOVED = 'JSONPatch{op: "remove", path: "/status/capacity/" + jsonpatch.escapeKey("example.com/dongle")}'


def forbid(cluster: Cluster, node: str) -> None:
    """From now on whoever writes dongles to this Node succeeds, and they are not stored."""
    name = f"no-dongles-{node}"
    written = f"object.metadata.name == '{node}' && '{DONGLE}' in object.status.capacity"
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [RULE]},
        "matchConditions": [{"name": "written", "expression": written}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{REMOVED}]"}}],
    }
    cluster.admin.create(POLICIES, {"metadata": {"name": name}, "spec": spec})
    binding = {"metadata": {"name": name}, "spec": {"policyName": name}}
    cluster.admin.create(f"{POLICIES.removesuffix('policies')}policybindings", binding)
    wait_until(lambda: not written_by_another(cluster, node), PATIENCE, "the API server has noticed the policy")


def allow(cluster: Cluster, node: str) -> None:
    """Not any more."""
    cluster.admin.delete(f"{POLICIES.removesuffix('policies')}policybindings/no-dongles-{node}")
    wait_until(
        lambda: written_by_another(cluster, node), PATIENCE, "the API server has noticed that the policy is gone"
    )


def written_by_another(cluster: Cluster, node: str) -> bool:
    """Whether dongles would be stored: it is only tried, as the service must not meet them."""
    status = {"status": {"capacity": {DONGLE: "9"}}}
    found = cluster.admin.patch(f"/api/v1/nodes/{node}/status?dryRun=All", status)
    return DONGLE in found["status"]["capacity"]


def test_a_policy_takes_a_resource_out_of_the_write(cluster: Cluster) -> None:
    with service(cluster, usb_device("1-1")) as s:
        s.configure(DONGLES + f'[resources."{SEATS}"]\nstatic = {{ quantity = 1000 }}\n')
        forbid(cluster, s.node)
        s.start()
        reason = "the API server accepted 1 but stored none; does an admission webhook or policy change it?"
        assert (s.capacity(SEATS), s.capacity()) == ("1k", None), "the others are published"
        assert s.condition()["message"] == f"denied: {DONGLE}: {reason}"
        assert (s.condition()["status"], s.condition()["reason"]) == ("False", "Denied")
        assert [event for event in s.events() if reason in event] == [f"{DONGLE}: {reason}"]
        by_hand = s.cli("apply")
        assert (by_hand.returncode, reason in by_hand.stdout) == (4, True)
        s.requests()
        s.machine.plug("1-2")
        s.wait(lambda: s.seen()["reasons"] == ["hardware"], PATIENCE, "it has seen the device")
        assert s.asked() == [], "it is tried again after a minute"
        allow(cluster, s.node)
        assert s.process is not None
        s.process.send(signal.SIGHUP)
        s.wait_capacity("2", 3 + SLACK)
        s.wait(lambda: s.condition()["status"] == "True", SLACK, "the condition is True")
        assert s.log().count(f"{DONGLE}: denied: {reason}") == 1
        lost = f"{DONGLE}: none → 2 (lost from the Node, where 1 was published)"
        s.wait(lambda: lost in s.events(), SLACK, "an Event")
