"""The condition is True only while nothing is wrong. Its heartbeat shows that the service runs."""

from __future__ import annotations

from functools import partial

import pytest

from capacityd.model.node import CONFIGURATION_ANNOTATION, ConditionReason
from capacityd.model.other_agent import OtherAgent
from capacityd.model.plan import UNSAVED, Health
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.node.documents.node import node_state
from capacityd.reconcile.condition import changed_condition, desired_condition
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.plan import make_plan
from capacityd.schema.config import Settings
from tests.support.configs import config_with
from tests.support.nodes import node
from tests.unit.reconcile.doubles import ABSENT, EPOCH, FOUR, UNKNOWN, A, B, Service

PUBLISHED = ("True", "Published", "all configured resources are published")
ELSEWHERE = Absent("when: arch is x86_64", applies=False)


@pytest.fixture
def service() -> Service:
    """A service that expects four of a, and has just published four at uptime 1000."""
    service = Service()
    service.expect = {A: 4}
    service.reconcile(1000.0, a=FOUR)
    assert service.node.our_condition == PUBLISHED
    return service


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        (Quantity(3), ("False", "BelowExpected", f"below expected: {A} is 3 of 4")),
        (Quantity(0), ("False", "BelowExpected", f"below expected: {A} is 0 of 4")),
        (ABSENT, ("False", "BelowExpected", f"below expected: {A} is 0 of 4")),
        (Quantity(5), PUBLISHED),
        (UNKNOWN, ("False", "Unknown", f"unknown: {A}: busy")),
        (ELSEWHERE, PUBLISHED),
    ],
)
def test_less_than_expected_makes_the_condition_false_and_publishes_the_same(
    service: Service, reading: Reading, expected: tuple[str, str, str]
) -> None:
    service.reconcile(1010.0, {"hardware"}, a=reading)
    service.reconcile(1020.0, {"requeue"}, a=reading)
    assert service.node.our_condition == expected
    assert service.capacity == {A: "4"} if reading is UNKNOWN else service.capacity != {A: "4"}, "it publishes the same"


@pytest.mark.parametrize(
    ("capacity", "denied", "message"),
    [
        ({}, {A: "a policy"}, f"denied: {A}: a policy"),
        ({A: "3"}, {}, f"refused: {A}: the same value, but not published by capacityd; adopt = true takes it over"),
    ],
)
def test_what_is_not_written_is_not_less_than_expected(
    capacity: dict[str, str], denied: dict[str, str], message: str
) -> None:
    """The resource has another reason in the condition, and more hardware would not help."""
    config = config_with(expect={A: 4})
    plan = make_plan(node_state(node(capacity)), Facts({A: Quantity(3)}, config, denied=denied))
    assert plan.health.below_expected == {}
    (condition,) = (o["value"] for o in plan.write.patch if str(o["path"]).startswith("/status/conditions/"))
    assert isinstance(condition, dict)
    assert condition["message"] == message


def test_while_a_reduction_is_held_back_the_node_has_what_is_expected(service: Service) -> None:
    service.reconcile(1010.0, {"hardware", "resync"}, a=Quantity(3))
    assert (service.capacity, service.condition) == ({A: "4"}, "True")


def test_less_than_expected_has_one_event_when_it_begins_and_one_when_it_ends(service: Service) -> None:
    def about_expectations() -> list[str]:
        return [text for text in service.node.events if "(" not in text]

    for at, reading in ((1100, Quantity(3)), (1200, Quantity(3)), (1300, UNKNOWN), (1400, Quantity(3))):
        service.reconcile(float(at), {"resync"}, a=reading)
        service.reconcile(float(at + 10), {"requeue"}, a=reading)
    assert about_expectations() == [f"{A}: 3, expected 4"]
    service.reconcile(1500.0, {"hardware"}, a=FOUR)
    service.reconcile(1600.0, {"resync"}, a=FOUR)
    assert about_expectations() == [f"{A}: 3, expected 4", f"{A}: 4"]
    for second in (0, 10):
        service.reconcile(1700.0 + second, {"resync"}, a=Quantity(3))
    events = len(service.node.events)
    service.expect = {}
    service.reconcile(1720.0, {"config"}, a=Quantity(3))
    assert (service.condition, len(service.node.events)) == ("True", events), "no longer expected is no Event"


LATE = ("False", "NotAllocatable", f"not allocatable: {A} is 0 of 4")


def test_while_a_kubelet_overwrites_allocatable_the_condition_says_so(service: Service) -> None:
    """capacityd restores allocatable. If that does not last, the condition says so until a repair has lasted."""
    service.watched = True
    service.allocatable[A] = "0"
    service.reconcile(1100.0, {"node"}, a=FOUR)
    assert (service.allocatable, service.condition) == ({A: "4"}, "True")
    assert service.node.events[-1] == f"{A}: allocatable restored to 4: another writer set it to 0"
    at, writes = 1100.0, []
    while at < 1800.0:
        before, at = service.node.writes, at + 15.0
        service.allocatable[A] = "0"
        service.reconcile(at, {"node"}, a=FOUR)
        assert service.node.our_condition == LATE
        service.reconcile(at + 5.0, {"hardware"}, a=FOUR)
        assert service.node.our_condition == LATE, "not even for a moment"
        writes += [at] * (service.node.writes - before)
    assert len(writes) <= 6 + 700 / 60 + 1, "as any repair: six times, and then once a minute"
    result = service.reconcile(at := at + 60.0, {"requeue"}, a=FOUR)
    while result.requeue_after is not None:
        assert service.node.our_condition == LATE
        result = service.reconcile(at := at + result.requeue_after, {"requeue"}, a=FOUR)
    assert (service.node.our_condition, service.allocatable) == (PUBLISHED, {A: "4"})
    assert at - 1815.0 < 150.0


def test_a_repair_that_waited_for_the_rate_limit_makes_the_condition_true_only_once_it_has_lasted(
    service: Service,
) -> None:
    """While the repair is held back, nothing changes on the Node, so no pass runs for a minute."""
    service.watched = True
    for second in range(7):
        service.allocatable[A] = "0"
        result = service.reconcile(1100.0 + second, {"node"}, a=FOUR)
    assert (service.allocatable, service.node.our_condition) == ({A: "0"}, LATE)
    assert result.requeue_after is not None
    at = 1106.0 + result.requeue_after
    result = service.reconcile(at, {"requeue"}, a=FOUR)
    assert (service.allocatable, service.node.our_condition) == ({A: "4"}, LATE)
    assert result.requeue_after == 30.0
    service.reconcile(at + 60.0, {"requeue"}, a=FOUR)
    assert service.node.our_condition == PUBLISHED


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        (("a.toml:3: x",), "the configuration has errors: a.toml:3: x (capacityd config check)"),
        (("a.toml:3: x", "b", "c"), "the configuration has errors: a.toml:3: x; and 2 more (capacityd config check)"),
    ],
)
def test_a_rejected_configuration_makes_the_condition_false_until_it_is_mended(
    service: Service, errors: tuple[str, ...], message: str
) -> None:
    service.configuration_errors = errors
    for at in (1100.0, 1200.0):
        service.reconcile(at, {"config"}, a=FOUR)
        assert service.node.our_condition == ("False", "ConfigurationRejected", message)
    assert service.node.events[1:] == ["; ".join(errors)], "one Event"
    service.configuration_errors = ("other.toml:1: y",)
    service.reconcile(1300.0, {"config"}, a=FOUR)
    assert service.node.events[2:] == ["other.toml:1: y"], "another rejection is another Event"
    service.configuration_errors = ()
    service.reconcile(1400.0, {"config"}, a=FOUR)
    assert (service.condition, len(service.node.events)) == ("True", 3)


MESSAGES: dict[ConditionReason, tuple[Health, str]] = {
    ConditionReason.CONFIGURATION_REJECTED: (
        Health(configuration_errors=("a.toml:3: x",)),
        "the configuration has errors: a.toml:3: x (capacityd config check)",
    ),
    ConditionReason.STATE_NOT_WRITABLE: (
        Health(unsaved="/run: full"),
        f"{UNSAVED}: /run: full",
    ),
    ConditionReason.OTHER_AGENT: (
        Health(other_agent=OtherAgent(1000.0, {A: (4, 6)})),
        "another capacityd, on another machine or in a container, also writes this Node",
    ),
    ConditionReason.UNKNOWN: (Health(unknown={A: "busy", B: "busy"}), f"unknown: {A}, {B}: busy"),
    ConditionReason.REFUSED: (
        Health(refused={A: "another writer's"}, unverified=(B,)),
        f"refused: {A}: another writer's; not published by this machine: {B}",
    ),
    ConditionReason.DENIED: (Health(denied={A: "a policy"}), f"denied: {A}: a policy"),
    ConditionReason.NOT_CONFIGURED: (
        Health(not_configured=(A, B)),
        f"kept, although no resource is configured: {A}, {B}",
    ),
    ConditionReason.BELOW_EXPECTED: (Health(below_expected={A: (3, 4)}), f"below expected: {A} is 3 of 4"),
    ConditionReason.NOT_ALLOCATABLE: (Health(not_allocatable={A: ("4", "0")}), f"not allocatable: {A} is 0 of 4"),
    ConditionReason.PUBLISHED: (Health(), "all configured resources are published"),
}


@pytest.mark.parametrize("reason", [reason for reason in ConditionReason if reason is not ConditionReason.REJECTED])
def test_every_reason_has_its_message(reason: ConditionReason) -> None:
    """Rejected has no message in a plan, because no part of the plan could be written then."""
    health, message = MESSAGES[reason]
    status = "True" if reason is ConditionReason.PUBLISHED else "False"
    condition = desired_condition(node_state(node()), health, EPOCH, None)
    assert condition
    assert (condition.status, condition.reason, condition.message) == (status, reason, message)


def test_the_most_urgent_is_the_reason_and_the_message_names_all(service: Service) -> None:
    service.configuration_errors = ("a.toml:3: x",)
    service.capacity[B] = "9"
    service.reconcile(1100.0, {"resync"}, a=Quantity(3), b=Quantity(1), c=UNKNOWN)
    service.reconcile(1110.0, {"requeue"}, a=Quantity(3), b=Quantity(1), c=UNKNOWN)
    assert service.node.our_condition == (
        "False",
        "ConfigurationRejected",
        "the configuration has errors: a.toml:3: x (capacityd config check); unknown: example.com/c: busy; "
        f"refused: {B}: not published by capacityd; adopt = true takes it over; below expected: {A} is 3 of 4",
    )


KEPT = ("False", "NotConfigured", f"kept, although no resource is configured: {A}")


def test_what_nothing_configures_is_kept_and_reported_until_it_is_configured_again(service: Service) -> None:
    """The reading's change at 5200 is published at once, so capacityd still owns the key."""
    for at in (1100.0, 1200.0, 5000.0):
        service.reconcile(at, {"config"})
        assert (service.capacity, service.node.our_condition) == ({A: "4"}, KEPT)
    writes = service.node.writes
    service.reconcile(5100.0, {"resync"})
    assert service.node.writes == writes, "nothing is new"
    service.reconcile(5200.0, {"config"}, a=Quantity(5))
    assert (service.capacity, service.node.our_condition) == ({A: "5"}, PUBLISHED)


def test_what_nothing_configures_is_not_reported_once_it_has_gone(service: Service) -> None:
    service.reconcile(1100.0, {"config"})
    del service.capacity[A], service.allocatable[A]
    service.reconcile(1200.0, {"resync"})
    assert service.node.our_condition[1] != "NotConfigured"


def test_a_configuration_that_cannot_be_read_is_reported_instead_of_what_it_lacks(service: Service) -> None:
    """It may configure what is kept."""
    service.complete = False
    service.reconcile(1100.0, {"config"})
    assert (service.capacity, service.node.our_condition[1]) == ({A: "4"}, "ConfigurationRejected")


@pytest.mark.parametrize(("number", "length", "shown"), [(100, 100, 100), (100, 500, 150), (600, 100, 0)])
def test_as_much_of_each_reason_is_shown_as_fits(service: Service, number: int, length: int, shown: int) -> None:
    """The message names every resource. Kubernetes' API conventions limit the message to 32,768 characters."""
    unknown = {f"r{n:03}": Unknown(f"{n:03}".ljust(length, "x")) for n in range(number)}
    service.reconcile(1010.0, {"config"}, a=FOUR, **unknown)
    message = service.node.our_condition[2]
    reasons = {name: f": {reading.reason[:shown]}" if shown else "" for name, reading in unknown.items()}
    parts = [f"unknown: example.com/{name}{reason}" for name, reason in reasons.items()]
    assert message == "; ".join(part if shown in (0, length) else part[:-1] + "…" for part in parts)
    rejected = partial(changed_condition, node_state(node()), ConditionReason.REJECTED)
    fitting, longer = (rejected("x" * length, EPOCH) for length in (32_768, 32_769))
    assert (fitting and fitting.message, longer and longer.message) == ("x" * 32_768, "x" * 32_767 + "…")


def test_a_resource_has_one_event_after_a_minute_unknown_and_one_when_it_can_be_read_again(service: Service) -> None:
    events = service.node.events
    assert service.reconcile(1100.0, {"hardware"}, a=UNKNOWN, b=FOUR).requeue_after == 60.0
    before = [*events]
    service.reconcile(1150.0, {"hardware"}, a=UNKNOWN, b=FOUR)
    assert events == before
    service.reconcile(1160.0, {"requeue"}, a=UNKNOWN, b=FOUR)
    assert events[len(before) :] == [f"{A}: busy"]
    opened = service.opened
    service.reconcile(1300.0, {"requeue"}, a=Unknown("still busy"), b=FOUR)
    assert (service.opened, service.node.our_condition[2]) == (opened + 1, f"unknown: {A}: still busy")
    assert events[len(before) :] == [f"{A}: busy"], "nothing is new"
    service.reconcile(4700.0, {"resync"}, a=UNKNOWN, b=FOUR)
    service.reconcile(4800.0, {"hardware"}, a=FOUR, b=FOUR)
    service.reconcile(4900.0, {"resync"}, a=FOUR, b=FOUR)
    assert events[len(before) :] == [f"{A}: busy", f"{A}: 4"]


def test_while_no_record_can_be_kept_an_unknown_resource_is_not_reported_again_and_again(service: Service) -> None:
    service.save_error = "No space left on device"
    for at in range(1100, 1500, 50):
        service.reconcile(float(at), {"hardware"}, a=UNKNOWN)
    assert [event for event in service.node.events if "busy" in event] == []


def heartbeat(service: Service) -> float | None:
    condition = service.node.read().condition
    return None if condition is None else condition.heartbeat


def test_the_heartbeat_is_refreshed_at_each_resync_and_at_no_event(service: Service) -> None:
    service.watched = True
    assert heartbeat(service) == EPOCH + 1000.0
    writes = service.node.writes
    service.reconcile(1010.0, {"hardware"}, a=FOUR)
    service.reconcile(2700.0, {"plugins", "node"}, a=FOUR)
    assert (heartbeat(service), service.node.writes) == (EPOCH + 1000.0, writes), "it is younger than half a period"
    for at in (4000.0, 7200.0):
        service.reconcile(at, {"resync"}, a=FOUR)
        assert heartbeat(service) == EPOCH + at
    assert service.node.writes == writes + 2
    for at, stored in ((7210.0, "2100-01-01T00:00:00Z"), (7220.0, "yesterday"), (7230.0, None)):
        service.node.document["status"]["conditions"][-1]["lastHeartbeatTime"] = stored
        service.reconcile(at, {"resync"}, a=FOUR)
        assert heartbeat(service) == EPOCH + at, "one that makes no sense is replaced"
    service.settings = Settings(condition=False)
    service.reconcile(7300.0, {"config"}, a=FOUR)
    writes = service.node.writes
    service.reconcile(15_000.0, {"resync"}, a=FOUR)
    assert (service.node.writes, heartbeat(service)) == (writes, None), "without a condition there is none"


def test_the_hash_of_the_configuration_is_on_the_node(service: Service) -> None:
    def annotation() -> object:
        return service.node.document["metadata"]["annotations"].get(CONFIGURATION_ANNOTATION)

    assert annotation() == "first"
    service.digest = "second"
    for others in ({}, {CONFIGURATION_ANNOTATION: "é<another"}, {CONFIGURATION_ANNOTATION: None}):
        annotations = service.node.document["metadata"]["annotations"] | others
        service.node.document["metadata"]["annotations"] = {k: v for k, v in annotations.items() if v is not None}
        service.reconcile(1100.0, {"resync"}, a=FOUR)
        assert (annotation(), service.capacity) == ("second", {A: "4"})
