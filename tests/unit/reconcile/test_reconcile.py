"""One pass: whether it reads the Node, which changes it holds back until when, and what it remembers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from capacityd.linux.clock import BOOT_SECONDS
from capacityd.model.errors import (
    CredentialsMissing,
    NodeConflict,
    NodeError,
    NodeMissing,
    NodeRejected,
    NodeUnauthorized,
    NodeUnreachable,
)
from capacityd.model.messages import Failure
from capacityd.model.node import NodeState
from capacityd.model.other_agent import OtherAgent
from capacityd.model.reading import Quantity, Reading
from capacityd.model.reasons import PassReason, RetryCause
from capacityd.reconcile.apply import MAX_CONFLICTS
from capacityd.reconcile.less_allocatable import LessAllocatable
from capacityd.reconcile.memory import Conflict, Memory
from capacityd.reconcile.result import ReconcileResult
from capacityd.reconcile.timing import BURST, MIN_INTERVAL, Denial, WriteTimes
from capacityd.schema.config import Settings
from capacityd.service.schedule import Schedule
from tests.support.nodes import node
from tests.unit.reconcile.doubles import ABSENT, FOUR, UNKNOWN, A, B, MemoryNode, Service, WithoutConditions, held

REASONS = ({"boot"}, {"hardware"}, {"requeue"}, {"node"}, {"retry"}, {"config"}, {"hardware", "node"})


@pytest.fixture
def service() -> Service:
    """A service that watches its Node, has published a=4 at uptime 1000, and has nothing to do."""
    published = Service()
    published.watched = True
    assert published.reconcile(1000.0, a=FOUR).requeue_after is None
    assert published.capacity == {A: "4"}
    published.opened = 0
    return published


@pytest.mark.parametrize("reasons", REASONS)
def test_while_the_node_is_watched_only_a_difference_costs_a_request(service: Service, reasons: set[str]) -> None:
    result = service.reconcile(1010.0, reasons, a=FOUR)
    assert (service.opened, result.requeue_after, result.failure) == (0, None, None)
    assert result.outcome is not None
    service.capacity[A] = "0"
    service.reconcile(1020.0, reasons, a=FOUR)
    assert (service.opened, service.capacity, service.node.reads) == (1, {A: "4"}, 0)


@pytest.mark.parametrize("reasons", REASONS)
def test_a_node_that_is_not_watched_is_read(service: Service, reasons: set[str]) -> None:
    service.watched = False
    service.capacity[A] = "0"
    assert service.reconcile(1010.0, reasons, a=FOUR).outcome is not None
    assert (service.opened, service.capacity, service.node.reads) == (1, {A: "4"}, 1)


def test_a_resync_refreshes_the_heartbeat_in_one_request(service: Service) -> None:
    service.reconcile(1000.0 + 3600.0, {"hardware"}, a=FOUR)
    assert service.node.writes == 1
    service.reconcile(1000.0 + 3600.0, {"resync"}, a=FOUR)
    assert (service.node.writes, service.node.reads) == (2, 0)


def test_a_condition_that_is_not_stored_is_written_again_after_a_pause_that_grows(service: Service) -> None:
    node = WithoutConditions()
    service.node = node
    at = 1000.0
    while at < 10_000.0:
        pause = service.reconcile(at, {"requeue"}, a=FOUR).requeue_after
        assert pause is not None
        assert pause == pytest.approx(min(max(60.0, (at - 1000.0) / 10), 600.0))
        at += pause
    assert node.state().condition is None
    node.removes = False
    assert service.reconcile(at, {"requeue"}, a=FOUR).requeue_after is None
    assert service.condition == "True"


def test_what_is_unknown_is_read_again_after_a_pause_that_grows_with_time_and_without_requests(
    service: Service,
) -> None:
    at, opened = 1010.0, 0
    while at < 30_000.0:
        pause = service.reconcile(at, {"requeue"}, a=UNKNOWN, b=FOUR).requeue_after
        assert pause == pytest.approx(min(max(60.0, (at - 1010.0) / 10), 600.0))
        assert pause is not None
        at, opened = at + pause, opened or service.opened
    assert service.opened == opened + 1, "once, for an Event"
    assert service.reconcile(at, {"requeue"}, a=FOUR, b=FOUR).requeue_after is None
    assert service.reconcile(at + 100.0, {"hardware"}, a=UNKNOWN, b=FOUR).requeue_after == 60.0


@pytest.mark.parametrize("less", [Quantity(3), Quantity(0), ABSENT, None], ids=["3", "0", "absent", "not configured"])
@pytest.mark.parametrize("reason", ["hardware", "resync"])
def test_a_reduction_is_held_back_and_becomes_due(service: Service, less: Reading | None, reason: str) -> None:
    """The next reduction is held back as well. If the device resets meanwhile, the wait restarts without a request."""
    lower = {"b": ABSENT} | ({"a": less} if less else {})
    result = service.reconcile(1010.0, {reason}, **lower)
    assert (result.requeue_after, held(result), service.capacity) == (10.0, {A: 10.0}, {A: "4"})
    service.opened = 0
    assert service.reconcile(1014.0, {"hardware"}, **lower).requeue_after == 6.0
    assert service.reconcile(1015.0, {"hardware"}, b=ABSENT, a=FOUR).requeue_after is None
    assert service.reconcile(1019.0, {"hardware"}, **lower).requeue_after == 10.0
    assert service.opened == 0
    result = service.reconcile(1029.0, {"requeue"}, **lower)
    assert (service.opened, result.requeue_after) == (1, None)
    assert service.capacity == ({A: str(less.value)} if isinstance(less, Quantity) else {})
    if less == Quantity(3):
        assert service.reconcile(1030.0, {reason}, a=Quantity(2), b=ABSENT).requeue_after == 10.0
        assert service.capacity == {A: "3"}


@pytest.mark.parametrize(("uptime", "lower_after"), [(20.0, 60.0), (BOOT_SECONDS - 1, 60.0), (BOOT_SECONDS, 10.0)])
def test_soon_after_boot_a_reduction_is_held_longer(uptime: float, lower_after: float) -> None:
    service = Service()
    service.reconcile(uptime, a=FOUR)
    assert service.reconcile(uptime, {"hardware"}, a=ABSENT).requeue_after == lower_after


def test_a_raise_at_boot_waits_for_the_rate_limit_only() -> None:
    service = Service()
    service.settings = Settings(lower_after_boot=900.0)
    for number in range(BURST):
        service.reconcile(20.0 + number, {"hardware"}, a=Quantity(number))
    assert service.reconcile(30.0, {"resync"}, a=Quantity(9)).requeue_after == 20.0 + BURST - 1 + MIN_INTERVAL - 30.0


def test_a_resource_that_keeps_changing_is_written_once_a_minute() -> None:
    service, last = Service(), 1000.0 + BURST - 1
    service.watched = True
    for number in range(BURST):
        service.reconcile(1000.0 + number, {"hardware"}, a=Quantity(number))
    assert service.capacity == {A: str(BURST - 1)}
    asked = service.opened
    result = service.reconcile(last + 1, {"hardware"}, a=Quantity(50))
    assert (result.requeue_after, service.opened) == (MIN_INTERVAL - 1, asked)
    result = service.reconcile(last + 2, {"resync"}, a=Quantity(51))
    assert (result.requeue_after, service.capacity) == (MIN_INTERVAL - 2, {A: str(BURST - 1)})
    result = service.reconcile(last + MIN_INTERVAL, {"requeue"}, a=Quantity(51), b=Quantity(1))
    assert (result.requeue_after, service.capacity) == (None, {A: "51", B: "1"})
    result = service.reconcile(last + MIN_INTERVAL + 5, {"hardware"}, a=Quantity(52), b=Quantity(2))
    assert (result.requeue_after, service.capacity) == (MIN_INTERVAL - 5, {A: "51", B: "2"}), "b may change"
    service.node.document = node()
    service.node.document["metadata"]["uid"] = "another"
    service.reconcile(last + MIN_INTERVAL + 6, {"resync"}, a=Quantity(52), b=Quantity(2))
    assert service.capacity == {A: "52", B: "2"}, "it was created anew"


@pytest.mark.parametrize("other", [node({A: "7"}, {A: 4}), node()], ids=["the key", "the record too"])
def test_a_competing_writer_is_reverted_once_a_minute(service: Service, other: dict[str, Any]) -> None:
    written = []
    for second in range(0, 600, 10):
        service.node.document = other
        service.reconcile(1300.0 + second, {"resync"}, a=FOUR)
        if service.capacity.get(A) == "4":
            written.append(second)
        elif second == 10 * (BURST - 1):  # the first change that is held back becomes due
            assert held(service.reconcile(1301.0 + second, {"hardware"}, a=FOUR)) == {A: MIN_INTERVAL - 11}
    assert written[: BURST - 1] == [*range(0, 10 * (BURST - 1), 10)]
    assert all(later - earlier >= MIN_INTERVAL for earlier, later in pairwise(written[BURST:]))
    assert 8 <= len(written[BURST:]) <= 10


def test_a_flapping_reading_updates_the_condition_once_a_minute(service: Service) -> None:
    for second in range(BURST):
        service.reconcile(1300.0 + second, {"resync"}, a=FOUR if second % 2 else UNKNOWN)
    last, opened, writes = 1300.0 + BURST - 1, service.opened, service.node.writes
    for later in (5, 20):
        assert service.reconcile(last + later, {"hardware"}, a=UNKNOWN).requeue_after == MIN_INTERVAL - later
        assert service.reconcile(last + later + 1, {"hardware"}, a=FOUR).requeue_after is None
    assert service.opened == opened, "nor is the Node read more often"
    result = service.reconcile(last + 30, {"resync"}, a=UNKNOWN)
    assert (result.requeue_after, service.condition) == (MIN_INTERVAL - 30, "True")
    assert service.reconcile(last + 40, {"hardware"}, a=UNKNOWN).requeue_after == MIN_INTERVAL - 40
    assert service.node.writes == writes
    service.reconcile(last + MIN_INTERVAL, {"requeue"}, a=UNKNOWN)
    assert service.condition == "False"
    assert service.reconcile(last + MIN_INTERVAL + 1, {"hardware"}, a=Quantity(5)).requeue_after is None
    assert (service.capacity, service.condition) == ({A: "5"}, "True"), "with a quantity it costs nothing more"


@pytest.mark.parametrize(
    "error",
    [
        NodeUnreachable("down", retry_after=7.0),
        NodeUnauthorized("who?"),
        CredentialsMissing("nobody yet", ["/etc/kubernetes/kubelet.conf"]),
        NodeConflict("somebody else"),
        NodeMissing("the API server", "n1"),
        NodeRejected("nonsense"),
    ],
)
def test_a_failure_is_reported_and_keeps_the_state(service: Service, error: NodeError) -> None:
    """A rejection is retried less often than an error that may end at any moment."""
    before = service.memory
    service.error = error
    result = service.reconcile(1010.0, {"resync"}, a=Quantity(5))
    assert result.outcome is None
    retry_after, files = getattr(error, "retry_after", None), getattr(error, "files", ())
    assert result.failure == Failure(str(error), error.cause, retry_after, files)
    conflict = Conflict(str(error), 1010.0, 1010.0) if isinstance(error, NodeConflict) else None
    if isinstance(error, NodeMissing):
        before = replace(before, node=None, write_times=WriteTimes())
    assert result.memory == replace(before, conflict=conflict, has_failed=True)
    service.error = None
    service.reconcile(1070.0, {"retry"}, a=Quantity(5))
    assert service.capacity == {A: "5"}


def test_a_checkpoint_with_the_same_names_sends_no_request(service: Service) -> None:
    """The kubelet rewrites the checkpoint for each pod with devices."""
    service.plugins = ["vendor.example/gpu", B]
    service.reconcile(1010.0, {"resync"}, a=FOUR)
    asked = service.opened
    service.plugins = [B, "vendor.example/gpu"]
    for reasons in ({"plugins"}, {"plugins", "hardware"}):
        service.reconcile(1020.0, reasons, a=FOUR)
    assert service.opened == asked
    for number, (plugins, requests) in enumerate((([B], 0), (None, 0), ([B, A], 1), ([], 2)), 1):
        service.plugins = plugins
        for _ in range(2):
            service.reconcile(1040.0 + 100 * number, {"plugins"}, a=FOUR)
            assert service.opened == asked + requests, "only a name of ours concerns the Node"


def test_a_reduction_after_a_failure_is_held_back_in_full(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed pass leaves the next attempt to the schedule, even if the shortest random pause is chosen."""
    monkeypatch.setattr("capacityd.reconcile.apply.random.uniform", min)
    service.reconcile(1010.0, {"resync"}, a=Quantity(3))
    service.node.lose = 1
    assert service.reconcile(1015.0, {"hardware"}, a=Quantity(5)).failure
    assert service.reconcile(1021.0, {"retry"}, a=Quantity(3)).requeue_after == 10.0
    assert service.capacity == {A: "5"}


def test_observe_mode_writes_nothing(service: Service) -> None:
    service.settings = Settings(observe=True)
    writes = service.node.writes
    result = service.reconcile(1010.0, {"config"}, a=Quantity(5), b=Quantity(1))
    assert result.outcome is not None
    assert [(c.name, c.action) for c in result.outcome.plan.changes] == [(A, "set"), (B, "set")]
    assert not result.outcome.applied
    assert result.outcome.plan.write.annotated == {A: 4}, "what the Node's record has, not what it would have"
    result = service.reconcile(1020.0, {"config"}, a=ABSENT)
    assert result.requeue_after == 10.0
    assert service.reconcile(1030.0, {"requeue"}, a=ABSENT).requeue_after is None
    service.reconcile(1040.0, {"hardware"}, a=ABSENT)
    assert service.reconcile(1050.0, {"resync"}, a=ABSENT).requeue_after is None
    service.allocatable[A] = "0"
    assert service.reconcile(1060.0, {"resync"}, a=FOUR).requeue_after is None, "nor is allocatable restored"
    assert (service.node.writes, service.capacity) == (writes, {A: "4"})


def test_in_observe_mode_nothing_is_held_back_or_read_again_and_again() -> None:
    """This holds for a reduction of a foreign key, and for a resource that stays unknown."""
    service = Service()
    service.watched, service.settings, service.adopt = True, Settings(observe=True), {A}
    service.capacity[A] = "9"
    assert service.reconcile(1000.0, {"config"}, a=FOUR, b=UNKNOWN).requeue_after == 10.0
    assert service.reconcile(1010.0, {"requeue"}, a=FOUR, b=UNKNOWN).requeue_after == 60.0
    opened = service.opened
    service.reconcile(1020.0, {"hardware"}, a=FOUR, b=UNKNOWN)
    service.reconcile(1130.0, {"requeue"}, a=FOUR, b=UNKNOWN)
    assert service.opened == opened, "no Event reports it, so none is due"
    result = service.reconcile(1140.0, {"resync"}, a=FOUR, b=UNKNOWN)
    assert held(result) == {}, "an event that changed nothing began it anew"


def test_a_device_plugin_that_registers_while_we_write_keeps_its_value(service: Service) -> None:
    def register() -> None:
        service.plugins = {A}
        service.capacity[A] = "2"

    service.node.between = register
    result = service.reconcile(1010.0, {"hardware"}, a=Quantity(7))
    assert (service.capacity[A], result.outcome and result.outcome.plan.refused) == ("2", (A,))


def _message(result: ReconcileResult, cause: RetryCause) -> str:
    assert result.failure is not None
    assert result.failure.cause is cause
    return result.failure.message


def test_a_record_that_cannot_be_saved_lowers_nothing_and_is_reported() -> None:
    """The error only shows when the record is written. The same pass still makes the changes that need no record."""
    service = Service()
    service.reconcile(1000.0, a=FOUR, b=Quantity(2))
    service.settings = Settings(lower_after=0.0)
    service.full = "published.json could not be written: No space left on device"
    result = service.reconcile(1010.0, {"hardware"}, a=Quantity(5), b=Quantity(1))
    assert result.failure == Failure(service.full, RetryCause.STATE)
    assert service.capacity == {A: "5", B: "2"}
    assert service.condition == "False"
    service.full = ""
    assert not service.reconcile(1020.0, {"retry"}, a=Quantity(5), b=Quantity(1)).failure
    assert (service.capacity, service.condition) == ({A: "5", B: "1"}, "True")


class Contested(MemoryNode):
    """Another writer changes the Node between each read and write."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[str] = []

    def read(self) -> NodeState:
        self.requests.append("read")
        return super().read()

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        self.requests.append("write")
        raise NodeConflict("a guard did not hold")


def test_lasting_conflicts_cost_few_requests_and_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most three requests a minute and one message, however many passes there are. After ten minutes they become
    rarer. Only a new configuration is tried at once.

    The third request writes the condition. It is no longer sent once the condition has been written.
    """
    monkeypatch.setattr("capacityd.reconcile.apply.time.sleep", lambda _: None)
    service = Service()
    service.node = node = Contested()
    result = service.reconcile(1000.0, a=FOUR)
    assert node.requests == [*["read", "write"] * MAX_CONFLICTS, "write"]
    messages = {_message(result, RetryCause.CONFLICT)}
    for second in range(1, 600):
        before = len(node.requests)
        result = service.reconcile(1000.0 + second, [{"retry"}, {"node"}, {"hardware"}][second % 3], a=FOUR)
        assert node.requests[before:] == ([] if second % MIN_INTERVAL else ["read", "write", "write"])
        messages.add(_message(result, RetryCause.CONFLICT))
    (message,) = messages
    assert "a guard did not hold; tried 6 times" in message
    for at, reason, count in ((1600.0, "node", 3), (1660.0, "node", 3), (1720.0, "node", 0), (1725.0, "config", 3)):
        before = len(node.requests)
        service.reconcile(at, {reason}, a=FOUR)
        assert len(node.requests) - before == count, at
    service.error = NodeUnreachable("nobody there")
    assert "nobody there" in service.reconcile(1800.0, {"retry"}, a=FOUR).node_error
    service.error = None
    assert service.reconcile(1801.0, {"retry"}, a=FOUR).node_error == message, "an outage in between changes nothing"
    service.node = MemoryNode()
    assert not service.reconcile(1900.0, {"retry"}, a=FOUR).failure
    assert (service.memory.conflict, service.capacity) == (None, {A: "4"})


def test_a_refusal_is_reported_once_for_each_node_also_when_the_machine_reboots() -> None:
    service = Service()
    service.watched = True
    service.capacity[A] = "9"
    for at in (1000.0, 5000.0):
        service.reconcile(at, {"boot"}, a=FOUR)
        asked = service.opened
        assert service.reconcile(at + 10.0, {"hardware"}, a=FOUR).requeue_after is None
        assert (service.opened, service.capacity) == (asked, {A: "9"})
        service.memory = Memory()  # the service's memory is in /run
    written = [f"{A}: not published by capacityd; adopt = true takes it over"]
    assert service.node.events == written
    service.node.document = node({A: "9"})
    service.node.document["metadata"]["uid"] = "another"
    service.reconcile(9000.0, {"boot"}, a=FOUR)
    assert service.node.events == 2 * written


def test_nothing_of_a_damaged_configuration_is_removed(service: Service) -> None:
    service.complete = False
    service.reconcile(1010.0, {"config"}, b=FOUR)
    service.reconcile(1100.0, {"requeue"}, b=FOUR)
    assert (service.capacity, service.condition) == ({A: "4", B: "4"}, "False")


def test_after_a_lost_response_the_node_is_read_although_it_is_watched(service: Service) -> None:
    """The watch may not have reported the write yet. Otherwise, the machine record would forget what was published."""
    service.node.lose = 1
    stale = service.node.state()
    assert service.reconcile(1010.0, {"hardware"}, a=FOUR, b=Quantity(2)).failure
    assert service.capacity == {A: "4", B: "2"}
    service.watched, service.watched_state = False, stale
    service.settings = Settings(lower_after=0.0)
    service.reconcile(1015.0, {"retry"}, a=FOUR, b=ABSENT)
    assert (service.capacity, service.node.reads) == ({A: "4"}, 1)


def test_a_node_that_replaces_another_one_inherits_no_rate_limit(service: Service) -> None:
    for second in range(BURST):
        service.reconcile(1010.0 + second, {"hardware"}, a=Quantity(10 + second))
    service.node.document = node()
    service.node.document["metadata"]["uid"] = "another"
    service.reconcile(1020.0, {"node"}, a=Quantity(20))
    assert service.capacity == {A: "20"}


@pytest.mark.parametrize(
    "memory",
    [
        Memory(),
        Memory(conflict=Conflict("a conflict", 1000.0, 1000.0)),
        Memory(other_agent=OtherAgent(1000.0)),
        Memory(less_allocatable={A: LessAllocatable("3", 1000.0, repeated=True)}),
        Memory(denied={A: Denial("no", 4, 900.0, 1000.0)}),
        Memory(condition_not_stored_since=900.0),
    ],
)
def test_what_an_earlier_pass_waited_for_does_not_hasten_the_retries_of_a_failed_one(memory: Memory) -> None:
    service = Service()
    service.memory, service.error = memory, NodeUnreachable("nobody there")
    schedule, at, passes = Schedule(1200.0, lambda _, high: high), 1200.0, 0
    while at < 1200.0 + 3600.0:
        schedule.pop_due(at)
        failure = service.reconcile(at, {"retry"}, a=FOUR)
        assert failure.failure
        schedule.failed(at, None, failure.failure.cause, failure.requeue_after)
        at, passes = schedule.wakes_at(), passes + 1
    assert passes <= 60


def test_a_pass_without_a_request_has_no_answer(service: Service) -> None:
    service.watched = True
    assert not service.reconcile(1010.0, {"hardware"}, a=FOUR).has_response
    assert service.reconcile(1020.0, {"hardware"}, a=Quantity(5)).has_response
    service.watched = False
    assert service.reconcile(1030.0, {"hardware"}, a=Quantity(5)).has_response


def test_a_conflict_is_tried_again_within_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the jitter, and whatever events come meanwhile."""
    monkeypatch.setattr("capacityd.reconcile.apply.time.sleep", lambda _: None)
    for jitter, event_at in itertools.product((min, max), (None, 1030.0, 1050.0)):
        service = Service()
        service.node = node = Contested()
        schedule, at = Schedule(1000.0, jitter), 1000.0
        attempts = []
        events = [event_at] if event_at else []
        while at < 1200.0:
            reasons = schedule.pop_due(at)
            sent = len(node.requests)
            failure = service.reconcile(at, {reason.value for reason in reasons}, a=FOUR)
            assert failure.failure
            attempts += [at] * (len(node.requests) > sent)
            schedule.failed(at, failure.failure.retry_after, failure.failure.cause, failure.requeue_after)
            at = schedule.wakes_at()
            if events and events[0] < at:
                schedule.notify({PassReason.HARDWARE}, events.pop())
                at = schedule.wakes_at()
        assert attempts == [1000.0, 1060.0, 1120.0, 1180.0]


def test_a_reading_that_rose_during_an_outage_is_held_back_in_full(service: Service) -> None:
    """No pass of the outage knows the Node, but each compares with the last known one."""
    service.reconcile(1010.0, {"hardware"}, a=Quantity(3))
    service.watched, service.error = False, NodeUnreachable("nobody there")
    for at, number in ((1015.0, 3), (1100.0, 4), (1160.0, 3)):
        assert service.reconcile(at, {"retry"}, a=Quantity(number)).failure
    service.error = None
    assert service.reconcile(1164.0, {"retry"}, a=Quantity(3)).requeue_after == 6.0
    service.reconcile(1170.0, {"requeue"}, a=Quantity(3))
    assert service.capacity == {A: "3"}
