"""Whole passes against a made-up API server: what a pass writes, reports and remembers, whatever the server does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from capacityd.model.errors import NodeConflict, NodeForbidden, NodeMissing, NodeUnreachable
from capacityd.model.key import Key
from capacityd.model.node import ANNOTATION, Condition, Patch
from capacityd.model.reading import Quantity, Reading
from capacityd.model.waits import WaitReason
from capacityd.reconcile.inputs import Inputs
from capacityd.reconcile.memory import Memory
from capacityd.reconcile.reconcile import MAX_CONFLICTS, Pass, PassEnd
from capacityd.schema.config import Settings
from tests.support.nodes import UID, node
from tests.unit.reconcile.doubles import ABSENT, EPOCH, FOUR, UNKNOWN, A, B, ServerNode, Service

TRUE = ("True", "Published")  # the condition's status and reason


@pytest.fixture
def service() -> Service:
    return Service()


def published(server: ServerNode) -> Any:
    """The numbers in the annotation. None: there is no annotation."""
    text = server.state.annotation
    return None if text is None else json.loads(text)


# --- the patch


def test_one_patch_carries_everything_and_is_guarded_by_uid_and_version(service: Service) -> None:
    service.labels = {A}
    service.make_pass(1000.0, a=FOUR)
    annotations = {ANNOTATION: f'{{"{A}":4,"label {A}":4}}', "capacityd/configuration": "first"}
    condition = Condition("True", "Published", "all configured resources are published", heartbeat=EPOCH + 1000)
    assert service.node.patches == [
        Patch(UID, "7", {A: 4}, {A: 4}, {A: 4}, annotations=annotations, condition=condition),
    ]


def test_only_what_differs_is_in_the_patch(service: Service) -> None:
    service.make_pass(1000.0, a=FOUR, b=FOUR)
    service.node.set(A, "4", "1")
    service.make_pass(1010.0, a=FOUR, b=FOUR)
    last = service.node.patches[-1]
    assert last == Patch(UID, last.resource_version, allocatable={A: 4})


def times(server: ServerNode) -> tuple[str, str]:
    """The times of day at which the condition was last written, and its status last changed."""
    (*_, ours) = server.document["status"]["conditions"]
    return ours["lastHeartbeatTime"][-9:], ours["lastTransitionTime"][-9:]


def test_the_transition_time_changes_only_with_the_status(service: Service) -> None:
    service.make_pass(0.0, a=UNKNOWN)
    assert times(service.node) == ("22:13:20Z", "22:13:20Z")
    service.make_pass(10.0, a=UNKNOWN, b=UNKNOWN)
    assert times(service.node) == ("22:13:30Z", "22:13:20Z")
    service.make_pass(20.0, a=FOUR, b=FOUR)
    assert times(service.node) == ("22:13:40Z", "22:13:40Z")


# The last heartbeat before the pass at 22:13:30, and how many writes refresh it.
HEARTBEATS = {"new": ("22:13:20Z", 0), "old": ("22:03:20Z", 1), "in the future": ("23:59:59Z", 1), "damaged": ("x", 1)}


@pytest.mark.parametrize(("heartbeat", "writes"), HEARTBEATS.values(), ids=HEARTBEATS)
def test_an_old_heartbeat_is_refreshed(service: Service, heartbeat: str, writes: int) -> None:
    service.heartbeat_after = 600.0
    service.make_pass(0.0, a=FOUR)
    (*_, ours) = service.node.document["status"]["conditions"]
    ours["lastHeartbeatTime"] = f"2023-11-14T{heartbeat}"
    service.restart()
    service.make_pass(10.0, a=FOUR)
    assert len(service.node.patches) == 1 + writes
    assert len(service.node.events) == 2, "a heartbeat creates no event"


def test_without_the_setting_the_condition_is_removed(service: Service) -> None:
    service.make_pass(1000.0, a=FOUR)
    service.settings = Settings(condition=False)
    service.make_pass(1010.0, a=FOUR)
    assert service.node.state.conditions == ()
    service.make_pass(1020.0, a=FOUR)
    assert len(service.node.patches) == 2


def test_without_a_configured_resource_nothing_is_written(service: Service) -> None:
    service.make_pass(1000.0)
    assert service.node.patches == []


def test_observe_mode_writes_nothing(service: Service) -> None:
    service.settings = Settings(observe=True)
    end = service.make_pass(1000.0, a=FOUR)
    assert service.node.attempts == 0
    assert end.outcome
    assert end.outcome.plan.written_changes, "the plan shows what a pass without observe mode would write"


def test_observe_mode_reads_an_unknown_resource_again(service: Service) -> None:
    service.settings = Settings(observe=True)
    assert [wait.reason for wait in service.make_pass(1000.0, a=UNKNOWN).waits] == [WaitReason.READ]
    assert service.make_pass(1060.0, a=FOUR).waits == ()


# --- ownership


def test_a_lost_or_altered_annotation_is_restored(service: Service) -> None:
    service.make_pass(1000.0, a=FOUR)
    for number, text in enumerate((None, "{", "{}", f'{{"{A}":9}}', f'{{"{A}":4,"cpu":2}}')):
        service.node.annotate(text)
        service.make_pass(1010.0 + 100 * number, a=FOUR)
        assert (published(service.node), service.node.numbers) == ({A: 4}, {A: "4"})


def test_the_remembered_number_counts_before_the_annotated_one(service: Service) -> None:
    service.make_pass(1000.0, a=FOUR)
    service.node.annotate(f'{{"{A}":9}}')
    service.make_pass(1010.0, a=UNKNOWN)
    assert (published(service.node), service.node.numbers) == ({A: 4}, {A: "4"})


def test_without_a_memory_the_annotation_is_believed(service: Service) -> None:
    service.node.document = node({A: "9"}, annotated={A: 9})
    service.make_pass(1000.0, a=Quantity(11))
    assert service.node.numbers == {A: "11"}


def test_an_annotation_that_is_lost_with_the_memory_leaves_the_key_to_others(service: Service) -> None:
    service.make_pass(1000.0, a=FOUR, b=FOUR)
    service.node.annotate(None)
    service.restart()
    service.make_pass(1010.0, a=Quantity(5))
    service.make_pass(1100.0, a=Quantity(5))
    assert service.node.numbers == {A: "4", B: "4"}
    assert service.node.condition == ("False", "Refused")
    service.adopt = {A}
    service.make_pass(1200.0, a=Quantity(5))
    assert (service.node.numbers, service.node.condition) == ({A: "5", B: "4"}, TRUE)


def test_a_forged_annotation_publishes_nothing_and_reaches_no_native_resource(service: Service) -> None:
    service.node.document = node({"cpu": "8", B: "9"}, annotated={"cpu": 2, B: 7, "example.com/x": 1})
    for at in (1000.0, 1100.0):
        service.make_pass(at, a=FOUR)
    assert service.node.numbers == {"cpu": "8", B: "9", A: "4"}
    assert published(service.node) == {A: 4}


# --- others in between


def test_after_a_conflict_the_node_is_read_again(service: Service) -> None:
    service.node.before_write = [lambda: service.node.set(B, "1", "1")] * 2
    service.make_pass(1000.0, a=FOUR, b=FOUR)
    assert (service.node.reads, service.node.attempts) == (3, 3)
    assert service.node.numbers == {A: "4", B: "1"}  # B is the other writer's
    assert service.node.condition == ("False", "Refused")


def test_a_pass_gives_up_after_six_conflicts(service: Service) -> None:
    service.node.before_write = [service.node.change] * MAX_CONFLICTS
    end = service.make_pass(1000.0, a=FOUR)
    assert isinstance(end.error, NodeConflict)
    assert (service.node.attempts, service.node.patches) == (MAX_CONFLICTS, [])


def test_a_conflict_although_nobody_has_written_is_a_rejection(service: Service) -> None:
    """An admission webhook may answer with HTTP 409. Here it does so to both patches of the pass."""
    service.make_pass(1000.0, a=FOUR, b=FOUR)
    service.node.errors = [None, NodeConflict("no", reason="a webhook"), None, NodeConflict("no", reason="a webhook")]
    service.make_pass(1010.0, a=Quantity(5), b=FOUR)
    assert service.node.condition == ("False", "Denied")
    assert "a webhook" in service.node.message


# --- what is denied


def denies(*names: str) -> Any:
    """A policy that denies patches with these resources."""

    def policy(patch: Patch) -> str:
        denied = [name for name in names if name in {**patch.capacity, **patch.allocatable}]
        return f"no {' '.join(denied)}" if denied else ""

    return policy


def test_what_a_policy_denies_holds_nothing_else_back(service: Service) -> None:
    service.node.denies = denies(A)
    service.make_pass(1000.0, a=FOUR, b=FOUR)
    assert (service.node.numbers, published(service.node)) == ({B: "4"}, {B: 4})
    assert service.node.condition == ("False", "Denied")
    assert service.node.message == "denied: example.com/a: no example.com/a"


def test_a_denied_name_stays_out_until_its_pause_ends_and_is_then_tried_alone(service: Service) -> None:
    service.node.denies = denies(A)
    end = service.make_pass(1000.0, a=FOUR, b=FOUR)
    assert [wait.until for wait in end.waits if wait.reason is WaitReason.DENIED] == [1060.0]
    attempts = service.node.attempts
    service.make_pass(1010.0, a=FOUR, b=Quantity(5))
    assert (service.node.attempts, service.node.numbers) == (attempts + 1, {B: "5"})
    service.make_pass(1060.0, a=FOUR, b=Quantity(5))
    assert service.node.attempts == attempts + 2
    service.node.denies = lambda _: ""
    service.make_pass(1120.0, a=FOUR, b=Quantity(5))
    assert (service.node.numbers, service.node.condition) == ({A: "4", B: "5"}, TRUE)
    alone, last = service.node.patches[-2:]
    # The condition becomes True in a patch of its own, after the number was stored.
    assert (alone.capacity, alone.condition, last.capacity) == ({A: 4}, None, {})


def test_another_number_of_a_denied_name_is_tried_at_once(service: Service) -> None:
    service.node.denies = lambda patch: "too many" if patch.capacity.get(A) == 4 else ""
    service.make_pass(1000.0, a=FOUR)
    service.make_pass(1010.0, a=Quantity(3))
    assert (service.node.numbers, service.node.condition) == ({A: "3"}, TRUE)


@pytest.mark.parametrize("denied", [{7}, {1, 8}, set(range(10))], ids=str)
def test_denied_names_are_found_and_the_others_are_written(service: Service, denied: set[int]) -> None:
    """After a rejected patch, each name is written in a patch of its own, and the condition in another one."""
    names = [f"n{number}" for number in range(10)]
    service.node.denies = denies(*(f"example.com/n{number}" for number in denied))
    service.make_pass(1000.0, **dict.fromkeys(names, FOUR))
    assert service.node.numbers.keys() == {f"example.com/n{number}" for number in {*range(10)} - denied}
    assert service.memory.denied.keys() == {f"example.com/n{number}" for number in denied}
    assert service.node.attempts == 1 + len(names) + 1
    assert len(service.memory.writes) == 1, "all patches of a pass count as one write"


def test_a_policy_that_denies_the_condition_does_not_deny_the_numbers(service: Service) -> None:
    service.node.denies = lambda patch: "no condition" if patch.condition else ""
    service.make_pass(1000.0, a=FOUR)
    assert (service.node.numbers, service.node.state.conditions) == ({A: "4"}, ())
    assert service.memory.denied.keys() == {"condition"}
    attempts = service.node.attempts
    service.make_pass(1010.0, a=FOUR)
    assert service.node.attempts == attempts
    service.node.denies = lambda _: ""
    service.make_pass(1060.0, a=FOUR)
    assert service.node.condition == TRUE


def test_a_denied_condition_is_forgotten_when_the_stored_one_is_right_again(service: Service) -> None:
    service.make_pass(1000.0, a=FOUR)
    service.node.denies = lambda patch: "no condition" if patch.condition else ""
    service.make_pass(1010.0, a=UNKNOWN)
    end = service.make_pass(1020.0, a=FOUR)
    assert [wait.until for wait in end.waits] == [1070.0]
    service.make_pass(1070.0, a=FOUR)
    assert not service.memory.denied


def test_while_annotations_are_denied_only_the_condition_is_written(service: Service) -> None:
    service.node.denies = lambda patch: "too long" if patch.annotations else ""
    service.make_pass(1000.0, a=FOUR)
    assert (service.node.numbers, service.node.condition) == ({}, ("False", "Denied"))
    attempts = service.node.attempts
    service.make_pass(1010.0, a=FOUR)
    assert service.node.attempts == attempts, "the annotations are tried again only after a minute"
    service.node.denies = lambda _: ""
    service.make_pass(1070.0, a=FOUR)
    assert (service.node.numbers, service.node.condition) == ({A: "4"}, TRUE)
    assert service.node.state.configuration == "first"


def test_a_lost_annotation_that_may_not_be_restored_is_reported(service: Service) -> None:
    service.make_pass(1000.0, a=FOUR)
    service.node.annotate(None)
    service.node.denies = lambda patch: "no annotation" if ANNOTATION in patch.annotations else ""
    service.make_pass(1010.0, a=FOUR)
    assert service.node.condition == ("False", "Denied")
    service.node.denies = lambda _: ""
    service.make_pass(1070.0, a=FOUR)
    assert (published(service.node), service.node.condition) == ({A: 4}, TRUE)


def caps(number: int) -> Any:
    """A webhook that stores at most this number of the resource A."""

    def alter(document: dict[str, Any]) -> None:
        for place in ("capacity", "allocatable"):
            stored = document["status"][place]
            if A in stored:
                stored[A] = str(min(number, int(stored[A])))

    return alter


def test_a_number_that_a_webhook_alters_is_denied_and_remains_capacityds(service: Service) -> None:
    service.node.alters = caps(3)
    service.make_pass(1000.0, a=FOUR)
    assert (service.node.numbers, published(service.node)) == ({A: "3"}, {A: 3})
    assert service.node.condition == ("False", "Denied")
    assert "accepted 4 but stored 3" in service.node.message
    service.restart()
    service.make_pass(1010.0)  # nothing is configured any more
    service.make_pass(1020.0, b=FOUR)
    service.make_pass(1030.0, b=FOUR)
    assert service.node.numbers == {B: "4"}


def test_a_higher_number_of_a_webhook_is_denied_although_the_reduction_is_held(service: Service) -> None:
    service.node.alters = lambda document: document["status"]["capacity"].update({A: "5"})
    for at in (1000.0, 1005.0, 1061.0, 1062.0):
        service.make_pass(at, a=FOUR)
        assert service.node.condition == ("False", "Denied"), at
    service.node.alters = lambda _: None
    service.make_pass(1122.0, a=FOUR)
    assert (service.node.numbers, service.node.condition) == ({A: "4"}, TRUE)


def test_a_webhook_that_alters_a_number_is_tried_again_once_a_minute(service: Service) -> None:
    """Each attempt needs a second patch, which writes the stored number into the annotation."""
    service.node.alters = caps(3)
    minutes = 10
    for second in range(minutes * 60):
        service.make_pass(1000.0 + second, a=FOUR)
    assert service.node.attempts == 2 * minutes


def test_a_webhook_that_strips_the_annotation_is_reported(service: Service) -> None:
    def strip(document: dict[str, Any]) -> None:
        document["metadata"]["annotations"].pop(ANNOTATION, None)

    service.node.alters = strip
    service.make_pass(1000.0, a=FOUR)
    assert (service.node.numbers, service.node.condition) == ({A: "4"}, ("False", "Denied"))
    assert ANNOTATION in service.node.message
    service.node.alters = lambda _: None
    service.make_pass(1060.0, a=FOUR)
    assert service.node.condition == TRUE


def test_an_annotation_that_another_writer_restores_is_not_denied_any_more(service: Service) -> None:
    service.node.alters = lambda document: document["metadata"]["annotations"].pop(ANNOTATION, None)
    service.make_pass(1000.0, a=FOUR)
    assert service.node.condition == ("False", "Denied")
    service.node.alters = lambda _: None
    service.node.annotate(f'{{"{A}":4}}')
    service.make_pass(1061.0, a=FOUR)
    assert service.node.condition == TRUE


def test_a_configuration_that_others_keep_changing_is_overwritten(service: Service) -> None:
    service.make_pass(1000.0, a=FOUR)
    for at in (1010.0, 1020.0, 1030.0):
        service.node.document["metadata"]["annotations"]["capacityd/configuration"] = "another"
        service.node.change()
        service.make_pass(at, a=FOUR)
    assert service.node.condition == ("False", "Overwritten")


def test_a_webhook_that_strips_what_the_patch_does_not_contain_is_noticed(service: Service) -> None:
    """The patch contains only a number. The webhook removes the condition."""
    service.make_pass(1000.0, a=FOUR)
    service.node.alters = lambda document: document["status"]["conditions"].clear()
    end = service.make_pass(1010.0, a=Quantity(5))
    assert service.node.patches[-1].condition is None
    assert [wait.until for wait in end.waits if wait.reason is WaitReason.DENIED] == [1070.0]
    service.node.alters = lambda _: None
    service.make_pass(1070.0, a=Quantity(5))
    assert service.node.condition == TRUE


# --- no answer, and errors


def test_after_a_patch_without_an_answer_the_annotation_is_believed(service: Service) -> None:
    service.make_pass(1000.0, a=FOUR)
    service.node.loses_responses = True
    end = service.make_pass(1010.0, a=Quantity(5))
    assert isinstance(end.error, NodeUnreachable)
    assert service.memory == Memory()
    service.node.loses_responses = False
    service.make_pass(1020.0, a=Quantity(5))
    assert (service.node.numbers, published(service.node), service.node.condition) == ({A: "5"}, {A: 5}, TRUE)


def test_a_node_that_cannot_be_read_keeps_the_memory(service: Service) -> None:
    service.make_pass(1000.0, a=FOUR)
    service.node.errors = [NodeUnreachable("nobody there")]
    end = service.make_pass(1010.0, a=FOUR)
    assert isinstance(end.error, NodeUnreachable)
    assert service.memory.published == {Key(A): 4}


def test_a_reduction_that_ends_while_the_node_cannot_be_read_begins_anew(service: Service) -> None:
    service.make_pass(1000.0, a=FOUR)
    service.node.errors = [NodeUnreachable("x")] * 3
    for at, number in ((1010.0, 3), (1015.0, 4), (1020.0, 3)):
        service.make_pass(at, a=Quantity(number))
    service.make_pass(1021.0, a=Quantity(3))
    assert service.node.numbers == {A: "4"}, "the delay of 10 s began at 1020, not at 1010"
    service.make_pass(1030.0, a=Quantity(3))
    assert service.node.numbers == {A: "3"}


@pytest.mark.parametrize("error", [NodeMissing("the API server", "n1"), NodeForbidden("no")])
def test_an_error_of_a_patch_ends_the_pass(service: Service, error: Exception) -> None:
    service.node.errors = [None, error]  # type: ignore[list-item]
    assert service.make_pass(1000.0, a=FOUR).error is error


# --- limits


def test_six_writes_then_one_a_minute(service: Service) -> None:
    written_at = []
    for second in range(600):
        before = service.node.attempts
        service.make_pass(1000.0 + second, a=Quantity(second))
        written_at += [second] * (service.node.attempts - before)
    assert written_at == [0, 1, 2, 3, 4, 5, 65, 125, 185, 245, 305, 365, 425, 485, 545]


def test_a_reload_resets_the_limit_of_writes_and_the_denials(service: Service) -> None:
    for second in range(6):  # after six writes, the limit on writes would delay the next one
        service.make_pass(1000.0 + second, a=Quantity(second))
    service.resets_limits = True  # each pass runs as after a reload
    service.make_pass(1010.0, a=Quantity(9))
    assert service.node.numbers == {A: "9"}
    service.node.denies = denies(A)
    service.make_pass(1020.0, a=Quantity(10))
    service.node.denies = lambda _: ""  # the Node accepts every patch again
    service.make_pass(1021.0, a=Quantity(10))
    assert service.node.numbers == {A: "10"}


def test_lower_after_counts_from_the_first_lower_reading(service: Service) -> None:
    service.make_pass(1000.0, a=FOUR)
    waits = service.make_pass(1010.0, a=Quantity(3)).waits
    assert [(wait.reason, wait.until) for wait in waits] == [(WaitReason.LOWER_AFTER, 1020.0)]
    service.make_pass(1015.0, a=Quantity(2))
    service.make_pass(1019.9, a=Quantity(2))
    assert service.node.numbers == {A: "4"}
    service.make_pass(1020.0, a=Quantity(2))
    assert service.node.numbers == {A: "2"}


@pytest.mark.parametrize("between", [FOUR, UNKNOWN])
def test_a_reading_that_is_not_lower_begins_the_delay_anew(service: Service, between: Reading) -> None:
    for at, reading in ((1000.0, FOUR), (1010.0, Quantity(3)), (1015.0, between), (1018.0, Quantity(3))):
        service.make_pass(at, a=reading)
    service.make_pass(1021.0, a=Quantity(3))
    assert service.node.numbers == {A: "4"}


# --- overwritten


def test_three_restorations_in_six_minutes_mean_overwritten_until_90_s_after_the_last(service: Service) -> None:
    service.make_pass(1000.0, a=FOUR)
    for at in (1010.0, 1020.0, 1030.0):
        service.node.set(A, "9", "9")
        service.make_pass(at, a=FOUR)
        assert service.node.numbers == {A: "4"}
    assert service.node.condition == ("False", "Overwritten")
    end = service.make_pass(1040.0, a=FOUR)
    assert [wait.until for wait in end.waits if wait.reason is WaitReason.READ] == [1120.0]
    service.make_pass(1119.9, a=FOUR)
    assert service.node.condition == ("False", "Overwritten")
    service.make_pass(1120.0, a=FOUR)
    assert service.node.condition == TRUE


def test_rare_changes_by_others_are_restored_and_leave_the_condition_true(service: Service) -> None:
    """Three changes within six minutes would make the condition False. Here the third comes 380 s after the first."""
    service.make_pass(1000.0, a=FOUR)
    for at in (1190.0, 1380.0, 1570.0, 1760.0):
        service.node.set(A, "0", "0")
        service.make_pass(at, a=FOUR)
        assert (service.node.numbers, service.node.condition) == ({A: "4"}, TRUE)


# --- passes that may send nothing


def test_a_pass_that_finds_nothing_new_sends_nothing(service: Service) -> None:
    service.make_pass(1000.0, a=FOUR)
    service.may_send_nothing = True
    reads = service.node.reads
    end = service.make_pass(1010.0, a=FOUR)
    assert (service.node.reads, end.outcome, end.error) == (reads, None, None)
    service.make_pass(1020.0, a=Quantity(5))
    assert service.node.numbers == {A: "5"}


@pytest.mark.parametrize(
    "situation", ["unknown", "held", "overwritten", "denied", "configuration", "errors", "observe"]
)
def test_a_pass_that_may_find_something_reads_the_node(service: Service, situation: str) -> None:
    readings: dict[str, Reading] = {"a": FOUR}
    service.make_pass(1000.0, **readings)
    match situation:
        case "unknown":
            service.make_pass(1010.0, a=UNKNOWN)
            readings = {"a": UNKNOWN}
        case "held":
            service.make_pass(1010.0, a=Quantity(3))
            readings = {"a": Quantity(3)}
        case "overwritten":
            for at in (1001.0, 1002.0, 1003.0):
                service.node.set(A, "9", "9")
                service.make_pass(at, **readings)
        case "denied":
            service.node.denies = denies(A)
            service.make_pass(1010.0, a=Quantity(5))
            readings = {"a": Quantity(5)}
        case "configuration":
            service.digest = "second"
        case "errors":
            service.errors = ("wrong",)
        case "observe":
            service.settings = Settings(observe=True)
            service.make_pass(1010.0, a=Quantity(5))
            readings = {"a": Quantity(5)}
    service.may_send_nothing = True
    reads = service.node.reads
    service.make_pass(1015.0, **readings)
    assert service.node.reads == reads + 1


# --- the condition's message, and events


def test_the_most_urgent_reason_and_all_texts(service: Service) -> None:
    service.node.document = node({B: "9"})
    service.expect = {"example.com/c": 5}
    service.errors = ("/etc/x.toml:3: wrong", "two")
    service.make_pass(1000.0, a=UNKNOWN, b=FOUR, c=FOUR)
    assert service.node.condition == ("False", "ConfigurationRejected")
    assert service.node.message == (
        "the configuration has errors: /etc/x.toml:3: wrong; and 1 more (capacityd config check); "
        "unknown: example.com/a: busy; "
        "refused: example.com/b: not published by capacityd; adopt = true takes it over; "
        "below expected: example.com/c: 4 of 5"
    )


def test_keys_in_the_same_trouble_share_a_text(service: Service) -> None:
    service.make_pass(1000.0, a=UNKNOWN, b=UNKNOWN)
    assert service.node.message == "unknown: example.com/a, example.com/b: busy"


def test_a_held_reduction_is_not_below_expected_yet(service: Service) -> None:
    service.expect = {A: 4}
    service.make_pass(1000.0, a=FOUR)
    service.make_pass(1010.0, a=ABSENT)
    assert service.node.condition == TRUE
    service.make_pass(1020.0, a=ABSENT)
    assert (service.node.condition, service.node.numbers) == (("False", "BelowExpected"), {})


def test_events_tell_each_published_change_and_each_change_of_what_the_condition_is_about(service: Service) -> None:
    for at, number in ((1000.0, 4), (1010.0, 5), (1020.0, 3), (1030.0, 3)):
        service.make_pass(at, a=Quantity(number))
    service.make_pass(1040.0, a=UNKNOWN)
    service.make_pass(1050.0, a=UNKNOWN, b=UNKNOWN)
    service.make_pass(1100.0, a=Quantity(3), b=FOUR)
    lowered = "; pods that no longer fit are stopped at the kubelet's next start"
    assert [(event.type, event.reason, event.message) for event in service.node.events] == [
        ("Normal", "CapacityChanged", f"{A}: none → 4 (newly published)"),
        ("Normal", "Published", "all configured resources are published"),
        ("Normal", "CapacityChanged", f"{A}: 4 → 5 (the reading differs)"),
        ("Normal", "CapacityChanged", f"{A}: 5 → 3 (the reading differs){lowered}"),
        ("Warning", "Unknown", f"unknown: {A}: busy"),
        ("Warning", "Unknown", f"unknown: {A}, {B}: busy"),
        ("Normal", "CapacityChanged", f"{B}: none → 4 (newly published)"),
        ("Normal", "Published", "all configured resources are published"),
    ]


def test_an_event_about_a_lower_label_announces_no_stopped_pod(service: Service) -> None:
    service.labels = {A}
    service.make_pass(1000.0, a=FOUR)
    service.node.document["metadata"]["labels"][A] = "9"
    service.make_pass(1010.0, a=FOUR)
    assert service.node.events[-1].message == f"label {A}: 9 → 4 (restored: the Node had 9 instead of 4)"


def test_a_long_event_is_cut(service: Service) -> None:
    for at, number in ((1000.0, 4), (1010.0, 3), (1020.0, 3)):
        service.make_pass(at, **{f"resource-{index}": Quantity(number) for index in range(60)})
    raised, _, lowered = (event.message for event in service.node.events)
    assert (len(raised.encode()), raised.endswith("… (see capacityd status)")) == (1000, True)
    assert (len(lowered.encode()), lowered.endswith("next start")) == (1000, True)


def test_an_event_that_cannot_be_created_is_only_a_warning(service: Service) -> None:
    def report(*_: object) -> None:
        raise NodeForbidden("no events")

    service.node.report = report  # type: ignore[method-assign, assignment]
    end = service.make_pass(1000.0, a=FOUR)
    assert (end.error, service.node.condition) == (None, TRUE)
    assert end.outcome
    assert end.outcome.warnings == ("the Event could not be created: no events",) * 2  # CapacityChanged, Published


# --- device plugins, labels and the withdrawal


def test_an_unreadable_list_of_device_plugins_is_named_and_read_again(service: Service) -> None:
    service.make_pass(1000.0, a=FOUR)
    service.plugins = None
    service.node.set(A, "0", "0")
    end = service.make_pass(1010.0, a=FOUR)
    assert (service.node.numbers, service.node.condition) == ({A: "0"}, ("False", "Refused"))
    assert "kubelet_internal_checkpoint). If this file is damaged," in service.node.message
    assert [(wait.reason, wait.until) for wait in end.waits] == [(WaitReason.READ, 1070.0)]
    service.plugins = ()
    service.make_pass(1070.0, a=FOUR)
    assert (service.node.numbers, service.node.condition) == ({A: "4"}, TRUE)


def test_a_label_follows_what_is_published_as_its_resource(service: Service) -> None:
    service.labels = {A}
    for at, reading, label in (
        (1000.0, FOUR, "4"),
        (1010.0, Quantity(5), "5"),
        (1020.0, Quantity(3), "5"),  # the reduction is held back
        (1025.0, UNKNOWN, "5"),
        (1030.0, Quantity(3), "5"),  # after an unknown reading, the delay of 10 s begins anew
        (1040.0, Quantity(3), "3"),
        (1100.0, ABSENT, "3"),
        (1110.0, ABSENT, None),
    ):
        service.make_pass(at, a=reading)
        assert service.node.state.labels.get(A) == label, at


def withdraw(node: ServerNode, plugins: frozenset[str] = frozenset()) -> PassEnd:
    """Makes the pass that removes all that capacityd has published. plugins: names of device plugins."""
    inputs = Inputs(is_withdrawal=True)
    return Pass(node, read_machine=lambda _: {}, inputs_of=lambda _: inputs, device_plugins=lambda: plugins).run()


def test_a_withdrawal_removes_all_own_keys_and_no_others(service: Service) -> None:
    service.labels = {A}
    service.make_pass(1000.0, a=FOUR, b=FOUR, c=FOUR, d=FOUR)
    service.node.set(B, "9", "9")
    service.node.set("example.com/c", "0", "0")
    service.node.set("example.com/theirs", "1", "1")
    end = withdraw(service.node, frozenset({"example.com/d"}))
    assert service.node.numbers == {B: "9", "example.com/d": "4", "example.com/theirs": "1"}
    state = service.node.state
    assert (state.conditions, state.annotation, state.configuration, state.labels) == ((), None, None, {})
    assert end.outcome
    assert end.outcome.plan.troubles == ()
    withdraw(service.node)
    assert len(service.node.patches) == 2


def test_a_withdrawal_that_is_denied_keeps_the_key_in_the_annotation(service: Service) -> None:
    service.make_pass(1000.0, a=FOUR, b=FOUR)
    service.node.denies = denies(A)
    end = withdraw(service.node)
    assert (service.node.numbers, published(service.node), service.node.state.conditions) == ({A: "4"}, {A: 4}, ())
    assert end.outcome
    assert [trouble.key for trouble in end.outcome.plan.troubles] == [Key(A)]
