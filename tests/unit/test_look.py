"""One look: when the Node is asked at all, what is held back until when, and what is remembered."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise

import pytest

from capacityd import journal
from capacityd.budget import BURST, OFTEN
from capacityd.capacity import CONDITION, Change, Event, NodeState
from capacityd.errors import NodeDenied, NodeError, NodeMissing, NodeRejected, NodeUnreachable
from capacityd.look import Look, look
from capacityd.memory import Circumstances, Memory
from capacityd.model import Absent, Config, Quantity, Reading, Resource, Settings, Unknown
from capacityd.node import Node
from capacityd.node.state import node_state
from capacityd.schedule import BOOTING
from tests.unit.nodes import apply_patch, node

A, B = "example.com/a", "example.com/b"
EPOCH = 1_700_000_000.0
FOUR, ABSENT, UNKNOWN = Quantity(4), Absent("none"), Unknown("busy")
LOCAL = ({"hardware"}, {"file"}, {"due"}, {"hardware", "file", "due"})
ASKING = ({"boot"}, {"recheck"}, {"kubelet"}, {"retry"}, {"credentials"}, {"config"}, {"resume"}, {"hardware", "retry"})


class MemoryNode:
    """A Node in memory. lose: how many answers to writes get lost; drop: how many writes never arrive.

    kill: whether we are killed when we tell of one. between: what happens once between a read and a write.
    """

    name = "n1"

    def __init__(self) -> None:
        self.document = node()
        self.writes = self.lose = self.drop = 0
        self.told: list[str] = []
        self.kill = False
        self.between: Callable[[], None] | None = None

    def read(self) -> NodeState:
        return node_state(self.document)

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        if self.drop:
            self.drop -= 1
            raise NodeUnreachable("it was lost")
        if self.between:
            self.between()
            self.between = None
        self.document = apply_patch(self.document, patch)
        self.writes += 1
        if self.lose:
            self.lose -= 1
            raise NodeUnreachable("the answer was lost")
        return self.read()

    def report(self, event: Event, state: NodeState) -> None:
        if self.kill:
            raise KeyboardInterrupt
        self.told.append(event.message)


class Service:
    """Looks one after another, and remembers between them what the last one said to."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.node = MemoryNode()
        self.memory = Memory()
        self.kubelet_began: float | None = None
        self.error: NodeError | None = None
        self.opened = 0
        self.pending: Collection[str] = ()
        self.adopt: Collection[str] = ()
        self.complete = True
        self.plugins: Collection[str] = ()

    def look(self, at: float, reasons: Collection[str] = ("boot",), **readings: Reading) -> Look:
        """A look at that uptime; a and b are what was read."""
        read: Mapping[str, Reading] = {f"example.com/{name}": reading for name, reading in readings.items()}
        resources = tuple(Resource(name, "static", (), adopt=name in self.adopt) for name in read)
        config = Config(resources=resources, settings=self.settings, complete=self.complete)
        here = Circumstances(EPOCH + at, at, self.kubelet_began)
        found = look(config, read, reasons, self.memory, here, self._open, self._plugins, self.pending, self._intend)
        self.memory = found.memory
        return found

    def _intend(self, memory: Memory) -> None:
        self.memory = memory

    def _plugins(self) -> Collection[str]:
        return self.plugins

    def _open(self) -> Node:
        self.opened += 1
        if self.error:
            raise self.error
        return self.node

    def beat(self, seconds: float) -> None:
        """The kubelet's heartbeat, so many seconds after EPOCH."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH + seconds))
        (ready,) = (c for c in self.node.document["status"]["conditions"] if c["type"] == "Ready")
        ready["lastHeartbeatTime"] = stamp

    @property
    def condition(self) -> str:
        return next(str(c["status"]) for c in self.node.document["status"]["conditions"] if c["type"] == CONDITION)

    @property
    def capacity(self) -> dict[str, str]:
        found: dict[str, str] = self.node.document["status"]["capacity"]
        return found


@pytest.fixture
def service() -> Service:
    """One that has published a=4 at uptime 1000, and has nothing to do."""
    found = Service()
    assert found.look(1000.0, a=FOUR).again_in is None
    assert found.capacity == {A: "4"}
    found.opened = 0
    return found


@pytest.mark.parametrize("reasons", LOCAL)
def test_the_same_readings_for_a_local_reason_ask_nobody(service: Service, reasons: set[str]) -> None:
    found = service.look(1010.0, reasons, a=FOUR)
    assert (service.opened, found.outcome, found.again_in, found.failed) == (0, None, None, False)


@pytest.mark.parametrize("reasons", ASKING)
def test_any_other_reason_asks_the_node(service: Service, reasons: set[str]) -> None:
    service.capacity[A] = "0"
    assert service.look(1010.0, reasons, a=FOUR).outcome is not None
    assert (service.opened, service.capacity) == (1, {A: "4"})


@pytest.mark.parametrize("reasons", LOCAL)
def test_without_memory_the_node_is_asked(service: Service, reasons: set[str]) -> None:
    service.memory = Memory()
    service.look(1010.0, reasons, a=FOUR)
    assert (service.opened, service.node.writes) == (1, 1)


@pytest.mark.parametrize("reading", [Quantity(5), UNKNOWN])
def test_more_and_unknown_are_told_at_once(service: Service, reading: Reading) -> None:
    service.look(1010.0, {"hardware"}, a=reading)
    assert service.opened == 1
    assert service.capacity == {A: "5" if isinstance(reading, Quantity) else "4"}


def test_what_is_unknown_is_tried_again_by_itself_ever_more_slowly_and_asks_nobody(service: Service) -> None:
    pauses = [service.look(1010.0, {"hardware"}, a=UNKNOWN, b=FOUR).again_in]
    opened = service.opened
    pauses += [service.look(1100.0 + n, {"due"}, a=UNKNOWN, b=FOUR).again_in for n in range(20)]
    assert pauses[:8] == [60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0, 3600.0]
    assert service.opened == opened
    assert service.look(9000.0, {"due"}, a=FOUR, b=FOUR).again_in is None
    assert service.look(9100.0, {"hardware"}, a=UNKNOWN, b=FOUR).again_in == 60.0


def test_a_new_resource_is_published_at_once(service: Service) -> None:
    service.look(1010.0, {"config"}, a=FOUR, b=Quantity(2))
    assert service.capacity == {A: "4", B: "2"}


@pytest.mark.parametrize("less", [Quantity(3), Quantity(0), ABSENT])
def test_less_is_held_back_and_comes_due(service: Service, less: Reading) -> None:
    found = service.look(1010.0, {"hardware"}, a=less)
    assert (service.opened, found.again_in, dict(found.held)) == (0, 10.0, {A: 10.0})
    found = service.look(1014.0, {"hardware"}, a=less)
    assert (service.opened, found.again_in) == (0, 6.0)
    found = service.look(1020.0, {"due"}, a=less)
    assert (service.opened, found.again_in) == (1, None)
    assert service.capacity == ({} if less is ABSENT else {A: str(less.value)})  # type: ignore[union-attr]


def test_less_is_held_back_also_when_the_node_is_asked(service: Service) -> None:
    found = service.look(1010.0, {"recheck"}, a=Quantity(3))
    assert (found.again_in, dict(found.held), service.capacity) == (10.0, {A: 10.0}, {A: "4"})
    service.opened = 0
    assert service.look(1015.0, {"hardware"}, a=Quantity(3)).again_in == 5.0
    assert service.look(1016.0, {"hardware"}, a=FOUR).again_in is None
    assert service.opened == 0


def test_a_device_that_resets_costs_no_request(service: Service) -> None:
    service.look(1010.0, {"hardware"}, a=ABSENT)
    service.look(1015.0, {"hardware"}, a=FOUR)
    found = service.look(1019.0, {"hardware"}, a=ABSENT)
    assert (service.opened, found.again_in) == (0, 10.0), "it counts anew"
    assert service.look(1021.0, {"hardware"}, a=FOUR).again_in is None
    assert service.opened == 0


def test_a_second_loss_is_held_back_as_long_as_the_first(service: Service) -> None:
    service.look(1010.0, {"hardware"}, a=Quantity(3))
    service.look(1020.0, {"due"}, a=Quantity(3))
    assert service.capacity == {A: "3"}
    for reasons in ({"hardware"}, {"recheck"}):
        assert service.look(1021.0, reasons, a=Quantity(2)).again_in == 10.0
        assert service.capacity == {A: "3"}


def test_what_is_no_longer_configured_is_held_back_too(service: Service) -> None:
    assert service.look(1010.0, {"config"}, b=ABSENT).again_in == 10.0
    assert service.capacity == {A: "4"}
    assert service.look(1015.0, {"hardware"}, b=ABSENT).again_in == 5.0
    assert service.opened == 1
    assert service.look(1020.0, {"due"}, b=ABSENT).again_in is None
    assert service.capacity == {}


@pytest.mark.parametrize(("uptime", "lower_after"), [(20.0, 60.0), (BOOTING - 1, 60.0), (BOOTING, 10.0)])
def test_soon_after_boot_less_must_hold_longer(uptime: float, lower_after: float) -> None:
    service = Service()
    service.look(uptime, a=FOUR)
    assert service.look(uptime, {"hardware"}, a=ABSENT).again_in == lower_after


def test_a_raise_that_is_held_at_boot_waits_for_no_more_than_it_must(service: Service) -> None:
    service = Service()
    service.settings = Settings(lower_after_boot=900.0)
    for number in range(BURST):
        service.look(20.0 + number, {"hardware"}, a=Quantity(number))
    assert service.look(30.0, {"recheck"}, a=Quantity(9)).again_in == 20.0 + BURST - 1 + OFTEN - 30.0


def test_what_keeps_changing_is_written_once_a_minute(service: Service) -> None:
    service = Service()
    at = 1000.0
    for number in range(BURST):
        service.look(at + number, {"hardware"}, a=Quantity(number))
    assert service.capacity == {A: str(BURST - 1)}
    asked = service.opened
    last = at + BURST - 1
    found = service.look(last + 1, {"hardware"}, a=Quantity(50))
    assert (found.again_in, service.opened) == (OFTEN - 1, asked)
    found = service.look(last + 2, {"recheck"}, a=Quantity(51))
    assert (found.again_in, service.capacity) == (OFTEN - 2, {A: str(BURST - 1)})
    found = service.look(last + OFTEN, {"due"}, a=Quantity(51), b=Quantity(1))
    assert (found.again_in, service.capacity) == (None, {A: "51", B: "1"})
    assert service.look(last + OFTEN + 5, {"hardware"}, a=Quantity(52), b=Quantity(1)).again_in == OFTEN - 5
    assert service.look(last + OFTEN + 5, {"hardware"}, a=Quantity(51), b=Quantity(2)).again_in is None, "b may change"


def test_one_who_fights_is_answered_once_a_minute(service: Service) -> None:
    written = []
    for second in range(0, 600, 10):
        service.capacity[A] = "7"
        service.look(1300.0 + second, {"recheck"}, a=FOUR)
        if service.capacity[A] == "4":
            written.append(second)
    assert written == list(range(0, 600, int(OFTEN)))


def test_a_fight_is_looked_at_again_when_it_may_be_answered(service: Service) -> None:
    """Not only at the next re-check: what is held back comes due."""
    for value in ("7", "8"):
        service.capacity[A] = value
        found = service.look(1300.0, {"recheck"}, a=FOUR)
    assert (service.capacity, found.again_in, dict(found.held)) == ({A: "8"}, OFTEN, {A: OFTEN})
    opened = service.opened
    assert service.look(1310.0, {"hardware"}, a=FOUR).again_in == OFTEN - 10
    assert service.opened == opened
    assert service.look(1300.0 + OFTEN, {"due"}, a=FOUR).again_in is None
    assert service.capacity == {A: "4"}


def test_one_who_takes_the_record_off_too_is_answered_once_a_minute(service: Service) -> None:
    for at in (1300.0, 1310.0):
        service.node.document = node()
        service.look(at, {"recheck"}, a=FOUR)
    assert service.capacity == {}
    service.look(1300.0 + OFTEN, {"due"}, a=FOUR)
    assert service.capacity == {A: "4"}


def test_hardware_that_changes_in_a_fight_is_written_at_once_where_nobody_wrote(service: Service) -> None:
    service.capacity[A] = "7"
    service.look(1300.0, {"recheck"}, a=FOUR)
    for number in range(5, 3 + BURST):
        service.look(1300.0 + number, {"hardware"}, a=Quantity(number))
        assert service.capacity == {A: str(number)}


def test_a_kubelet_that_restarts_again_and_again_is_no_other_writer(service: Service) -> None:
    for number in range(BURST - 1):
        service.capacity[A] = "0"
        service.kubelet_began = EPOCH + 1300.0 + number
        service.look(1301.0 + number, {"kubelet"}, a=FOUR)
        assert service.capacity == {A: "4"}


def test_a_reading_that_comes_and_goes_is_told_of_once_a_minute(service: Service) -> None:
    told: list[int] = []
    opened, before = service.opened, service.node.writes
    for second in range(0, 600, 2):
        writes = service.node.writes
        service.look(1300.0 + second, {"hardware"}, a=FOUR if second % 4 else UNKNOWN)
        told += [second] * (service.node.writes - writes)
    assert told[:BURST] == list(range(0, 2 * BURST, 2))
    assert all(later - earlier >= OFTEN for earlier, later in pairwise(told[BURST - 1 :]))
    assert service.opened - opened <= len(told) + 10, "nor is the Node asked more often"
    assert service.node.writes - before == len(told)


def test_what_could_not_be_told_yet_comes_due(service: Service) -> None:
    for second in range(BURST):
        service.look(1300.0 + second, {"recheck"}, a=FOUR if second % 2 else UNKNOWN)
    last = 1300.0 + BURST - 1
    found = service.look(last + 10, {"recheck"}, a=UNKNOWN)
    assert (found.again_in, service.condition) == (OFTEN - 10, "True")
    assert service.look(last + 20, {"hardware"}, a=UNKNOWN).again_in == OFTEN - 20
    service.look(last + OFTEN, {"due"}, a=UNKNOWN)
    assert service.condition == "False"
    assert service.look(last + OFTEN + 1, {"hardware"}, a=Quantity(5)).again_in is None
    assert (service.capacity, service.condition) == ({A: "5"}, "True"), "with a quantity it costs nothing more"


def test_what_is_only_to_be_told_waits_and_asks_nobody(service: Service) -> None:
    for second in range(BURST):
        service.look(1300.0 + second, {"recheck"}, a=FOUR if second % 2 else UNKNOWN)
    last, asked = 1300.0 + BURST - 1, service.opened
    for at, reading, next_one in ((last, UNKNOWN, FOUR), (last + OFTEN, FOUR, UNKNOWN)):
        assert service.look(at + 1, {"hardware"}, a=reading).again_in == OFTEN - 1
        assert service.look(at + 2, {"hardware"}, a=next_one).outcome is None
        assert service.opened == asked
        service.look(at + OFTEN, {"due"}, a=reading)
        asked += 1
        assert service.condition == ("False" if reading is UNKNOWN else "True")


def test_nothing_of_a_damaged_configuration_is_removed(service: Service) -> None:
    service.complete = False
    service.look(1010.0, {"config"}, b=FOUR)
    service.look(1100.0, {"due"}, b=FOUR)
    assert (service.capacity, service.condition) == ({A: "4", B: "4"}, "False")


def test_the_condition_has_the_time_of_the_look_and_can_be_turned_off(service: Service) -> None:
    ours = service.node.document["status"]["conditions"][-1]
    assert (ours["type"], ours["lastHeartbeatTime"]) == (CONDITION, "2023-11-14T22:30:00Z")
    service.settings = Settings(condition=False)
    service.look(1010.0, {"config"}, a=FOUR)
    assert CONDITION not in str(service.node.document["status"]["conditions"])


WEIRD = ["1e3", "12.5Ki", "0.1", "-4", "-0.5", "1e-9999", "1e9999", "9" * 400, "abc", "", " 4"]


@pytest.mark.parametrize("stored", WEIRD)
def test_whatever_another_wrote_over_ours_is_undone_and_told(service: Service, stored: str) -> None:
    service.capacity[A] = stored
    found = service.look(1010.0, {"recheck"}, a=FOUR)
    assert (found.trouble, service.capacity) == ("", {A: "4"})
    (entry,) = journal.outcome_entries(found, {})
    assert entry.fields["NEW"] == "4"
    assert "→ 4 (" in service.node.told[-1]


@pytest.mark.parametrize(
    "error",
    [
        NodeUnreachable("down", retry_after=7.0),
        NodeDenied("who?"),
        NodeMissing("no such Node"),
        NodeRejected("nonsense"),
    ],
)
def test_a_failure_is_told_and_keeps_the_memory(service: Service, error: NodeError) -> None:
    """What is refused as such is not tried as often as what may heal at any moment."""
    before = service.memory
    service.error = error
    found = service.look(1010.0, {"recheck"}, a=Quantity(5))
    assert (found.failed, found.trouble, found.memory, found.outcome) == (True, str(error), before, None)
    assert found.retry_after == (OFTEN if isinstance(error, NodeRejected) else getattr(error, "retry_after", None))
    service.error = None
    service.look(1011.0, {"retry"}, a=Quantity(5))
    assert service.capacity == {A: "5"}


def test_a_write_whose_answer_is_lost_is_found_and_not_repeated(service: Service) -> None:
    service.node.lose = 1
    assert service.look(1010.0, {"hardware"}, a=Quantity(5)).failed
    assert service.capacity == {A: "5"}
    writes, told = service.node.writes, len(service.node.told)
    service.error = NodeUnreachable("and now nobody is there")
    assert service.look(1011.0, {"retry"}, a=Quantity(5)).failed
    service.error = None
    assert not service.look(1012.0, {"retry"}, a=Quantity(5)).failed
    assert service.node.writes == writes
    assert service.node.told[told:] == [f"{A}: 4 → 5 (the hardware changed)"]
    service.look(1013.0, {"recheck"}, a=Quantity(5))
    assert len(service.node.told) == told + 1


def test_a_look_that_is_killed_after_its_write_is_told_by_the_next(service: Service) -> None:
    service.node.kill = True
    with pytest.raises(KeyboardInterrupt):
        service.look(1010.0, {"hardware"}, a=Quantity(5))
    assert (service.capacity, service.memory.seen) == ({A: "5"}, {A: "4"})
    writes, told = service.node.writes, len(service.node.told)
    service.node.kill = False
    for at in (1011.0, 1012.0):
        service.look(at, {"retry"}, a=Quantity(5))
        assert service.node.told[told:] == [f"{A}: 4 → 5 (the hardware changed)"]
    assert service.node.writes == writes
    assert service.memory.untold is None


def test_a_refusal_whose_answer_is_lost_is_told() -> None:
    service = Service()
    service.capacity[A] = "9"
    service.node.lose = 1
    assert service.look(1000.0, a=FOUR).failed
    service.look(1001.0, {"retry"}, a=FOUR)
    assert service.node.told == [f"{A}: not published by capacityd; adopt = true takes it over"]


def test_a_write_that_was_lost_is_told_when_it_is_made(service: Service) -> None:
    service.node.drop = 1
    told = len(service.node.told)
    assert service.look(1010.0, {"hardware"}, a=Quantity(5)).failed
    service.look(1011.0, {"retry"}, a=Quantity(6))
    assert service.node.told[told:] == [f"{A}: 4 → 6 (the hardware changed)"]


def test_what_came_back_during_a_failure_is_held_back_anew(service: Service) -> None:
    service.look(1010.0, {"recheck"}, a=Quantity(3))
    service.node.lose = 1
    assert service.look(1015.0, {"hardware"}, a=Quantity(5)).failed
    assert service.look(1021.0, {"retry"}, a=Quantity(3)).again_in == 10.0
    assert service.capacity == {A: "5"}


@pytest.mark.parametrize("reasons", [{"due"}, {"recheck"}])
def test_a_slow_detector_is_not_waited_for_and_forgets_nothing(service: Service, reasons: set[str]) -> None:
    service.look(1010.0, {"hardware"}, a=Quantity(3), b=ABSENT)
    service.pending = (A,)
    service.look(1020.0, reasons, a=UNKNOWN, b=Quantity(1))
    assert (service.capacity, service.memory.doubtful) == ({A: "4", B: "1"}, 0)
    assert [c["status"] for c in service.node.document["status"]["conditions"]] == ["True", "True"]
    service.pending = ()
    assert service.look(1020.5, {"due"}, a=Quantity(3), b=Quantity(1)).again_in is None
    assert service.capacity == {A: "3", B: "1"}


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("reading", [FOUR, ABSENT, UNKNOWN])
def test_a_slow_detector_that_says_what_it_said_before_costs_no_request(reading: Reading, condition: bool) -> None:
    service = Service()
    service.settings = Settings(condition=condition)
    service.look(1000.0, a=reading, b=FOUR)
    service.pending = (A,)
    service.look(1010.0, {"hardware"}, a=UNKNOWN, b=FOUR)
    assert service.opened == 1
    service.look(1020.0, {"recheck"}, a=UNKNOWN, b=FOUR)
    service.pending = ()
    service.look(1020.5, {"due"}, a=reading, b=FOUR)
    assert service.opened == 2


def test_what_a_slow_detector_cannot_read_is_told(service: Service) -> None:
    for at in (1010.0, 1020.0):
        service.pending = (A,)
        service.look(at, {"recheck"}, a=UNKNOWN)
        service.pending = ()
        service.look(at + 0.5, {"due"}, a=UNKNOWN)
        assert (service.capacity, service.condition) == ({A: "4"}, "False")
        (ours,) = (c for c in service.node.document["status"]["conditions"] if c["type"] == CONDITION)
        ours |= {"status": "True", "message": "another's"}


def test_a_node_made_anew_has_its_condition_also_where_a_slow_detector_finds_nothing(service: Service) -> None:
    service.look(1010.0, {"config"}, b=ABSENT)
    service.node.document = node()
    service.pending = (B,)
    service.look(1020.0, {"recheck"}, b=UNKNOWN)
    service.pending = ()
    service.look(1020.5, {"due"}, b=ABSENT)
    assert service.condition == "True"


@pytest.mark.parametrize("value", ["9", None])
def test_what_others_wrote_is_put_back_for_a_slow_detector_too(service: Service, value: str | None) -> None:
    service.capacity[A] = value or "4"
    if value is None:
        service.node.document = node()
    service.pending = (A,)
    service.look(1020.0, {"recheck"}, a=UNKNOWN)
    service.pending = ()
    service.look(1025.0, {"due"}, a=FOUR)
    assert service.capacity == {A: "4"}


def test_before_all_is_read_the_condition_has_no_first_word(service: Service) -> None:
    """On a slow machine nothing may be read so soon: that "all configured resources are published" would be untrue."""
    service.node.document = node()
    service.pending = (A, B)
    service.look(1020.0, {"recheck"}, a=UNKNOWN, b=UNKNOWN)
    service.pending = (B,)
    service.look(1022.0, {"recheck"}, a=FOUR, b=UNKNOWN)
    assert service.capacity == {A: "4"}
    assert "CapacityPublished" not in str(service.node.document["status"])
    service.pending = ()
    service.look(1025.0, {"due"}, a=FOUR, b=ABSENT)
    assert "all configured resources are published" in str(service.node.document["status"])


def test_a_kubelet_that_began_anew_is_watched_until_its_heartbeat_is_newer(service: Service) -> None:
    service.beat(1000)
    service.kubelet_began = EPOCH + 1010.7
    at, pauses = 1012.0, []
    for _ in range(6):
        found = service.look(at, {"kubelet"} if at == 1012.0 else {"due"}, a=FOUR)
        assert found.again_in is not None
        pauses.append(found.again_in)
        at += found.again_in
    assert pauses == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    service.look(at, {"hardware"}, a=FOUR)
    assert service.opened == 7, "until then a local reason asks, too"
    service.capacity[A] = "0"
    service.beat(1011)
    assert service.look(at + 1, {"due"}, a=FOUR).again_in is None
    assert service.capacity == {A: "4"}
    service.look(at + 2, {"hardware"}, a=FOUR)
    assert service.opened == 8


def test_what_a_kubelet_that_began_anew_zeroes_late_is_restored_each_time(service: Service) -> None:
    service.beat(1000)
    service.kubelet_began = EPOCH + 1010.7
    for at, reason in ((1012.0, "kubelet"), (1013.0, "due"), (1015.0, "due")):
        service.capacity[A] = "0"
        service.look(at, {reason}, a=FOUR)
        assert service.capacity == {A: "4"}


def test_a_heartbeat_that_never_comes_is_given_up_once(service: Service) -> None:
    service.beat(1000)
    service.kubelet_began = EPOCH + 5000.0
    at = 1010.0
    while (found := service.look(at, {"due"} if service.opened else {"kubelet"}, a=FOUR)).again_in:
        at += found.again_in
    assert 300 < at - 1010 < 400
    asked = service.opened
    assert service.look(at + 3600, {"recheck"}, a=FOUR).again_in is None
    service.kubelet_began = EPOCH + 9000.0
    assert service.look(at + 7200, {"kubelet"}, a=FOUR).again_in == 1.0, "another start is another matter"
    assert service.opened == asked + 2


@pytest.mark.parametrize(
    ("began", "beat"),
    [
        (1010.0, None),
        (None, 1010),
        (1010.7, 1010),  # it is in whole seconds
    ],
)
def test_a_kubelet_that_has_nothing_to_tell_is_not_waited_for(
    service: Service, began: float | None, beat: int | None
) -> None:
    service.kubelet_began = None if began is None else EPOCH + began
    if beat is not None:
        service.beat(beat)
    assert service.look(1012.0, {"kubelet"}, a=FOUR).again_in is None


def test_observing_writes_nothing(service: Service) -> None:
    service.settings = Settings(observe=True)
    writes = service.node.writes
    found = service.look(1010.0, {"config"}, a=Quantity(5), b=Quantity(1))
    assert found.outcome is not None
    assert [(c.name, c.action) for c in found.outcome.plan.changes] == [(A, "set"), (B, "set")]
    assert not found.outcome.applied
    assert dict(found.memory.published) == {A: 4}, "what the Node's record says, not what it would"
    found = service.look(1020.0, {"config"}, a=ABSENT)
    assert found.again_in == 10.0
    assert service.look(1030.0, {"due"}, a=ABSENT).again_in is None
    service.look(1040.0, {"hardware"}, a=ABSENT)
    assert service.look(1050.0, {"recheck"}, a=ABSENT).again_in is None
    assert (service.node.writes, service.capacity) == (writes, {A: "4"})


def test_what_is_observed_to_be_lower_for_a_name_that_is_not_ours_is_held_back_once() -> None:
    service = Service()
    service.settings, service.adopt = Settings(observe=True), {A}
    service.capacity[A] = "9"
    assert service.look(1000.0, {"config"}, a=FOUR).again_in == 10.0
    assert service.look(1010.0, {"due"}, a=FOUR).again_in is None
    service.look(1020.0, {"hardware"}, a=FOUR)
    assert service.look(1030.0, {"recheck"}, a=FOUR).again_in is None, "an event that changed nothing began it anew"


def test_what_is_observed_and_no_longer_configured_is_held_back_once(service: Service) -> None:
    service.settings = Settings(observe=True)
    assert service.look(1000.0, {"config"}, b=UNKNOWN).again_in == 10.0
    service.look(1010.0, {"due"}, b=UNKNOWN)
    service.look(1130.0, {"due"}, b=UNKNOWN)
    assert not any(c.action == "hold" for c in _changes(service.look(1140.0, {"recheck"}, b=UNKNOWN)))


def test_a_device_plugin_that_registers_while_we_write_keeps_its_value(service: Service) -> None:
    def register() -> None:
        service.plugins = {A}
        service.capacity[A] = "2"

    service.node.between = register
    found = service.look(1010.0, {"hardware"}, a=Quantity(7))
    assert (service.capacity[A], found.outcome and found.outcome.plan.refused) == ("2", (A,))


def test_what_is_refused_is_not_asked_about_again() -> None:
    service = Service()
    service.capacity[A] = "9"
    service.look(1000.0, a=FOUR)
    asked = service.opened
    assert service.look(1010.0, {"hardware"}, a=FOUR).again_in is None
    assert (service.opened, service.capacity) == (asked, {A: "9"})


def _changes(found: Look) -> tuple[Change, ...]:
    assert found.outcome is not None
    return found.outcome.plan.changes
