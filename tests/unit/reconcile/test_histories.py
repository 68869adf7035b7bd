"""Thousands of random histories of the service, its Node and all who disturb them: it converges, and does no harm.

What must hold of each single write is in write_checks.py; here is what must hold in the end. All times are those that
docs/explanation.md and docs/limits.md promise.
"""

from __future__ import annotations

import errno
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from hypothesis import HealthCheck
from hypothesis import settings as how_hard
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from capacityd.model.config import Settings
from capacityd.model.quantity import whole_quantity
from capacityd.model.reading import Absent, Quantity, Reading, Unknown
from capacityd.model.reasons import PassReason, RetryCause
from capacityd.reconcile.facts import Facts, PassContext, Policy
from capacityd.reconcile.plan import make_plan, make_withdrawal
from tests.support.denials import Alters, Denies
from tests.support.loop import Loop
from tests.support.model_machine import Machine, damage, remove, remove_obstacle
from tests.support.model_server import NAMES, OURS, THEIRS, ModelServer
from tests.support.strategies import alterations, denials
from tests.support.world import World, configuration
from tests.support.write_checks import PER_WRITE, WRITES

RESYNC, JITTER = 3600.0, 1.2
"""Seconds between two reads of the Node, at most JITTER times as many."""
UNKNOWN, UNKNOWN_MAX, BOOTED = 60.0, 3600.0, 600.0
"""Seconds until what is unknown is read again: at first, and at most; and the uptime until which it is each minute."""
RETRY = 90.0
"""Seconds until a pass that has failed is made again, unless the API server rejects or denies something."""
EVENTS = 10.0
"""Seconds for which a pass waits while events come."""

pauses = st.sampled_from([0.0, 0.3, 2.0, 6.0, 15.0, 70.0, 200.0])
names = st.sampled_from(NAMES)
any_key = st.sampled_from([*NAMES, "cpu"])
some_names = st.frozensets(names)
readings = st.sampled_from([Quantity(n) for n in range(5)] + [Absent("none"), Unknown("busy")] * 2)
values = st.sampled_from([None, "0", "1", "2", "3", "4", "1500m", "1k"])
records = st.one_of(
    st.sampled_from([None, "", "garbage", "[]", '{"cpu": 8}', '{"example.com/a": "2"}', '{"a/b/c": 1}']),
    st.dictionaries(any_key, st.integers(0, 4)).map(json.dumps),
    st.just(json.dumps({f"example.com/x{number}": number for number in range(200)})),
)
settings = st.builds(
    Settings,
    observe=st.sampled_from([False, False, False, True]),
    condition=st.sampled_from([True, True, False]),
    lower_after=st.sampled_from([10.0, 10.0, 0.0, 6.0, 15.0, 70.0]),
    resync=st.sampled_from([RESYNC, RESYNC, 900.0]),
)


class Histories(RuleBasedStateMachine):
    """One history: every rule is a disturbance, and some time in which the service runs."""

    @initialize(seed=st.integers(0, 2**16), registered=st.booleans(), theirs=values, pause=pauses)
    def begin(self, seed: int, registered: bool, theirs: str | None, pause: float) -> None:
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm")
        config = configuration(frozenset(OURS[:2]), frozenset(), frozenset(), Settings(), complete=True)
        self.machine = Machine(Path(self.folder.name), ModelServer(), state_file=False, config=config, uptime=20.0)
        self.server, self.world = self.machine.server, World(self.machine)
        if registered:
            self.world.start_kubelet(zeroes=False, delay=0.0)
            self.world.move(self.world.uptime)
            self.server.write(THEIRS, theirs)
        self.loop = Loop(self.world, seed)
        self.loop.run(pause)

    @rule()
    def nothing_happens(self) -> None:
        failing = self.server.fault or self.server.document is None
        self.loop.run(200.0 if failing else 2.0 * RESYNC)

    @rule(
        name=names, reading=readings, reason=st.sampled_from([PassReason.HARDWARE, PassReason.FILE, None]), pause=pauses
    )
    def hardware_changes(
        self, name: str, reading: Quantity | Absent | Unknown, reason: PassReason | None, pause: float
    ) -> None:
        self.machine.readings[name] = reading
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
            self.hardware_changes(name, reading, PassReason.HARDWARE, pause)

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
        self.machine.readings[name], self.server.fault = Unknown("busy"), fault
        for pause in pauses:  # events of other resources
            self.world.hear({reason})
            self.loop.run(pause)
        self._end_faults()
        stored = whole_quantity(self.server.capacity.get(name, "0")) or 0
        number = max(self.server.record().get(name, 0), stored) + more
        self.machine.readings[name] = Quantity(number)  # no event says so
        since, uptime = self.machine.checks.unknown_since.get(name), self.world.uptime
        if since is None or not self._is_published_when_read(name):
            return
        pause = UNKNOWN if uptime < BOOTED else min(uptime - since, UNKNOWN_MAX)
        allowed = pause if uptime - since >= UNKNOWN else since + UNKNOWN - uptime
        allowed += PER_WRITE if self.machine.checks.times_written(name, WRITES * PER_WRITE) >= WRITES - 1 else 0.0
        allowed += RETRY + PER_WRITE if self.loop.failure else 0.0
        self._run_until_published(name, number, allowed)

    @rule(name=st.sampled_from(OURS), more=st.integers(1, 3))
    def a_device_is_plugged(self, name: str, more: int) -> None:
        """A higher number is written at once."""
        number = max(self.server.record().get(name, 0), whole_quantity(self.server.capacity.get(name, "0")) or 0) + more
        at_once = (
            self._is_published_when_read(name)
            and self.loop.failure is None
            and not self._is_disturbed()
            and self.machine.checks.times_written(name, WRITES * PER_WRITE) < WRITES - 1
        )
        self.machine.readings[name] = Quantity(number)
        self.world.hear({PassReason.HARDWARE})
        if at_once:
            self._run_until_published(name, number, 0.0)

    def _run_until_published(self, name: str, number: int, allowed: float) -> None:
        end = self.world.uptime + allowed + EVENTS
        while self.server.capacity.get(name) != str(number):
            assert self.world.uptime < end, f"{name} was not published within {allowed} s"
            self.loop.run(min(10.0, max(0.1, end - self.world.uptime)))

    def _is_published_when_read(self, name: str) -> bool:
        """Whether nothing but its reading keeps a name from being published, as far as the Node and `status` show."""
        server, machine, own = self.server, self.machine, self.machine.own_record
        stored, recorded = server.capacity.get(name), server.record().get(name)
        ours = stored is None or (own is not None and recorded is not None and own.confirms(name, recorded))
        return (
            server.document is not None
            and name in {resource.name for resource in machine.configured.resources}
            and name not in machine.device_plugins
            and (machine.checkpoint_readable or stored is None or whole_quantity(stored) == recorded)
            and not machine.configured.settings.observe
            and ours
            and self.loop.failure not in (RetryCause.DENIED, RetryCause.MISSING, RetryCause.REJECTED)
        )

    @rule(name=any_key, value=values, between=st.booleans(), pause=pauses)
    def another_writes(self, name: str, value: str | None, between: bool, pause: float) -> None:
        self._others(lambda: self.server.write(name, value), between, pause)

    @rule(name=any_key, value=values, between=st.booleans(), pause=pauses)
    def another_writes_allocatable(self, name: str, value: str | None, between: bool, pause: float) -> None:
        self._others(lambda: self.world.write_allocatable(name, value), between, pause)

    @rule(names=some_names, pause=pauses)
    def the_kubelet_overwrites_allocatable(self, names: frozenset[str], pause: float) -> None:
        self.world.make_unhealthy(names)
        self.loop.run(pause)

    @rule(text=records, between=st.booleans(), pause=pauses)
    def another_writes_the_record(self, text: str | None, between: bool, pause: float) -> None:
        self._others(lambda: self.server.annotate(text), between, pause)

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
        self._end_faults()
        reading, own = self.machine.readings.get(name), self.machine.own_record
        published = self.server.capacity.get(name)
        settled = (
            isinstance(reading, Quantity)
            and (self.server.record().get(name), published) == (reading.value, str(reading.value))
            and own is not None
            and own.published.get(name) == reading.value
            and self.machine.checkpoint_readable
            and self._is_published_when_read(name)
        )

        def write() -> None:
            self.server.write(name, value)
            self.server.annotate(text)

        if between:
            self.server.between.append(write)
        else:
            write()
        for _ in range(3):
            self.world.hear({PassReason.RESUME})
            self.loop.run(PER_WRITE + RETRY)
        assert not settled or self.server.capacity.get(name) == published, f"{name} was given up"

    @rule(how=st.sampled_from(["front", "change", "remove"]), between=st.booleans(), pause=pauses)
    def another_writes_conditions(self, how: str, between: bool, pause: float) -> None:
        self._others(lambda: self.server.disturb_conditions(how), between, pause)

    @rule(between=st.booleans(), pause=pauses)
    def the_node_is_deleted(self, between: bool, pause: float) -> None:
        self._others(self.server.delete, between, pause)

    @rule(between=st.booleans(), pause=pauses)
    def the_node_is_registered_anew(self, between: bool, pause: float) -> None:
        def anew() -> None:
            self.server.delete()
            self.world.start_kubelet(zeroes=False, delay=0.0)

        self._others(anew, between, pause)

    # A lock keeps commands by hand from what is between our GET and our PATCH.

    @rule(read=st.dictionaries(names, readings), adopt=some_names, complete=st.booleans())
    def somebody_applies(self, read: Mapping[str, Reading], adopt: frozenset[str], complete: bool) -> None:
        context = PassContext(self.machine.now, machine_record=self.machine.own_record)
        policy = Policy(adopt, complete=complete)
        self._carry_out(Facts(read, policy, context, device_plugins=self.machine.checkpoint), withdraw=False)

    @rule(pause=pauses)
    def all_is_withdrawn(self, pause: float) -> None:
        context = PassContext(machine_record=self.machine.own_record)
        self._carry_out(Facts(context=context, device_plugins=self.machine.checkpoint), withdraw=True)
        self.loop.run(pause)

    def _carry_out(self, facts: Facts, *, withdraw: bool) -> None:
        """A command ends with an error if the record can't be read or written."""
        if not (self.machine.record_unreadable or self.machine.record.with_name("published.json.new").exists()):
            self.world.carry_out(lambda state: make_withdrawal(state, facts) if withdraw else make_plan(state, facts))

    @rule(pause=pauses)
    def the_machine_is_imaged_anew(self, pause: float) -> None:
        remove(self.machine.record)
        self.loop.reboot()
        self.loop.run(pause)

    @rule(zeroes=st.booleans(), delay=st.sampled_from([0.0, 0.4, 20.0]), between=st.booleans(), pause=pauses)
    def the_kubelet_restarts(self, zeroes: bool, delay: float, between: bool, pause: float) -> None:
        self._others(lambda: self.world.start_kubelet(zeroes=zeroes, delay=delay), between, pause)

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
        self.machine.checkpoint_readable = readable
        self.world.hear({PassReason.PLUGINS})
        self.loop.run(pause)

    @rule(
        fault=st.sampled_from(["", "", "unreachable", "busy", "denied", "rejected"]),
        lost=st.integers(0, 2),
        dropped=st.integers(0, 2),
        pause=pauses,
    )
    def the_api_server_fails(self, fault: str, lost: int, dropped: int, pause: float) -> None:
        self.server.fault, self.server.lose, self.server.drop = fault, lost, dropped
        self.loop.run(pause)

    @rule(denies=st.lists(denials, max_size=2).map(tuple), pause=pauses)
    def admission_denies(self, denies: tuple[Denies, ...], pause: float) -> None:
        self.server.denies = denies
        self.loop.run(pause)

    @rule(alters=st.lists(alterations, max_size=1).map(tuple), pause=pauses)
    def a_webhook_alters(self, alters: tuple[Alters, ...], pause: float) -> None:
        self.server.alters = alters
        self.loop.run(pause)

    @rule(fault=st.sampled_from(["missing", "directory", "unwritable", "EIO"]), pause=pauses)
    def the_record_fails(self, fault: str, pause: float) -> None:
        if fault == "EIO":
            self.machine.record_errno = errno.EIO
        elif fault == "unwritable":
            self.machine.record.with_name("published.json.new").mkdir(exist_ok=True)
        else:
            damage(self.machine.record, fault)
        self.loop.run(pause)

    @rule(
        point=st.integers(0, 12), reason=st.sampled_from([PassReason.HARDWARE, PassReason.RESUME, None]), pause=pauses
    )
    def a_worker_is_killed(self, point: int, reason: PassReason | None, pause: float) -> None:
        self.machine.kill_at = point
        if reason:
            self.world.hear({reason})
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
        self.machine.config = configuration(names, adopt, broken, settings, complete=complete)
        self.loop.configure()
        self.world.hear({PassReason.CONFIG})
        self.loop.run(pause)

    @rule(seconds=st.sampled_from([-3600.0, -10.0, 10.0, 100_000.0]), pause=pauses)
    def the_clock_jumps(self, seconds: float, pause: float) -> None:
        self.machine.booted += seconds
        self.loop.run(pause)

    @rule(state_lost=st.booleans(), pause=pauses)
    def the_service_restarts(self, state_lost: bool, pause: float) -> None:
        self.loop.start(state_lost=state_lost)
        self.loop.run(pause)

    @rule(zeroes=st.booleans(), delay=st.sampled_from([0.4, 20.0]), pause=pauses)
    def the_machine_reboots(self, zeroes: bool, delay: float, pause: float) -> None:
        self.loop.reboot()
        self.the_kubelet_restarts(zeroes, delay, False, pause)

    @rule(seconds=st.sampled_from([30.0, 10_000.0]), pause=pauses)
    def the_machine_sleeps(self, seconds: float, pause: float) -> None:
        self.loop.suspend(seconds)
        self.loop.run(pause)

    def _others(self, act: Callable[[], None], between: bool, pause: float) -> None:
        """between: our GET and our PATCH, if there are any in the pause."""
        if between:
            self.server.between.append(act)
        else:
            act()
        self.loop.run(pause)

    def _is_disturbed(self) -> bool:
        """Whether something may keep a pass from its end."""
        server, machine = self.server, self.machine
        faults = (server.fault, server.lose, server.drop, server.between, server.denies, server.alters)
        obstacle = machine.record.with_name("published.json.new").exists()
        return any(faults) or machine.record_errno != 0 or obstacle or machine.kill_at is not None

    def _end_faults(self) -> None:
        """Nothing keeps a pass from its end any more. A directory in place of the record is removed."""
        self.server.fault, self.server.lose, self.server.drop, self.machine.kill_at = "", 0, 0, None
        self.server.denies, self.server.alters, self.machine.record_errno = (), (), 0
        self.server.between.clear()
        if self.machine.record.is_dir():
            remove(self.machine.record)
        remove_obstacle(self.machine.record)

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self._calm()
            self._check_end()
            self._check_idle()
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def _calm(self) -> None:
        """The last disturbance is over, and as much time passes as three of the slow resyncs take."""
        self._end_faults()
        self.machine.checkpoint_readable = True
        self.world.make_unhealthy(frozenset())
        if self.server.document is None or self.machine.kubelet_started_at is None:
            self.world.start_kubelet(zeroes=False, delay=0.4)
        self.loop.run(3.0 * JITTER * RESYNC)

    def _check_end(self) -> None:
        server, machine = self.server, self.machine
        config, record, capacity, own = machine.configured, server.record(), server.capacity, machine.own_record
        wanted = machine.probe()
        if config.settings.observe:
            return
        for name in NAMES:
            reading, stored, recorded = wanted.get(name), capacity.get(name), record.get(name)
            number = None if stored is None else whole_quantity(stored)
            left = stored is None or name in server.written_by_others or server.annotated_by_others
            adopted = any(r.name == name and r.adopt for r in config.resources)
            ours = recorded is not None and (own is None or own.names(name))
            confirmed = recorded is not None and own is not None and own.confirms(name, recorded)
            if name in machine.device_plugins:
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
        if config.settings.condition and wanted:
            unknown = any(isinstance(r, Unknown) for r in wanted.values())
            assert len(server.conditions) == 1
            full = all((whole_quantity(server.allocatable.get(n, "0")) or 0) >= record[n] for n in record)
            assert server.condition["status"] == "False" or (full and config.complete and not unknown)
        elif not config.settings.condition:
            assert not server.conditions

    def _check_idle(self) -> None:
        """One GET and one PATCH of the heartbeat for each resync, and none for an event that changes nothing.

        What is unknown is read once an hour.
        """
        loop, server, settings = self.loop, self.server, self.machine.configured.settings
        loop.reads, loop.passes, server.patches, seconds = [], 0, 0, 2.0 * JITTER * settings.resync
        loop.run(seconds)
        self.world.hear({PassReason.HARDWARE, PassReason.FILE})
        loop.run(30.0)
        has_heartbeat = server.conditions and not settings.observe
        assert server.patches == (len(loop.reads) if has_heartbeat else 0)
        assert 2 <= len(loop.reads) <= 4
        assert all(PassReason.RESYNC in reasons for reasons in loop.reads)
        unknown = sum(isinstance(reading, Unknown) for reading in self.machine.probe().values())
        assert loop.passes <= len(loop.reads) + 1 + unknown * (1 + seconds / UNKNOWN_MAX)


def test_histories() -> None:
    usual = how_hard().max_examples
    examples = min(20 * usual, 20_000) if usual > 20 else 5 * usual  # one takes 20 ms
    effort = how_hard(
        max_examples=examples, stateful_step_count=16, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(Histories, settings=effort)
