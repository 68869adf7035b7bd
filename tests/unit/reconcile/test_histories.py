"""Thousands of random histories of the service, its Node and all who disturb them: it converges, and does no harm.

What must hold of each single write is in loop.py; here is what must hold in the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as how_hard
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from capacityd.model.config import Settings
from capacityd.model.node import CONDITION
from capacityd.model.quantity import whole_quantity
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.model.reasons import PassReason, RetryCause
from capacityd.reconcile.facts import Facts, PassContext, Policy
from capacityd.reconcile.plan import make_plan, make_withdrawal
from capacityd.reconcile.timing import BURST, MIN_INTERVAL
from capacityd.service.schedule import BACKOFF_MAX, DEBOUNCE_MAX, RESYNC_PERIOD
from tests.support.loop import Loop
from tests.support.world import NAMES, OURS, THEIRS, World, configuration

_FIRST_PAUSE, _LONGEST_PAUSE, _BOOTED = 60.0, 3600.0, 600.0
"""Seconds: the pauses until what is unknown is read again; and the uptime until which there is only the first one."""

pauses = st.sampled_from([0.0, 0.3, 2.0, 6.0, 15.0, 70.0, 200.0])
names = st.sampled_from(NAMES)
some_names = st.frozensets(names)
readings = st.sampled_from([Quantity(n) for n in range(5)] + [Absent("none"), Unknown("busy")] * 2)
values = st.sampled_from([None, "0", "1", "2", "3", "4", "1500m", "1k"])
records = st.one_of(
    st.sampled_from([None, "", "garbage", "[]", '{"cpu": 8}', '{"example.com/a": "2"}', '{"a/b/c": 1}']),
    st.dictionaries(st.sampled_from([*NAMES, *THEIRS]), st.integers(0, 4)).map(json.dumps),
    st.just(json.dumps({f"example.com/x{number}": number for number in range(200)})),
)
settings = st.builds(
    Settings,
    observe=st.sampled_from([False, False, False, True]),
    condition=st.sampled_from([True, True, False]),
    lower_after=st.sampled_from([10.0, 10.0, 0.0, 6.0, 15.0, 70.0]),
    resync=st.sampled_from([RESYNC_PERIOD, RESYNC_PERIOD, 900.0]),
)


class Histories(RuleBasedStateMachine):
    """One history: every rule is a disturbance, and some time in which the service runs."""

    @initialize(seed=st.integers(0, 2**16), registered=st.booleans(), theirs=values, pause=pauses)
    def begin(self, seed: int, registered: bool, theirs: str | None, pause: float) -> None:
        self.world = World()
        if registered:
            self.world.start_kubelet(False, 0.0)
            self.world.move(self.world.uptime)
            self.world.write(THEIRS[0], theirs)
        self.loop = Loop(self.world, seed)
        self.loop.run(pause)

    @rule()
    def nothing_happens(self) -> None:
        failing = self.loop.fault or self.world.node is None
        self.loop.run(200.0 if failing else 2.0 * RESYNC_PERIOD)

    @rule(
        name=names, reading=readings, reason=st.sampled_from([PassReason.HARDWARE, PassReason.FILE, None]), pause=pauses
    )
    def hardware_changes(
        self, name: str, reading: Quantity | Absent | Unknown, reason: PassReason | None, pause: float
    ) -> None:
        self.world.machine[name] = reading
        if reason:
            self.world.hear({reason})
        self.loop.run(pause)

    @rule(
        name=names,
        flips=st.lists(readings, min_size=2, max_size=8),
        pause=st.sampled_from([0.1, 1.5, 10.0, 12.0, 60.0]),
    )
    def hardware_flaps(self, name: str, flips: list[Quantity | Absent | Unknown], pause: float) -> None:
        for reading in flips:
            self.hardware_changes(name, reading, "hardware", pause)

    @rule(
        name=st.sampled_from(OURS),
        more=st.integers(1, 3),
        pauses=st.lists(st.sampled_from([0.3, 3.0, 15.0, 70.0, 700.0]), min_size=1, max_size=8),
        fault=st.sampled_from(["", "", "unreachable", "busy", "rejected"]),
        reason=st.sampled_from([PassReason.FILE, PassReason.HARDWARE, PassReason.KUBELET]),
    )
    def a_resource_cannot_be_read_for_a_time(
        self, name: str, more: int, pauses: list[float], fault: str, reason: PassReason
    ) -> None:
        """Whatever events come meanwhile, it is published within the pause that its time of being unknown allows."""
        world, loop = self.world, self.loop
        world.machine[name], loop.fault = Unknown("busy"), fault
        for pause in pauses:  # events of other resources
            world.hear({reason})
            loop.run(pause)
        loop.fault, loop.lost, loop.unheard, loop.kill, loop.between = "", 0, 0, "", []
        before = max(world.record().get(name, 0), whole_quantity(world.capacity.get(name, "0")) or 0)
        world.machine[name] = Quantity(before + more)  # no event says so
        unknown_for = world.uptime - loop.unknown_from.get(name, world.uptime)
        if name not in loop.unknown_from or not self._is_published_when_read(name):
            return
        allowed = _FIRST_PAUSE if world.uptime < _BOOTED else min(max(unknown_for, _FIRST_PAUSE), _LONGEST_PAUSE)
        recent = [at for at in loop.written.get(name, []) if world.uptime - at < BURST * MIN_INTERVAL]
        allowed += MIN_INTERVAL if len(recent) >= BURST - 1 else 0.0
        allowed += BACKOFF_MAX + MIN_INTERVAL if loop.failure else 0.0
        end = world.uptime + allowed + DEBOUNCE_MAX
        while world.capacity.get(name) != str(before + more):
            assert world.uptime < end, f"{name}, unknown for {unknown_for} s, was not read again within {allowed} s"
            loop.run(min(10.0, max(0.1, end - world.uptime)))

    def _is_published_when_read(self, name: str) -> bool:
        """Whether nothing but its reading keeps a name from being published, as far as the Node and `status` show."""
        world, own = self.world, self.world.published
        stored, recorded = world.capacity.get(name), world.record().get(name)
        ours = stored is None or (own is not None and recorded is not None and own.confirms(name, recorded))
        return (
            world.node is not None
            and name in {resource.name for resource in world.config.resources}
            and name not in world.checkpoint
            and (world.checkpoint_readable or stored is None or whole_quantity(stored) == recorded)
            and not world.config.settings.observe
            and ours
            and self.loop.failure not in (RetryCause.DENIED, RetryCause.MISSING)
        )

    @rule(name=st.sampled_from([*NAMES, *THEIRS]), value=values, between=st.booleans(), pause=pauses)
    def another_writes(self, name: str, value: str | None, between: bool, pause: float) -> None:
        self._others(lambda: self.world.write(name, value), between, pause)

    @rule(name=st.sampled_from([*NAMES, *THEIRS]), value=values, between=st.booleans(), pause=pauses)
    def another_writes_allocatable(self, name: str, value: str | None, between: bool, pause: float) -> None:
        self._others(lambda: self.world.write_allocatable(name, value), between, pause)

    @rule(names=some_names, pause=pauses)
    def the_kubelet_overwrites_allocatable(self, names: frozenset[str], pause: float) -> None:
        self.world.lag(names)
        self.loop.run(pause)

    @rule(text=records, between=st.booleans(), pause=pauses)
    def another_writes_the_record(self, text: str | None, between: bool, pause: float) -> None:
        self._others(lambda: self.world.annotate(text), between, pause)

    @rule(
        name=st.sampled_from(OURS),
        value=st.sampled_from([None, "0", "1", "3", "1500m", "1k"]),
        text=st.sampled_from([None, "", "garbage", "[]"]),
        between=st.booleans(),
    )
    def another_writes_a_value_and_loses_the_record(
        self, name: str, value: str | None, text: str | None, between: bool
    ) -> None:
        """No record is no claim: what this machine has published to this Node is put back, whoever wrote meanwhile."""
        world, loop = self.world, self.loop
        loop.fault, loop.lost, loop.unheard, loop.kill, loop.between = "", 0, 0, "", []
        reading = world.machine.get(name)
        published = world.capacity.get(name)
        settled = (
            isinstance(reading, Quantity)
            and (world.record().get(name), published) == (reading.value, str(reading.value))
            and world.published is not None
            and world.published.published.get(name) == reading.value
            and world.checkpoint_readable
            and self._is_published_when_read(name)
        )

        def write() -> None:
            world.write(name, value)
            world.annotate(text)

        if between:
            loop.between.append(write)
        else:
            write()
        for _ in range(3):
            world.hear({PassReason.RESUME})
            loop.run(MIN_INTERVAL + BACKOFF_MAX)
        assert not settled or world.capacity.get(name) == published, f"{name} was given up"

    @rule(how=st.sampled_from(["front", "change", "remove"]), between=st.booleans(), pause=pauses)
    def another_writes_conditions(self, how: str, between: bool, pause: float) -> None:
        self._others(lambda: self.world.disturb_conditions(how), between, pause)

    @rule(between=st.booleans(), pause=pauses)
    def the_node_is_deleted(self, between: bool, pause: float) -> None:
        self._others(self.world.delete, between, pause)

    @rule(between=st.booleans(), pause=pauses)
    def the_node_is_registered_anew(self, between: bool, pause: float) -> None:
        def anew() -> None:
            self.world.delete()
            self.world.start_kubelet(False, 0.0)

        self._others(anew, between, pause)

    # A lock keeps commands by hand from what is between our GET and our PATCH.

    @rule(read=st.dictionaries(names, readings), adopt=some_names, complete=st.booleans())
    def somebody_applies(self, read: Mapping[str, Reading], adopt: frozenset[str], complete: bool) -> None:
        policy = Policy(adopt, complete=complete)
        context = PassContext(self.world.now(), machine_record=self.world.published)
        inputs = Facts(read, policy, context, device_plugins=self.world.device_plugins())
        self.world.carry_out(lambda state: make_plan(state, inputs))

    @rule(pause=pauses)
    def all_is_withdrawn(self, pause: float) -> None:
        context = PassContext(machine_record=self.world.published)
        inputs = Facts(context=context, device_plugins=self.world.device_plugins())
        self.world.carry_out(lambda state: make_withdrawal(state, inputs))
        self.loop.run(pause)

    @rule(pause=pauses)
    def the_machine_is_imaged_anew(self, pause: float) -> None:
        self.world.published = None
        self.world.reboot()
        self.loop.start(state_lost=True)
        self.loop.run(pause)

    @rule(zeroes=st.booleans(), delay=st.sampled_from([0.0, 0.4, 20.0]), between=st.booleans(), pause=pauses)
    def the_kubelet_restarts(self, zeroes: bool, delay: float, between: bool, pause: float) -> None:
        self._others(lambda: self.world.start_kubelet(zeroes, delay), between, pause)

    @rule(name=names, count=st.integers(0, 4), synced=st.booleans(), between=st.booleans(), pause=pauses)
    def a_device_plugin_comes(self, name: str, count: int, synced: bool, between: bool, pause: float) -> None:
        def come() -> None:
            self.world.plugin_comes(name, count)
            if synced:  # the kubelet was about to write
                self.world.sync()

        self._others(come, between, pause)

    @rule(name=names, between=st.booleans(), pause=pauses)
    def a_device_plugin_leaves(self, name: str, between: bool, pause: float) -> None:
        self._others(lambda: self.world.plugin_leaves(name), between, pause)

    @rule(readable=st.booleans(), pause=pauses)
    def the_checkpoint_changes(self, readable: bool, pause: float) -> None:
        self.world.checkpoint_readable = readable
        self.world.hear({PassReason.PLUGINS})
        self.loop.run(pause)

    @rule(
        fault=st.sampled_from(["", "", "unreachable", "busy", "denied", "rejected"]),
        lost=st.integers(0, 2),
        unheard=st.integers(0, 2),
        pause=pauses,
    )
    def the_api_server_fails(self, fault: str, lost: int, unheard: int, pause: float) -> None:
        self.loop.fault, self.loop.lost, self.loop.unheard = fault, lost, unheard
        self.loop.run(pause)

    @rule(point=st.sampled_from(["before", "unsent", "unanswered", "unkept"]), pause=pauses)
    def a_child_is_killed(self, point: str, pause: float) -> None:
        self.loop.kill = point
        self.loop.run(pause)

    @rule(
        names=some_names,
        adopt=some_names,
        broken=some_names,
        complete=st.booleans(),
        settings=settings,
        pause=pauses,
    )
    def the_configuration_changes(
        self,
        names: frozenset[str],
        adopt: frozenset[str],
        broken: frozenset[str],
        complete: bool,
        settings: Settings,
        pause: float,
    ) -> None:
        self.world.config = configuration(names, adopt, broken, complete, settings)
        self.loop.configure()
        self.world.hear({PassReason.CONFIG})
        self.loop.run(pause)

    @rule(seconds=st.sampled_from([-3600.0, -10.0, 10.0, 100_000.0]), pause=pauses)
    def the_clock_jumps(self, seconds: float, pause: float) -> None:
        self.world.clock += seconds
        self.loop.run(pause)

    @rule(state_lost=st.booleans(), pause=pauses)
    def the_service_restarts(self, state_lost: bool, pause: float) -> None:
        self.loop.start(state_lost)
        self.loop.run(pause)

    @rule(zeroes=st.booleans(), delay=st.sampled_from([0.4, 20.0]), pause=pauses)
    def the_machine_reboots(self, zeroes: bool, delay: float, pause: float) -> None:
        self.world.reboot()
        self.loop.start(state_lost=True)
        self.the_kubelet_restarts(zeroes, delay, False, pause)

    @rule(seconds=st.sampled_from([30.0, 10_000.0]), pause=pauses)
    def the_machine_sleeps(self, seconds: float, pause: float) -> None:
        self.world.move(self.world.uptime + seconds)
        self.world.suspended += seconds
        self.world.hear({PassReason.RESUME})
        self.loop.run(pause)

    def _others(self, act: Callable[[], None], between: bool, pause: float) -> None:
        """between: our GET and our PATCH, if there are any in the pause."""
        if between:
            self.loop.between.append(act)
        else:
            act()
        self.loop.run(pause)

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self._calm()
            self._check_end()
            self._check_idle()

    def _calm(self) -> None:
        """The last disturbance is over, and as much time passes as three of the slow resyncs take."""
        world, loop = self.world, self.loop
        loop.fault, loop.lost, loop.unheard, loop.kill, loop.between = "", 0, 0, "", []
        world.checkpoint_readable = True
        world.lag(frozenset())
        if world.node is None or world.socket is None:
            world.start_kubelet(False, 0.4)
        loop.run(3.6 * RESYNC_PERIOD)

    def _check_end(self) -> None:
        world = self.world
        config, record, capacity = world.config, world.record(), world.capacity
        wanted = world.probe()
        if config.settings.observe:
            return
        for name in NAMES:
            reading, stored, recorded = wanted.get(name), capacity.get(name), record.get(name)
            number = None if stored is None else whole_quantity(stored)
            left = stored is None or name in world.strangers or world.tampered
            adopted = any(r.name == name and r.adopt for r in config.resources)
            own = world.published
            ours = recorded is not None and (own is None or own.names(name))
            confirmed = recorded is not None and own is not None and own.confirms(name, recorded)
            if name in world.checkpoint:
                assert recorded is None, f"{name} is a device plugin's"
            elif isinstance(reading, Quantity):
                refused = not ours and stored is not None and (left or recorded is not None) and not adopted
                assert refused or (number, recorded) == (reading.value, reading.value), f"{name} is not published"
            elif isinstance(reading, Unknown):
                restored = stored is not None and (number != 0 or recorded == 0)
                assert not confirmed or restored, f"{name} was lost"
            elif (isinstance(reading, Absent) or (config.complete and wanted)) and (confirmed or recorded is None):
                assert recorded is None, f"{name} is still recorded"
                assert left, f"{name} is still there"
        assert world.node is not None
        conditions = [c for c in world.node["status"]["conditions"] if c["type"] == CONDITION]
        if config.settings.condition and wanted:
            unknown = any(isinstance(r, Unknown) for r in wanted.values())
            assert len(conditions) == 1
            full = all((whole_quantity(world.allocatable.get(n, "0")) or 0) >= record[n] for n in record)
            assert conditions[0]["status"] == "False" or full
            assert conditions[0]["status"] == "False" or (config.complete and not unknown)
        elif not config.settings.condition:
            assert not conditions

    def _check_idle(self) -> None:
        """One GET and one PATCH of the heartbeat for each resync, and none for an event that changes nothing."""
        loop = self.loop
        loop.asked, loop.writes = [], 0
        loop.run(2.4 * self.world.config.settings.resync)
        self.world.hear({PassReason.HARDWARE, PassReason.FILE})
        loop.run(30.0)
        has_condition = any(c["type"] == CONDITION for c in (self.world.node or {})["status"]["conditions"])
        observed = self.world.config.settings.observe
        assert loop.writes == (len(loop.asked) if has_condition and not observed else 0)
        assert 2 <= len(loop.asked) <= 4
        assert all("resync" in reasons for reasons in loop.asked)


def test_histories(monkeypatch: pytest.MonkeyPatch) -> None:
    still = SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda seconds: None, time=lambda: 0.0)
    monkeypatch.setattr("capacityd.reconcile.apply.time", still)
    monkeypatch.setattr("capacityd.reconcile.writing.time", still)
    usual = how_hard().max_examples
    examples = min(20 * usual, 20_000) if usual > 20 else 5 * usual  # one takes 10 ms
    effort = how_hard(
        max_examples=examples, stateful_step_count=16, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(Histories, settings=effort)
