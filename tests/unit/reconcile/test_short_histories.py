"""Short histories of the model, one for each rule without which the Node would be wrong for too long."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence

import pytest

from capacityd.model.label import label_of
from capacityd.model.reading import Absent, Quantity, Unknown
from capacityd.model.reasons import PassReason
from capacityd.schema.config import Settings
from tests.support.denials import Alters, Denies
from tests.support.model_server import A, B
from tests.unit.reconcile.test_histories import Act, LongHistory


def has(name: str, quantity: int | None) -> Act:
    """The machine has this number of a resource's devices."""
    reading = Absent("none") if quantity is None else Quantity(quantity)
    return ("hardware_changes", name, reading, PassReason.HARDWARE)


LABEL_A = label_of(A)
END: tuple[Act, float] = (("all_causes_end",), 0.0)

HISTORIES: dict[str, list[tuple[Act, float]]] = {
    "two conditions are added at the same time": [
        (has(A, 2), 15.0),
        (("the_condition_is_added_by_two",), 0.0),
        (has(A, 3), 15.0),
    ],
    "another value is lost while one is written": [
        (has(A, 2), 15.0),
        (has(B, 2), 15.0),
        (("all_causes_end",), 2.0),
        (("another_value_is_lost_while_one_is_written", A, B, 4), 15.0),
    ],
    "another writer publishes the same, and the answer is lost": [
        (has(A, 2), 15.0),
        (("another_publishes_the_same_at_the_same_time", B, 3, True), 15.0),
    ],
    "a disk is mounted over a watched file": [
        (has(A, 2), 15.0),
        (("a_watched_file_is_replaced", A, Quantity(3)), 200.0),
    ],
    "inotify is used up": [
        (has(A, 2), 15.0),
        (("inotify_is_used_up", True), 15.0),
        (("hardware_changes", A, Quantity(3), PassReason.FILE), 200.0),
        (("inotify_is_used_up", False), 70.0),
        (("a_watched_file_is_replaced", A, Quantity(1)), 200.0),
    ],
    "a device plugin comes while the device plugins are unknown": [
        (has(A, 2), 15.0),
        (("the_checkpoint_changes", False, True), 15.0),
        (("world.plugin_comes", A, 3, True), 200.0),
    ],
    "another writer publishes the same after a write that never arrived": [
        (has(A, 2), 15.0),
        (has(B, None), 15.0),
        (("the_api_server_fails", "", 0, 1), 0.0),
        (has(B, 3), 2.0),
        (("server.write", B, "3"), 200.0),
    ],
    "a restored cluster counts from a lower version": [
        (has(A, 2), 15.0),
        (has(A, 3), 15.0),
        (has(A, 4), 15.0),
        (("the_cluster_is_restored", 0.5), 15.0),
        END,
    ],
    "a kubelet undoes each repair": [(has(A, 2), 15.0), (("world.make_unhealthy", frozenset({A})), 400.0)],
    "a kubelet zeroes without any other sign": [(has(A, 2), 15.0), (("the_kubelet_zeroes", [9.0, 0.05, 30.0]), 15.0)],
    "another agent comes and goes": [
        (has(A, 2), 15.0),
        (("another_agent_starts", {A: Quantity(4)}), 200.0),
        (("another_agent_stops",), 0.0),
        END,
    ],
    "another agent has a resource more": [
        (has(A, 2), 15.0),
        (("another_agent_starts", {B: Quantity(3)}), 900.0),
        (("another_agent_stops",), 0.0),
        END,
    ],
    "another agent has a resource less": [
        (has(A, 2), 15.0),
        (("another_agent_starts", {A: Absent("none")}), 900.0),
        (("another_agent_stops",), 0.0),
        END,
    ],
    "another agent cannot read a resource": [
        (has(A, 2), 15.0),
        (("another_agent_starts", {A: Unknown("busy")}), 900.0),
        (("another_agent_stops",), 0.0),
        END,
    ],
    "the Node cannot be watched": [
        (has(A, 2), 15.0),
        (("the_node_can_be_watched", False), 200.0),
        (("server.zero",), 200.0),
        (("loop.run", 200.0), 0.0),
    ],
    "the Node is deleted and registered again": [
        (has(A, 2), 15.0),
        (("server.delete",), 15.0),
        (("world.register_anew",), 15.0),
        END,
    ],
    "a label is denied at other times than its resource": [
        (has(A, 2), 15.0),
        (("admission_denies", (Denies(A, 403), Denies(LABEL_A, 403)), Quantity(3)), 200.0),
        (("server.write", LABEL_A, "1k"), 7.0),
        (has(A, 4), 900.0),
    ],
    "a source becomes too old": [
        (has(A, 2), 15.0),
        (("a_source_becomes_too_old", A, 3, 20.0), 400.0),
    ],
    "the watch is late": [
        (has(A, 2), 15.0),
        (("the_watch_lags", 65.0), 0.0),
        (has(A, 3), 15.0),
        (has(B, 4), 15.0),
        (has(A, 4), 15.0),
        END,
    ],
}


@pytest.fixture
def history() -> Iterator[LongHistory]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield LongHistory(folder, 1, registered=True, theirs=None)


def take(history: LongHistory, *acts: tuple[Act, float]) -> None:
    """Runs these disturbances, each with the seconds that pass after it."""
    for act, pause in acts:
        history.take(act, between=False, pause=pause)


@pytest.mark.parametrize("acts", HISTORIES.values(), ids=HISTORIES)
def test_the_condition_is_true_only_while_the_node_is_right(
    history: LongHistory, acts: Sequence[tuple[Act, float]]
) -> None:
    take(history, *acts)
    history.end()


def test_a_condition_that_a_webhook_removes_for_a_time_comes_back(history: LongHistory) -> None:
    """Nothing reports that the webhook has gone."""
    webhook = ("a_webhook_alters", (Alters("condition", None),), A, Quantity(3))
    take(history, (has(A, 2), 15.0), (webhook, 400.0))
    history.server.alters = ()
    take(history, (("loop.run", 65.0), 0.0))
    assert history.server.condition["status"] == "True"
    history.end()


def test_while_a_webhook_removes_the_annotation_few_writes_try_it(history: LongHistory) -> None:
    """What such a write leaves is no news. The condition is True at the first one only."""
    webhook = ("a_webhook_alters", (Alters("annotation", None),), B, Quantity(3))
    take(history, (has(A, 2), 15.0), (webhook, 15.0))
    statuses: set[str] = set()
    history.server.listeners.append(lambda: statuses.add(history.server.condition["status"]))
    history.server.patches = 0
    take(history, (("loop.run", 3600.0), 0.0))
    assert 20 <= history.server.patches <= 45
    assert "True" not in statuses
    began, history.server.alters = history.world.uptime, ()
    while history.server.condition["status"] != "True":
        take(history, (("loop.run", 1.0), 0.0))
        assert history.world.uptime < began + 370.0
    history.end()


def test_a_checkpoint_that_becomes_readable_is_read_in_time(history: LongHistory) -> None:
    """No event reports that it became unreadable, or readable again."""
    take(history, (has(A, 2), 15.0))
    take(history, (("the_checkpoint_changes", False, False), 15.0), (("server.write", A, "3"), 700.0))
    assert history.server.condition["reason"] == "Refused"
    take(history, (("the_checkpoint_changes", True, False), 75.0))
    assert (history.server.condition["status"], history.server.capacity[A]) == ("True", "2")
    history.end()


def test_an_intention_that_is_left_in_observe_mode_costs_no_request(history: LongHistory) -> None:
    """The Node is deleted while it is written. After that, nothing is written any more."""
    history.take(("server.delete",), between=True, pause=15.0)
    observe = Settings(observe=True)
    configuration: Act = (
        "the_configuration_changes",
        frozenset({A}),
        frozenset(),
        frozenset(),
        observe,
        True,
        frozenset(),
    )
    take(history, (configuration, 0.0))
    history.end()


def test_a_write_whose_answer_is_lost_stays_this_machines_although_the_watch_is_late(history: LongHistory) -> None:
    take(history, (has(A, 2), 15.0), (("the_watch_lags", 65.0), 15.0))
    history.server.lose = 1
    take(history, (has(B, 3), 15.0))
    assert history.server.capacity[B] == "3"
    assert history.server.condition["status"] == "True"
    history.end()


def test_a_key_that_another_agent_publishes_first_stays_its_own(history: LongHistory) -> None:
    """It has the same number, and comes just before this agent's write."""
    take(history, (has(A, 2), 15.0), (has(B, None), 15.0))

    def publish() -> None:
        history.server.write(B, "3")
        history.server.annotate(f'{{"{A}":2,"{B}":3}}')

    history.server.between.append(publish)
    take(history, (has(B, 3), 15.0))
    assert history.server.condition["reason"] == "Refused"
    take(history, (has(B, None), 200.0))
    assert history.server.capacity[B] == "3"
