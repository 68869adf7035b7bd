"""Which Nodes need attention, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capacityd.model.node import Condition, ConditionReason
from kubectl_capacityd.fleet.assess import FleetReport, NodeReport, NodeResource, ResourceSummary, assess, rank
from kubectl_capacityd.fleet.findings import Finding, Reason
from kubectl_capacityd.model import Fleet, NodeSummary, PodRequests

NOW = 1_800_000_000.0
MAX_AGE = 7_800.0  # seconds until a heartbeat is overdue


DONGLE, SEATS = "example.com/dongle", "example.com/seats"
WELL = Condition("True", "Published", "all configured resources are published", NOW - 60)
TWO = {DONGLE: 4, SEATS: 2}


def node(name: str = "odd", quantity: int | None = 4, **changes: object) -> NodeSummary:
    """A healthy Node that publishes this many dongles. None: it publishes nothing."""
    published = {} if quantity is None else {DONGLE: quantity}
    healthy = NodeSummary(name, "m5", published, published, published, "4f1c", WELL)
    return replace(healthy, **changes)  # type: ignore[arg-type]


def bare(name: str = "odd", label: str | None = "m5") -> NodeSummary:
    """A Node without capacityd."""
    return NodeSummary(name, label)


def assessed(*nodes: NodeSummary, classes: tuple[str, ...] = ()) -> FleetReport:
    """The report on these Nodes. classes: the DeviceClasses that define the dongle, too."""
    return assess(Fleet(nodes, {DONGLE: classes} if classes else {}), NOW, MAX_AGE)


def group(count: int, quantity: int | None = 4, **changes: object) -> list[NodeSummary]:
    """This many Nodes that are alike: n0, n1, and so on."""
    return [node(f"n{number}", quantity, **changes) for number in range(count)]


def reported(report: FleetReport) -> list[tuple[str | None, str, str]]:
    """The Node, the reason and the message of each finding."""
    return [(finding.node, finding.reason, finding.message) for finding in report.findings]


def test_a_healthy_fleet_has_no_finding() -> None:
    report = assessed(*group(3), *group(2, quantity=None, label_value="login"), node("big", 9, label_value="m6"))
    dongles = ResourceSummary(DONGLE, nodes=4, capacity=21, allocatable=21, usual=4)
    assert report == FleetReport(nodes=6, resources=(dongles,), findings=(), as_of=NOW)


REFUSED = Condition("False", "Refused", "refused: example.com/x", NOW)
OLD = replace(WELL, heartbeat=NOW - 3 * 3600)


@pytest.mark.parametrize(
    ("odd", "reason", "message"),
    [
        (node(condition=REFUSED), "Refused", "refused: example.com/x"),
        (node(condition=Condition("Unknown", "", "", NOW)), "Unknown", "status Unknown"),
        (node(condition=OLD), "HeartbeatOverdue", "no heartbeat for 3 h"),
        (node(condition=replace(WELL, heartbeat=None)), "HeartbeatOverdue", "the condition has no heartbeat"),
        (node(condition=replace(WELL, heartbeat=NOW + 3 * 3600)), "HeartbeatAhead", "is 3 h in the future: "),
        (node(annotation_error="it is not JSON"), "NotAsPublished", "capacityd/published: it is not JSON"),
        (bare(), "ConditionMissing", "other Nodes of m5 have the condition CapacityPublished"),
        (node(condition=None), "ConditionMissing", "other Nodes of m5 have the condition CapacityPublished"),
        (node(allocatable={DONGLE: 0}), "NotAsPublished", f"allocatable {DONGLE} is 0, published 4"),
        (node(allocatable={}), "NotAsPublished", f"allocatable {DONGLE} is none, published 4"),
        (node(capacity={DONGLE: 0}), "NotAsPublished", f"{DONGLE} is 0, published 4"),
        (node(published=TWO), "NotAsPublished", f"{SEATS} is none, published 2"),
        (node(quantity=3), "QuantityDiffers", f"{DONGLE} is 3, 5 of 6 Nodes of m5 have 4"),
        (node(quantity=None), "QuantityDiffers", f"{DONGLE} is none, 5 of 6 Nodes of m5 have 4"),
        (node(published=TWO, capacity=TWO, allocatable=TWO), "QuantityDiffers", "is 2, 5 of 6 Nodes of m5 have none"),
        (node(configuration="0"), "ConfigurationDiffers", "configuration 0, 5 of 6 Nodes of m5 have 4f1c"),
    ],
)
def test_a_node_is_reported_with_its_reason(odd: NodeSummary, reason: str, message: str) -> None:
    (finding,) = assessed(*group(5), odd).findings
    assert (finding.node, finding.reason) == ("odd", reason)
    assert message in finding.message


@pytest.mark.parametrize(
    "odd",
    [
        node(condition=replace(WELL, heartbeat=NOW - MAX_AGE)),
        node(condition=replace(WELL, heartbeat=NOW + 60)),
        node(ready=False),
        node(cordoned=True),
        node(configuration=""),
        node(capacity={DONGLE: 4, "other.example/card": 7}),
        node(quantity=9, label_value="m6"),
        bare(label=None),
    ],
)
def test_a_harmless_difference_is_not_reported(odd: NodeSummary) -> None:
    assert assessed(*group(5), odd).findings == ()


def test_a_node_that_is_not_ready_and_silent_is_one_finding() -> None:
    silent = node(condition=OLD, ready=False, ready_since=NOW - 4 * 3600, cordoned=True)
    (finding,) = assessed(*group(5), silent).findings
    message = "the Node is not ready, and capacityd has no heartbeat for 3 h"
    shared = message.replace("3 h", "more than 2 h")
    since = NOW - 4 * 3600
    assert finding == Finding("NotReady", message, shared, since=since, node="odd", ready=False, cordoned=True)


def test_the_worst_finding_comes_first() -> None:
    odd = [
        node("a", quantity=3),
        node("b", condition=Condition("False", "Mystery", "of a newer version", NOW)),
        node("c", capacity={DONGLE: 1}, configuration="0", condition=replace(REFUSED, heartbeat=OLD.heartbeat)),
        node("d", capacity={DONGLE: 0}),
    ]
    report = assessed(*group(50), *odd, classes=("dongles",))
    assert [(name, reason) for name, reason, _ in reported(report)] == [
        (None, "DeviceClass"),
        ("c", "HeartbeatOverdue"),
        ("c", "NotAsPublished"),
        ("d", "NotAsPublished"),
        ("c", "Refused"),
        ("a", "QuantityDiffers"),
        ("c", "ConfigurationDiffers"),
        ("b", "Mystery"),
    ]


def with_requests(*nodes: NodeSummary, waiting: int = 0, **by_node: int) -> Fleet:
    """A fleet whose pods request these numbers of dongles on each Node. waiting: requested by pods without a Node."""
    requests = {name: {DONGLE: number, "other.example/x": 1} for name, number in by_node.items()}
    return Fleet(nodes, {}, PodRequests(requests, {DONGLE: waiting} if waiting else {}))


def test_requested_and_free_quantities_are_added_up() -> None:
    fleet = with_requests(node("a"), node("b"), node("c", 2, allocatable={}), bare("d"), a=3, b=0, d=5, waiting=2)
    report = assess(fleet, NOW, MAX_AGE, by_node=True)
    (dongles,) = report.resources
    total = ResourceSummary(DONGLE, nodes=3, capacity=10, allocatable=8, usual=4, requested=3, free=5, waiting=2)
    assert dongles == total
    assert report.by_node == (  # name, ready, cordoned, resources
        NodeReport("a", None, False, (NodeResource(DONGLE, capacity=4, allocatable=4, requested=3, free=1),)),
        NodeReport("b", None, False, (NodeResource(DONGLE, capacity=4, allocatable=4, requested=0, free=4),)),
        NodeReport("c", None, False, (NodeResource(DONGLE, capacity=2, allocatable=0, requested=0, free=0),)),
        NodeReport("d", None, False, ()),
    )


def test_requests_that_exceed_the_capacity_are_a_finding() -> None:
    fleet = with_requests(*group(5), node("odd", 4), node("gone", None, published={}), odd=5, gone=1, n0=4)
    report = assess(fleet, NOW, MAX_AGE)
    assert {(name, message) for name, reason, message in reported(report) if reason == "Overcommitted"} == {
        ("odd", f"pods request 5 {DONGLE}, capacity is 4"),
        ("gone", f"pods request 1 {DONGLE}, capacity is 0"),
    }
    (dongles,) = report.resources
    assert dongles.free == 4 * 4, "the Nodes with too many requests have no free dongles, and reduce no other Node's"
    served = replace(fleet, device_classes={DONGLE: ("dongles",)})
    assert "Overcommitted" not in [reason for _, reason, _ in reported(assess(served, NOW, MAX_AGE))]


def test_named_nodes_are_compared_with_all_others() -> None:
    fleet = Fleet((*group(5), node("odd", 3), node("well")))
    report = assess(fleet, NOW, MAX_AGE, ["odd"])
    assert report.nodes == 1
    assert report.resources == (ResourceSummary(DONGLE, nodes=1, capacity=3, allocatable=3, usual=3),)
    assert [name for name, _, _ in reported(report)] == ["odd"]
    assert assess(fleet, NOW, MAX_AGE, ["well"]).findings == ()


def test_every_reason_has_a_rank() -> None:
    unknown = rank("a reason of a newer version")
    assert all(rank(reason.value) != unknown for reason in (*Reason, *ConditionReason))


@pytest.mark.parametrize(("others", "is_reported"), [(3, False), (4, True)])
def test_four_fifths_of_a_group_make_the_others_outliers(others: int, is_reported: bool) -> None:
    for odd in (node(quantity=3), node(configuration="0000")):
        assert bool(assessed(*group(others), odd).findings) is is_reported


def test_a_node_without_capacityd_is_not_compared_with_others() -> None:
    report = assessed(*group(5), node(quantity=3), *(bare(f"bare{n}") for n in range(20)))
    (message,) = (message for name, _, message in reported(report) if name == "odd")
    assert message == f"{DONGLE} is 3, 5 of 6 Nodes of m5 have 4"
    assert {reason for name, reason, _ in reported(report) if name != "odd"} == {"ConditionMissing"}


def test_one_node_with_a_configuration_is_no_outlier() -> None:
    assert assessed(*group(5, configuration=""), node()).findings == ()


def test_a_device_class_of_the_same_name_concerns_the_cluster() -> None:
    serves = "also serves example.com/dongle (extendedResourceName)"
    assert reported(assessed(*group(2), classes=("dongles", "more"))) == [
        (None, "DeviceClass", f"the DeviceClass dongles {serves}"),
        (None, "DeviceClass", f"the DeviceClass more {serves}"),
    ]
    assert assessed(*group(2, quantity=None), classes=("dongles",)).findings == ()


def test_the_summary_counts_only_nodes_that_publish() -> None:
    half = node("half", capacity={DONGLE: 4}, allocatable={})
    foreign = node("foreign", quantity=None, capacity={DONGLE: 100}, allocatable={DONGLE: 100})
    zeroed = node("zeroed", capacity={}, allocatable={})
    (dongles,) = assessed(node("a"), half, foreign, zeroed).resources
    assert dongles == ResourceSummary(DONGLE, nodes=3, capacity=8, allocatable=4, usual=4)
