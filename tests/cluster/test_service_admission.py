"""Something within the API server changes what the service writes: that is told, and is no success."""

from __future__ import annotations

import signal

from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.service import DONGLE, DONGLES, SLACK, service
from tests.unit.machines import usb_device

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
        told = f"but the Node then says otherwise: {DONGLE} is none, not 1. Does an admission webhook or policy"
        assert told in s.status()["trouble"]
        assert s.capacity(SEATS) == "1k", "the others are published"
        assert s.events() == []
        by_hand = s.cli("apply")
        assert (by_hand.returncode, told in by_hand.stderr) == (1, True)
        s.machine.plug("1-2")
        assert s.asked().count("patch nodes/status") < 5, "it is tried again after a minute"
        allow(cluster, s.node)
        assert s.process is not None
        s.process.send(signal.SIGHUP)
        s.wait_capacity("2", 3 + SLACK)
        s.wait(lambda: "all is well again" in s.log(), SLACK, "it says so")
        assert s.log().count(told) == 1
        s.wait(
            lambda: s.events() == [f"{DONGLE}: none → 2 (lost from the Node, where 1 was published)"], SLACK, "an Event"
        )
