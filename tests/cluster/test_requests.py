"""How many requests capacityd makes, by the audit log. No kubelet runs, so all requests of a Node are capacityd's."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.cluster.admission import create_policy, delete_policy, removal_of, try_to_write
from tests.cluster.agent import DONGLE, DONGLES, Agent, condition_of
from tests.cluster.audit import Requests
from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE, wait_until
from tests.cluster.versions import MUTATING_POLICIES
from tests.cluster.webhook import webhook
from tests.support.denials import Denies

pytestmark = pytest.mark.protocol

GET, PATCH = "get nodes", "patch nodes/status"
WHO, EVENT = "create selfsubjectreviews", "create events"


def counted(requests: Requests) -> dict[str, int]:
    return dict(Counter(f"{r.verb} {r.resource}{'/' if r.subresource else ''}{r.subresource}" for r in requests.all()))


def made(cluster: Cluster, agent: Agent, *arguments: str, status: int = 0) -> dict[str, int]:
    """Runs a command, and counts its requests."""
    with cluster.audit.requests(agent.user) as requests:
        agent.run(*arguments, status=status)
    return counted(requests)


def test_a_command_that_changes_something_is_one_get_one_patch_and_one_event(cluster: Cluster, agent: Agent) -> None:
    """A command that changes nothing is one GET. One Event more says that the condition is about something else."""
    written, read = {WHO: 1, GET: 1, PATCH: 1, EVENT: 1}, {WHO: 1, GET: 1}
    more = "".join(f'[resources."example.com/seats-{n}"]\nstatic = {{ quantity = {n} }}\n' for n in range(1, 6))
    agent.configure(DONGLES + more)
    before = cluster.node(agent.node)
    for command, expected in ((["plan"], read), (["apply", "--dry-run"], read), (["probe"], {}), (["devices"], {})):
        assert made(cluster, agent, *command) == expected
    assert cluster.node(agent.node) == before
    assert made(cluster, agent, "apply") == written | {EVENT: 2}
    before = cluster.node(agent.node)
    assert made(cluster, agent, "apply") == read
    assert cluster.node(agent.node) == before
    agent.machine.pull("1-4")
    with cluster.audit.requests(agent.user) as requests:
        agent.run("apply")
    assert counted(requests) == written
    assert {request.name for request in requests.all() if request.resource == "nodes"} == {agent.node}
    patch = next(request.body for request in requests.all() if request.verb == "patch")
    assert patch["status"] == {"capacity": {DONGLE: "3"}, "allocatable": {DONGLE: "3"}}, "nothing else has changed"
    assert {*patch["metadata"]} == {"uid", "resourceVersion", "annotations"}
    for expected in (written, read):
        assert made(cluster, agent, "withdraw") == expected


def test_a_refusal_is_reported_once_and_then_costs_no_write(cluster: Cluster, agent: Agent) -> None:
    cluster.set_capacity(agent.node, {DONGLE: "9"})
    assert made(cluster, agent, "apply", status=4) == {WHO: 1, GET: 1, PATCH: 1, EVENT: 1}
    assert made(cluster, agent, "apply", status=4) == {WHO: 1, GET: 1}


@pytest.mark.parametrize(
    ("changed", "denied", "patches"),
    [
        ("a", "a", 3),
        ("ab", "ab", 5),
        ("abcde", "bd", 8),
    ],
)
def test_a_denial_of_few_costs_a_patch_for_each_change(
    cluster: Cluster, agent: Agent, changed: str, denied: str, patches: int
) -> None:
    """A first PATCH tries all, a second one leaves out the condition, and a last one writes it."""
    agent.configure("".join(f'[resources."example.com/{name}"]\nstatic = {{ quantity = 4 }}\n' for name in changed))
    with webhook(cluster, agent.node) as hook, cluster.audit.requests(agent.user) as requests:
        hook.denies = tuple(Denies(f"example.com/{name}", 403) for name in denied)
        agent.run("apply", status=4)
        counts = counted(requests)
    assert (counts[GET], counts[PATCH]) == (1, patches)
    assert counts[PATCH] <= 3 + len(changed)
    assert {*counts} == {WHO, GET, PATCH, EVENT}
    published = {name for name in cluster.capacity(agent.node) if name.startswith("example.com/")}
    assert published == {f"example.com/{name}" for name in {*changed} - {*denied}}
    condition = condition_of(cluster.node(agent.node)) or {}
    assert (condition["status"], condition["reason"]) == ("False", "Denied")


def test_a_denial_of_one_of_500_is_isolated_by_halves(cluster: Cluster, agent: Agent) -> None:
    names = [f"example.com/n{n:03}" for n in range(500)]
    agent.configure("".join(f'[resources."{name}"]\nstatic = {{ quantity = 4 }}\n' for name in names))
    with webhook(cluster, agent.node) as hook, cluster.audit.requests(agent.user) as requests:
        hook.denies = (Denies(names[0], 403),)
        agent.run("apply", status=4)
        counts = counted(requests)
    assert counts[GET] == 1
    assert 15 <= counts[PATCH] <= 25
    published = {name for name in cluster.capacity(agent.node) if name.startswith("example.com/n")}
    assert published == {*names[1:]}


@pytest.mark.since(MUTATING_POLICIES)
def test_allocatable_that_admission_removes_is_denied(cluster: Cluster, agent: Agent) -> None:
    policy = f"not-allocatable-{agent.node}"
    written = f"object.metadata.name == '{agent.node}' && '{DONGLE}' in object.status.allocatable"
    create_policy(cluster, policy, written, removal_of("allocatable", DONGLE))
    try:
        tried: dict[str, object] = {"allocatable": {DONGLE: "9"}}
        wait_until(lambda: DONGLE not in try_to_write(cluster, agent.node, tried)["allocatable"], PATIENCE, "in force")
        with cluster.audit.requests(agent.user) as requests:
            agent.run("apply", status=4)
    finally:
        delete_policy(cluster, policy)
    assert counted(requests) == {WHO: 1, GET: 1, PATCH: 2, EVENT: 1}
    assert (condition_of(cluster.node(agent.node)) or {})["reason"] == "Denied"
