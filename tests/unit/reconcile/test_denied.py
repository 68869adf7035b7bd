"""A resource that the API server denies is reported and blocks no other one. tests/cluster uses a real API server."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.model.errors import NodeRejected, NodeUnreachable, NodeWriteFailed
from capacityd.model.node import ANNOTATION, NodeState
from capacityd.model.plan import MachineRecord, Outcome, Plan
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.model.reasons import RetryCause
from capacityd.node.documents.node import node_state
from capacityd.reconcile.apply import Start, apply
from capacityd.reconcile.attempt import Denied
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.isolation import MAX_ONE_BY_ONE, isolate
from capacityd.reconcile.memory import Memory
from capacityd.reconcile.plan import make_plan, make_withdrawal
from capacityd.reconcile.timing import BURST, MIN_INTERVAL
from capacityd.schema.config import Settings
from tests.support.configs import config_with
from tests.support.nodes import node
from tests.unit.reconcile.doubles import MemoryNode, Service

NAMES = [f"example.com/{letter}" for letter in "abcde"]
A, B, C, D, E = NAMES


class Admission(MemoryNode):
    """A Node whose API server denies patches that write one of these paths, or alters the stored Node."""

    def __init__(self, denied: Collection[str] = (), reason: str = "policy: {}") -> None:
        super().__init__()
        self.denied = {
            name if name.startswith("/") else "/status/capacity/" + name.replace("/", "~1") for name in denied
        }
        self.reason = reason
        self.alter: Callable[[dict[str, Any]], None] = lambda _: None
        self.requests: list[list[str]] = []
        self.most: int | None = None  # larger quantities are denied

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        paths = [str(operation["path"]) for operation in patch if operation["op"] != "test"]
        self.requests.append(paths)
        if denied_paths := sorted({path for path in paths for denied in self.denied if path.startswith(denied)}):
            raise NodeRejected("HTTP 422: " + self.reason.format(denied_paths[0]), self.reason.format(denied_paths[0]))
        values = [str(o.get("value")) for o in patch if o["op"] == "add" and "/capacity/" in str(o["path"])]
        if self.most is not None and any(int(value) > self.most for value in values):
            raise NodeRejected(f"HTTP 403: at most {self.most}", f"at most {self.most}")
        super().write(patch)
        self.alter(self.document)
        return self.state()

    @property
    def published(self) -> dict[str, str]:
        return {name: q for name, q in self.document["status"]["capacity"].items() if name in NAMES}


def publish(node: MemoryNode, readings: Mapping[str, Reading], condition: bool = True) -> Outcome:
    def decide(state: NodeState, record: MachineRecord | None, denied: Denied, _: Plan | None) -> Plan:
        return make_plan(state, Facts(readings, config_with(condition=condition, digest="abc"), denied=denied))

    return apply(node, decide, Start(None))


@given(st.lists(st.sampled_from(NAMES), min_size=1, unique=True), st.sets(st.sampled_from(NAMES)))
def test_each_denied_resource_is_isolated(names: list[str], denies: set[str]) -> None:
    node = Admission(denies, reason="not on my Nodes")
    denied = sorted(denies.intersection(names))
    outcome = publish(node, {name: Quantity(4) for name in names})
    assert node.published == {name: "4" for name in names if name not in denies}
    assert outcome.denied == dict.fromkeys(denied, "not on my Nodes")
    assert outcome.plan.write.annotated == dict.fromkeys(sorted({*names} - denies), 4)
    message = f"denied: {', '.join(denied)}: not on my Nodes"
    everything = ("True", "Published", "all configured resources are published")
    assert node.our_condition == (("False", "Denied", message) if denied else everything)
    # With the GET: 2 + the number of changed resources, and one more if all of several resources are denied.
    all_denied = len(denied) == len(names) > 1
    assert len(node.requests) <= (1 + len(names) + all_denied if denied else 1)
    changes = {c.name: c.action for c in outcome.plan.changes}
    assert changes == {name: "deny" if name in denies else "set" for name in names}


def isolated(count: int, denied: Collection[str]) -> tuple[set[str], int]:
    """The names that are found to be denied, and the number of patches, including the first."""
    names = tuple(f"n{number:04}" for number in range(count))
    accepted_names, patches = set[str](), 1

    def accepts(tried: tuple[str, ...]) -> bool:
        nonlocal patches
        patches += 1
        accepted = not {*denied} & {*tried}
        accepted_names.update(tried if accepted else ())
        return accepted

    isolate(names, accepts)
    return {*names} - accepted_names, patches


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), min_size=1))))
def test_what_is_denied_is_found_and_nothing_else(case: tuple[int, set[int]]) -> None:
    count, numbers = case
    denied = {f"n{number:04}" for number in numbers}
    found, patches = isolated(count, denied)
    assert found == denied
    if count <= MAX_ONE_BY_ONE:
        assert patches <= 1 + count


@pytest.mark.parametrize("count", [16, 100, 500, 1000])
def test_one_of_many_costs_about_twice_the_logarithm(count: int) -> None:
    patches = [isolated(count, {f"n{number:04}"})[1] for number in range(count)]
    assert max(patches) <= 2 * math.log2(count) + 4
    assert count != 500 or max(patches) <= 22


def test_each_denied_resource_has_its_own_reason() -> None:
    node = Admission([A, C])
    assert publish(node, {name: Quantity(4) for name in (A, B, C)}).denied == {
        name: f"policy: /status/capacity/{name.replace('/', '~1')}" for name in (A, C)
    }
    assert node.our_condition[2] == f"denied: {A}, {C}: policy: /status/capacity/…"
    (event,) = [text for text in node.events if "policy" in text]
    assert event.startswith(f"{A}: policy: ")


def test_a_denied_removal_blocks_no_other_when_all_is_withdrawn() -> None:
    state = node_state(node(capacity={A: "1", B: "2"}, annotated={A: 1, B: 2}))
    plan = make_withdrawal(state, Facts(device_plugins=frozenset(), denied={A: "a policy"}))
    assert {change.name: change.action for change in plan.changes} == {A: "deny", B: "remove"}
    assert (plan.write.annotated, plan.health.denied) == ({A: 1}, {A: "a policy"})


def test_an_altered_quantity_is_reported_as_denied() -> None:
    node = Admission()
    node.alter = lambda document: document["status"]["capacity"].update({A: "3"})
    outcome = publish(node, {A: Quantity(4), B: Quantity(1)})
    why = "the API server accepted 4 but stored 3; does an admission webhook or policy change it?"
    assert outcome.denied == {A: why}
    assert outcome.plan.write.annotated == outcome.plan.write.recorded == {A: 4, B: 1}, "what is on the Node is ours"
    assert node.our_condition == ("False", "Denied", f"denied: {A}: {why}")
    assert len(node.requests) == 2
    node.alter = lambda document: document["status"]["capacity"].update({A: "4k", B: "1000m"})
    assert publish(node, {A: Quantity(4000), B: Quantity(1)}).denied == {}, "another spelling is no other quantity"
    node.alter = lambda document: document["status"]["allocatable"].pop(A, None)
    assert "accepted 5 but stored none as allocatable" in publish(node, {A: Quantity(5), B: Quantity(2)}).denied[A]
    assert (node.our_condition[1], node.document["status"]["allocatable"]) == ("Denied", {B: "2"})


def test_an_altered_annotation_is_an_error_that_the_condition_reports_at_once() -> None:
    node = Admission()
    node.alter = lambda document: document["metadata"]["annotations"].pop(ANNOTATION, None)
    message = "accepted the annotation capacityd/published but stored a different one"
    with pytest.raises(NodeRejected, match=message):
        publish(node, {A: Quantity(4)})
    assert node.events == []
    assert node.our_condition[:2] == ("False", "Rejected")
    assert message in node.our_condition[2]


@pytest.mark.parametrize("names", [[A], [A, B]])
def test_if_everything_is_rejected_the_condition_reports_that_alone(names: list[str]) -> None:
    """For example, other writers may have filled the annotations up to their limit."""
    node = Admission(["/metadata/annotations"], reason="annotations are full")
    for _ in range(2):
        with pytest.raises(NodeRejected, match="annotations are full"):
            publish(node, {name: Quantity(4) for name in names})
        assert (node.our_condition, node.published) == (("False", "Rejected", "HTTP 422: annotations are full"), {})
    assert node.writes == 1, "the condition is written once"
    with pytest.raises(NodeRejected):
        publish(node, {A: Quantity(4)}, condition=False)
    assert node.writes == 1
    node.denied.clear()
    assert publish(node, {A: Quantity(4)}).applied
    assert node.our_condition[0] == "True"


def test_if_the_condition_is_denied_as_well_the_first_error_is_raised() -> None:
    node = Admission([A, B, "/status/conditions"])
    first, second = "policy: /status/capacity/example.com~1a", "policy: /status/conditions"
    with pytest.raises(NodeRejected, match=f"HTTP 422: {first}; .* can't be written either, .*: {second}"):
        publish(node, {A: Quantity(4), B: Quantity(1)})


@pytest.fixture
def denied() -> tuple[Service, Admission]:
    """A service that published b while a was denied, and its Node."""
    service, node = Service(), Admission([A])
    service.node, service.watched = node, True
    result = service.reconcile(1000.0, a=Quantity(4), b=Quantity(1))
    assert (result.failure, result.requeue_after, node.published) == (None, 60.0, {B: "1"})
    return service, node


def test_the_service_retries_a_denied_change_after_its_pause_and_not_in_every_pass(
    denied: tuple[Service, Admission],
) -> None:
    service, node = denied
    before = len(node.requests)
    for second in range(1010, 1060, 10):
        result = service.reconcile(float(second), {"hardware"}, a=Quantity(4), b=Quantity(1))
        assert result.requeue_after == 1060.0 - second
    assert service.reconcile(1059.0, {"resync"}, a=Quantity(4), b=Quantity(1)).outcome is not None
    assert len(node.requests) == before, "a resync sends nothing that is denied"
    pauses = []
    at = 1060.0
    for _ in range(5):
        pause = service.reconcile(at, {"requeue"}, a=Quantity(4), b=Quantity(1)).requeue_after
        assert pause is not None
        pauses.append(pause)
        at += pause
    assert pauses == [60.0, 60.0, 60.0, 60.0, 60.0]
    attempts = [paths for paths in node.requests[before:] if any("/capacity/" in path for path in paths)]
    assert len(attempts) == 5
    assert [text for text in node.events if "policy" in text] == [f"{A}: policy: /status/capacity/example.com~1a"]
    node.denied.clear()
    service.reconcile(at, {"requeue"}, a=Quantity(4), b=Quantity(1))
    assert (node.published, node.our_condition[0]) == ({A: "4", B: "1"}, "True")


@pytest.mark.parametrize("reason", ["hardware", "resync"])
@pytest.mark.parametrize("other", [Quantity(2), Quantity(4), Quantity(7), Absent("none")])
def test_another_quantity_than_the_denied_one_is_tried_at_once(reason: str, other: Reading) -> None:
    service, node = Service(), Admission()
    service.settings, service.node, service.watched = Settings(lower_after=0.0), node, True
    service.reconcile(1000.0, a=Quantity(4))
    node.most = 4
    service.reconcile(1010.0, {"hardware"}, a=Quantity(6))
    assert (node.published, node.our_condition[1]) == ({A: "4"}, "Denied")
    node.most = 9
    service.reconcile(1011.0, {reason}, a=Quantity(6))
    assert node.published == {A: "4"}, "it waits for its next attempt"
    service.reconcile(1012.0, {reason}, a=other)
    assert node.published == ({A: str(other.value)} if isinstance(other, Quantity) else {})
    assert node.our_condition[1] == "Published"
    requests = len(node.requests)
    assert service.reconcile(1013.0, {"hardware"}, a=other).requeue_after is None, (
        "nor is the denial reported any longer"
    )
    assert len(node.requests) == requests


def test_quantities_that_are_all_denied_are_tried_once_a_minute() -> None:
    """The rate limit is that of written quantities: a few at once, then one a minute."""
    service, node = Service(), Admission()
    service.node, service.watched, node.most = node, True, 0
    tried = []
    for second in range(600):
        requests = len(node.requests)
        service.reconcile(1000.0 + second, {"hardware"}, a=Quantity(1 + second))
        tried += [second] if len(node.requests) > requests else []
    assert tried[:BURST] == [*range(BURST)]
    assert all(MIN_INTERVAL <= later - earlier <= 90.0 for earlier, later in pairwise(tried[BURST - 1 :]))


@pytest.mark.parametrize("reason", ["config", "boot", "credentials"])
def test_events_that_may_end_a_denial_retry_at_once(denied: tuple[Service, Admission], reason: str) -> None:
    service, node = denied
    node.denied.clear()
    service.reconcile(1001.0, {reason}, a=Quantity(4), b=Quantity(1))
    assert (node.published, node.our_condition[0]) == ({A: "4", B: "1"}, "True")


@pytest.mark.parametrize("after", [400.0, 10_000.0])
def test_while_allocatable_is_denied_the_condition_is_false_until_it_is_right(after: float) -> None:
    """The change is tried again after each pause, however long it takes until somebody else corrects allocatable."""
    service, denying = Service(), Admission(["/status/allocatable"])
    service.node, service.watched = denying, True
    denying.document["status"] |= {"capacity": {A: "4"}, "allocatable": {A: "0"}}
    denying.document["metadata"]["annotations"][ANNOTATION] = json.dumps({A: 4})
    at = 1000.0
    while at < 1000.0 + after:
        requeue = service.reconcile(at, {"requeue"}, a=Quantity(4)).requeue_after
        assert denying.our_condition == ("False", "Denied", f"denied: {A}: policy: /status/allocatable/example.com~1a")
        assert requeue is not None
        assert requeue <= max(60.0, (at - 1000.0) / 10) + 0.001
        at += requeue
    service.allocatable[A] = "4"
    assert service.reconcile(at, {"node"}, a=Quantity(4)).requeue_after is None
    assert service.condition == "True"


def test_beside_a_denial_an_unknown_resource_is_reported_to_a_new_node_after_a_minute() -> None:
    """The service had already reported the resource to the previous Node."""
    service, busy = Service(), Unknown("busy")
    service.reconcile(1000.0, a=Quantity(4), b=busy)
    service.reconcile(1060.0, {"requeue"}, a=Quantity(4), b=busy)
    assert service.node.events[-1] == f"{B}: busy"
    service.node, service.memory = Admission([A]), Memory()
    service.node.document["metadata"]["uid"] = "another"
    service.reconcile(10.0, a=Quantity(4), b=busy, c=Quantity(1))
    assert f"{B}: busy" not in service.node.events
    service.reconcile(70.0, {"requeue"}, a=Quantity(4), b=busy, c=Quantity(1))
    assert service.node.events[-1] == f"{B}: busy"


def server_error() -> NodeWriteFailed:
    rejection = NodeRejected("the API server refused (HTTP 500): too large", "too large")
    return NodeWriteFailed("the API server is unavailable (HTTP 500): too large", None, rejection)


class Storage(Admission):
    """A Node whose API server answers writes of these paths with a server error."""

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        try:
            return super().write(patch)
        except NodeRejected as e:
            raise server_error() from e


def test_a_server_error_to_writes_only_is_a_rejection_after_a_minute() -> None:
    service = Service()
    service.reconcile(1000.0, a=Quantity(4))
    service.node, document = Storage([B]), service.node.document
    service.node.document = document
    causes = []
    for second in range(0, 61, 4):
        result = service.reconcile(1010.0 + second, {"hardware", "retry"}, a=Quantity(5), b=Quantity(1))
        causes.append(result.failure.cause if result.failure else None)
    assert causes[:-1] == [RetryCause.UNREACHABLE] * 15
    assert causes[-1] is None
    assert (service.capacity, service.node.our_condition) == ({A: "5"}, ("False", "Denied", f"denied: {B}: too large"))


def test_a_server_error_to_every_write_is_reported_by_the_service_alone() -> None:
    service = Service()
    service.node = Storage(["/"])
    service.reconcile(1000.0, a=Quantity(4))
    failure = service.reconcile(1060.0, {"retry"}, a=Quantity(4)).failure
    assert failure is not None
    assert failure.cause is RetryCause.REJECTED
    assert failure.message.endswith("the Node's condition can't be written either, so it may be out of date: too large")
    failure = service.reconcile(1150.0, {"retry"}, a=Quantity(4)).failure
    assert failure is not None
    assert failure.cause is RetryCause.REJECTED, "it does not start over"


def test_a_server_error_hours_after_another_one_is_no_rejection() -> None:
    """Not even if the API server denies another resource all the time."""
    service = Service()
    service.reconcile(1000.0, a=Quantity(4))
    service.node, document = Admission([B]), service.node.document
    service.node.document = document
    for second in (1010.0, 8000.0):
        service.node.errors = [None, server_error()]
        failure = service.reconcile(second, {"hardware"}, a=Quantity(int(second)), b=Quantity(1)).failure
        assert failure is not None
        assert failure.cause is RetryCause.UNREACHABLE
        assert not service.reconcile(second + 4.0, {"retry"}, a=Quantity(int(second)), b=Quantity(1)).failure
        assert service.node.our_condition[1] == "Denied"


def test_an_outage_is_no_rejection() -> None:
    """However long the outage lasts, it is no rejection, because reads fail as well."""
    service = Service()
    for second in range(0, 600, 10):
        service.node = MemoryNode(None, server_error()) if second % 20 else MemoryNode(NodeUnreachable("down"))
        failure = service.reconcile(1000.0 + second, {"retry"}, a=Quantity(4)).failure
        assert failure is not None
        assert failure.cause is RetryCause.UNREACHABLE
