"""Random histories of the service, its Node and all disturbances: the Node converges, and no harm is done.

write_checks.py checks each single write, truth.py for how long the condition is True beside something wrong, and this
file the state at the end. All times are those that docs/explanation.md and docs/limits.md promise.
"""

from __future__ import annotations

import errno
import json
import math
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as how_hard
from hypothesis import strategies as st

from capacityd.model.label import label_of, resource_of
from capacityd.model.node import NodeState
from capacityd.model.plan import Plan
from capacityd.model.quantity import whole_quantity
from capacityd.model.reading import Absent, Quantity, Reading, Unknown, without_details
from capacityd.model.reasons import PassReason, RetryCause
from capacityd.reconcile.facts import Facts
from capacityd.reconcile.plan import make_plan, make_withdrawal
from capacityd.schema.config import Settings
from tests.support.configs import config_with
from tests.support.denials import Alters, Denies, alterations, denials
from tests.support.model_machine import Machine, damage, remove, remove_obstacle
from tests.support.model_server import LABELS, NAMES, OURS, THEIRS, ModelServer
from tests.support.truth import ANSWERED, EVENTS, LONGEST, MINUTE, POLLED, pace
from tests.support.world import Loop, World, configuration
from tests.support.write_checks import PER_WRITE, WRITES

RESYNC, JITTER = 3600.0, 1.2
"""Seconds between two refreshes of the heartbeat, up to JITTER times as many."""
SLACK = 5.0
"""Seconds for what the rule of pace leaves out: debouncing, the passes themselves, and rounding."""

pauses = st.sampled_from([0.0, 0.3, 2.0, 6.0, 15.0, 70.0, 200.0])
names = st.sampled_from(NAMES)
ours = st.sampled_from(OURS)
any_key = st.sampled_from([*NAMES, "cpu"])
label_denials = st.builds(Denies, st.sampled_from(LABELS[:2]), st.sampled_from([403, 409, 422, 500]))
any_entry = st.sampled_from([*NAMES, *LABELS, "cpu"])
some_names = st.frozensets(names)
readings = st.sampled_from([Quantity(n) for n in range(5)] + [Absent("none"), Unknown("busy")] * 2)
flips = st.lists(readings, min_size=2, max_size=8)
values = st.sampled_from([None, "0", "1", "2", "3", "4", "1500m", "1k"])
reasons = st.sampled_from([PassReason.HARDWARE, PassReason.FILE, None])
records = st.one_of(
    st.sampled_from([None, "", "garbage", "[]", '{"cpu": 8}', '{"example.com/a": "2"}', '{"a/b/c": 1}']),
    st.dictionaries(any_entry, st.integers(0, 4)).map(json.dumps),
    st.just(json.dumps({f"example.com/x{number}": number for number in range(200)})),
)
settings = st.builds(
    Settings,
    observe=st.sampled_from([False, False, False, True]),
    condition=st.sampled_from([True, True, False]),
    lower_after=st.sampled_from([10.0, 10.0, 0.0, 6.0, 15.0, 70.0]),
    resync=st.sampled_from([RESYNC, RESYNC, 900.0]),
)


class LongHistory:
    """A machine, its surroundings and its service. The public methods are disturbances, except take() and end().

    all_causes_end() ends the disturbances, and checks how soon the Node is right.

    registered: whether the Node exists at first; theirs: another writer's value on that Node.
    """

    def __init__(self, folder: str, seed: int, *, registered: bool, theirs: str | None) -> None:
        of_a = frozenset(OURS[:1])
        config = configuration(frozenset(OURS[:2]), frozenset(), frozenset(), Settings(), complete=True, labelled=of_a)
        self.machine = Machine(Path(folder), ModelServer(), state_file=False, config=config, uptime=20.0)
        self.server, self.world = self.machine.server, World(self.machine)
        if registered:
            self.world.start_kubelet(False, 0.0)
            self.world.move(self.world.uptime)
            self.server.write(THEIRS, theirs)
        self.loop = Loop(self.world, seed)
        self._denied: set[tuple[str, Reading]] = set()
        """Readings that admission may have denied. The same quantity is tried again at growing intervals."""
        self._taken = 0  # the number of disturbances so far

    def take(self, act: Act, between: bool, pause: float) -> None:
        """Runs a disturbance, then lets time pass. between: runs it just before the next PATCH,
        if there is one."""
        name, *arguments = act
        self._taken += 1
        if self._taken % 4 == 1:
            self.server.back_up()
        happens = partial(attrgetter(name)(self), *arguments)
        if between and name in BY_OTHERS:
            self.server.between.append(happens)
            ours = OURS[self._taken % 2]
            self.hardware_changes(ours, Quantity((self._published(ours) + 1) % 5), PassReason.HARDWARE)
        else:
            happens()
        self.loop.run(pause)

    # The machine

    def nothing_happens(self) -> None:
        failing = self.server.fault or self.server.document is None
        self.loop.run(200.0 if failing else 2.0 * RESYNC)

    def hardware_changes(self, name: str, reading: Reading, reason: PassReason | None) -> None:
        self._set_reading(name, reading)
        missed = reason is None or (reason is PassReason.FILE and self.loop.sources.used_up)
        if missed:
            self.loop.misses(name)
        else:
            self._notify(reason)

    def a_source_becomes_too_old(self, name: str, number: int, valid_for: float) -> None:
        """For example a file with max_age that nobody writes any more: no event reports this."""
        self.hardware_changes(name, Quantity(number), PassReason.FILE)
        self.machine.set_reading(name, Quantity(number), valid_for)

    def hardware_flaps(self, name: str, flips: list[Reading], pause: float) -> None:
        for reading in flips:
            self.hardware_changes(name, reading, PassReason.HARDWARE)
            self.loop.run(pause)

    def the_node_can_be_watched(self, possible: bool) -> None:
        self.loop.watch.forbid(possible=possible)

    def the_cluster_is_restored(self, pause: float) -> None:
        """From a backup of an earlier step. All connections end."""
        self.server.restore()
        for loop in (self.loop, *self.world.other_agents):
            loop.watch.cut(pause)

    def the_kubelet_zeroes(self, pauses: list[float]) -> None:
        """Without any other sign, and again, whenever it likes."""
        for pause in pauses:
            self.server.zero()
            self.loop.run(pause)

    def a_watched_file_is_replaced(self, name: str, reading: Reading) -> None:
        """For example by a mount: no event reports it."""
        self._set_reading(name, reading)
        self.loop.misses(name, compared=True)
        self.loop.sources.replace_file()

    def inotify_is_used_up(self, used_up: bool) -> None:
        self.loop.use_up_inotify(used_up=used_up)

    def another_agent_starts(self, changes: Mapping[str, Reading]) -> None:
        """With the same identity, and with the same readings except for these changes."""
        if self.world.other_agents:
            return
        readings = {name: changes.get(name, without_details(read)) for name, read in self.machine.probe().items()}
        config = configuration(
            frozenset(readings), frozenset(), frozenset(), Settings(), complete=True, labelled=frozenset(OURS[:1])
        )
        (folder := self.machine.folder / f"other{self._taken}").mkdir()
        other = Machine(folder, self.server, False, readings, config, self.world.uptime, self.machine.booted)
        other.is_other = True
        self.world.other_agents.append(Loop(World(other), self._taken))

    def another_agent_stops(self) -> None:
        for other in self.world.other_agents:
            other.watch.end()
        self.world.other_agents.clear()

    def the_condition_is_added_by_two(self) -> None:
        self.server.disturb_conditions("remove")
        self.server.between.append(lambda: self.server.disturb_conditions("add"))

    def another_value_is_lost_while_one_is_written(self, written: str, lost: str, quantity: int) -> None:
        """The worker writes one resource, and at the same time another one becomes 0."""
        self.server.between.append(lambda: self.server.write(lost, "0"))
        self.hardware_changes(written, Quantity(quantity), PassReason.HARDWARE)

    def another_publishes_the_same_at_the_same_time(self, name: str, quantity: int, lost: bool) -> None:
        """lost: the GET after the conflict fails."""
        self.hardware_changes(name, Absent("none"), PassReason.HARDWARE)
        self.loop.run(15.0)

        def write() -> None:
            self.server.write(name, str(quantity))
            self.server.lose_gets = int(lost)

        self.server.between.append(write)
        self.hardware_changes(name, Quantity(quantity), PassReason.HARDWARE)

    def the_watch_lags(self, seconds: float) -> None:
        self.loop.watch.delay = seconds

    def the_checkpoint_changes(self, readable: bool, reported: bool) -> None:
        self.machine.checkpoint_readable = readable
        self._notify(PassReason.PLUGINS if reported else None)

    def the_configuration_changes(
        self,
        configured: frozenset[str],
        adopt: frozenset[str],
        broken: frozenset[str],
        settings: Settings,
        whole: bool,
        labels: frozenset[str],
    ) -> None:
        self.machine.config = configuration(configured, adopt, broken, settings, complete=whole, labelled=labels)
        self.loop.configure()
        self._notify(PassReason.CONFIG)

    def the_clock_jumps(self, seconds: float) -> None:
        self.machine.booted += seconds
        self._notify(PassReason.CLOCK)

    def the_machine_reboots(self, zeroes: bool, delay: float) -> None:
        self.loop.reboot()
        self.world.start_kubelet(zeroes, delay)

    def the_machine_is_imaged_anew(self) -> None:
        remove(self.machine.record)
        self.loop.reboot()

    def a_worker_is_killed(self, point: int, name: str, reading: Reading) -> None:
        """Kills the worker while it publishes a change."""
        self.machine.kill_at = point
        self.hardware_changes(name, reading, PassReason.RESUME)

    def the_record_fails(self, fault: str) -> None:
        if fault == "EIO":
            self.machine.record_errno = errno.EIO
        elif fault == "unwritable":
            obstacle = self.machine.record.with_name("published.json.new")
            if not obstacle.is_dir():
                obstacle.unlink(missing_ok=True)  # a killed worker may have left it
                obstacle.mkdir()
        else:
            damage(self.machine.record, fault)

    # The API server

    def the_api_server_fails(self, fault: str, lost: int, dropped: int) -> None:
        self.server.fault, self.server.lose, self.server.drop = fault, lost, dropped
        if fault == "unreachable":
            self.loop.watch.cut(0.0)

    def admission_denies(self, denies: tuple[Denies, ...], reading: Reading) -> None:
        """Admission begins to deny changes of resources or labels, and these resources change."""
        self.server.denies = denies
        for every in denies:
            self.hardware_changes(resource_of(every.name), reading, PassReason.HARDWARE)

    def a_webhook_alters(self, alters: tuple[Alters, ...], name: str, reading: Reading) -> None:
        """A webhook begins to alter writes, and resources change."""
        self.server.alters = alters
        for every in alters:  # another writer may change the key, which makes even an old reading a change
            if old := self.machine.readings.get(every.key):
                self._set_reading(every.key, old)
        self.hardware_changes(name, reading, PassReason.HARDWARE)

    # Commands by hand: a lock keeps them from running between the worker's GET and PATCH.

    def somebody_applies(self, read: Mapping[str, Reading], adopt: frozenset[str], complete: bool) -> None:
        facts = Facts(
            read,
            config_with(adopt, complete=complete),
            now=self.machine.now,
            machine_record=self.machine.own_record,
            device_plugins=self.machine.checkpoint,
        )
        self._carry_out(make_plan, facts)

    def all_is_withdrawn(self) -> None:
        facts = Facts(machine_record=self.machine.own_record, device_plugins=self.machine.checkpoint)
        self._carry_out(make_withdrawal, facts)

    def _carry_out(self, decide: Callable[[NodeState, Facts], Plan], facts: Facts) -> None:
        """Runs the command, unless the machine record can't be read or written: then it ends with an error."""
        if not (self.machine.record_unreadable or self.machine.record.with_name("published.json.new").exists()):
            self.world.carry_out(lambda state: decide(state, facts))

    # Changes that must be published in time

    def devices_come_or_go(self, name: str, more: int) -> None:
        """A higher number is written at once, a lower one after it has lasted for lower_after."""
        number = max(0, self._published(name) + more)
        in_time = (
            self._is_published_when_read(name)
            and self.loop.failure is None
            and not self._is_disturbed()
            and not self._is_rate_limited(name)
            and not self.world.other_agents  # they still have the number before
            and (name, Quantity(number)) not in self._denied
            # Otherwise only the Node has changed, by a command by hand, and the resync notices it.
            and self.machine.readings.get(name) != Quantity(number)
        )
        self._set_reading(name, Quantity(number))
        self._notify(PassReason.HARDWARE)
        if in_time:
            self._run_until_published(name, number, 0.0 if more > 0 else self.machine.checks.lower_after)

    def a_resource_cannot_be_read_for_a_time(
        self, name: str, more: int, between: list[float], fault: str, reason: PassReason
    ) -> None:
        """Whatever events arrive meanwhile, the resource is published within a pause that grows with the outage."""
        self.machine.set_reading(name, Unknown("busy"))
        self.server.fault = fault
        for pause in between:  # events from other resources
            self._notify(reason)
            self.loop.run(pause)
        self._end_faults()
        number = self._published(name) + more
        self.machine.set_reading(name, Quantity(number))  # no event reports the recovery
        since, uptime = self.machine.checks.unknown_since.get(name), self.world.uptime
        denied = (name, Quantity(number)) in self._denied
        if since is None or denied or not self._is_published_when_read(name):
            return
        allowed = pace(uptime - since)
        allowed += PER_WRITE if self._is_rate_limited(name) else 0.0
        allowed += MINUTE + PER_WRITE if self.loop.failure else 0.0
        self._run_until_published(name, number, allowed)

    def another_writes_a_value_and_loses_the_record(
        self, name: str, value: str | None, text: str | None, between: bool
    ) -> None:
        """A lost annotation claims no key: the published value is restored, whoever wrote it meanwhile."""
        self._end_faults()
        reading, own = self.machine.readings.get(name), self.machine.own_record
        published = self.server.capacity.get(name)
        settled = (
            isinstance(reading, Quantity)
            and name not in self.machine.expires_at
            and (self.server.record().get(name), published) == (reading.value, str(reading.value))
            and own is not None
            and own.published.get(name) == reading.value
            and self.machine.checkpoint_readable
            and self._is_published_when_read(name)
            and (name, reading) not in self._denied
        )

        def write() -> None:
            self.server.write(name, value)
            self.server.annotate(text)

        self.server.between.append(write if between else lambda: None)
        if not between:
            write()
        for _ in range(3):
            self._notify(PassReason.RESUME)
            self.loop.run(PER_WRITE + MINUTE)
        assert not settled or self.server.capacity.get(name) == published, f"{name} was given up"

    def another_registers_the_node(self, name: str) -> None:
        """The new Node has another writer's key with the quantity of the old Node, which remains that writer's."""
        value = self.server.capacity.get(name)
        self.world.register_anew()
        self.server.write(name, value)

    def _set_reading(self, name: str, reading: Reading) -> None:
        self.machine.set_reading(name, reading)
        if name in {denies.name for denies in self.server.denies} | {alters.key for alters in self.server.alters}:
            self._denied.add((name, reading))

    def _notify(self, reason: PassReason | None) -> None:
        if reason:
            self.world.hear({reason})

    def _published(self, name: str) -> int:
        return max(self.server.record().get(name, 0), whole_quantity(self.server.capacity.get(name, "0")) or 0)

    def _is_rate_limited(self, name: str) -> bool:
        """Whether the rate limit may delay the next write of this name, or the one after it."""
        return self.machine.checks.times_written(name, WRITES * PER_WRITE) >= WRITES - 1

    def _run_until_published(self, name: str, number: int, allowed: float) -> None:
        end = self.world.uptime + allowed + EVENTS
        while self.server.capacity.get(name) != str(number):
            assert self.world.uptime < end, f"{name} was not published within {allowed} s"
            self.loop.run(min(10.0, max(0.1, end - self.world.uptime)))

    def _is_published_when_read(self, name: str) -> bool:
        """Whether only the reading keeps a name from being published, according to the Node and `status`."""
        server, machine, own = self.server, self.machine, self.machine.own_record
        stored, recorded = server.capacity.get(name), server.record().get(name)
        ours = stored is None or (own is not None and recorded is not None and own.confirms(name, recorded))
        waits_for_other_agent = machine.status is not None and machine.status.health.other_agent is not None
        return (
            server.document is not None
            and name in {resource.name for resource in machine.configured.resources}
            and name not in machine.device_plugins
            and (machine.checkpoint_readable or stored is None or whole_quantity(stored) == recorded)
            and not machine.configured.settings.observe
            and ours
            and not waits_for_other_agent
            and not self.loop.missing
            and self.loop.failure not in (RetryCause.DENIED, RetryCause.REJECTED)
        )

    def _is_disturbed(self) -> bool:
        """Whether anything may keep a pass from completing."""
        server, machine = self.server, self.machine
        faults = (server.fault, server.lose, server.drop, server.between, server.denies, server.alters)
        obstacle = machine.record.is_dir() or machine.record.with_name("published.json.new").exists()
        return any(faults) or machine.record_errno != 0 or obstacle or machine.kill_at is not None

    def _end_faults(self) -> None:
        """Removes all that could keep a pass from completing, even a directory in place of the machine record."""
        self.server.fault, self.server.lose, self.server.drop, self.machine.kill_at = "", 0, 0, None
        self.server.denies, self.server.alters, self.machine.record_errno = (), (), 0
        self.server.between.clear()
        if self.machine.record.is_dir():
            remove(self.machine.record)
        remove_obstacle(self.machine.record)

    def all_causes_end(self) -> None:
        """Everything becomes as it should be, mostly without an event. Then the Node is right in time."""
        self._end_causes()
        self._others_leave()
        machine, loop, checks, began = self.machine, self.loop, self.machine.checks, self.world.uptime
        allowed = pace(self.world.uptime - min([loop.truth.fine_at, *checks.unknown_since.values()]))
        limited = any(checks.times_written(name, WRITES * PER_WRITE) >= WRITES - 1 for name in (*NAMES, *LABELS, ""))
        allowed += ANSWERED * (began - loop.truth.another_wrote_at <= ANSWERED)
        allowed += POLLED * (loop.watch.seen is None)
        allowed += EVENTS + SLACK + limited * PER_WRITE + machine.configured.settings.lower_after
        while problem := self._problem():
            assert self.world.uptime <= began + allowed, f"after {allowed:.1f} s: {problem}"
            loop.run(1.0)

    def _others_leave(self) -> None:
        """Other writers of capacityd's keys and annotation undo what they wrote. Whatever is configured can be read."""
        machine, server, own = self.machine, self.server, self.machine.own_record
        for name in [*self.world.plugins]:
            self.world.plugins.pop(name)
        if machine.device_plugins:
            machine.device_plugins.clear()
            self._notify(PassReason.PLUGINS)
        settings = machine.configured.settings
        if settings.observe or not settings.condition or not machine.configured.complete or machine.configured.broken:
            config = configuration(frozenset(OURS), frozenset(), frozenset(), Settings(), complete=True)
            machine.config = config
            self.loop.configure()
            self._notify(PassReason.CONFIG)
        uid = server.document["metadata"]["uid"] if server.document else ""
        confirms = own.confirms if own and own.node_uid == uid else lambda *_: False
        kept = {n: q for n, q in server.record().items() if confirms(n, q)}
        server.annotate(json.dumps(kept))  # with other spaces than capacityd's, so the Node changes
        for name in {*NAMES, *LABELS} - kept.keys():
            server.write(name, None)
            server.write_allocatable(name, None)
        for name, reading in machine.probe().items():
            if isinstance(reading, Unknown):
                machine.set_reading(name, Quantity(3))
            machine.expires_at.pop(name, None)
        if math.inf in self.loop.unheard.values():
            self._notify(PassReason.HARDWARE)

    def _problem(self) -> str:
        """Why the Node is not right, or the condition not True; empty if all is right."""
        server, condition = self.server, self.server.condition
        for name, reading in self.machine.probe().items():
            published = [q.get(name) for q in (server.capacity, server.allocatable)]
            wanted = str(reading.value) if isinstance(reading, Quantity) else None
            if published != [wanted, wanted]:
                return f"{name} is {published}, not {wanted}; {condition}"
            label = wanted if label_of(name) in self.machine.configured.labels() else None
            if server.stored.get(label_of(name)) != label:
                return f"the label {name} is {server.stored.get(label_of(name))}, not {label}; {condition}"
        if set(server.capacity) & {*NAMES} - {*self.machine.probe()} and self.machine.probe():
            return f"unconfigured keys: {server.capacity}"
        kept = not self.machine.probe() and condition.get("reason") == "NotConfigured"
        right = condition.get("status") == "True" or kept or not server.record()
        return "" if right else f"the condition is {condition}"

    def end(self) -> None:
        """Ends all disturbances, lets time pass, and checks the final state."""
        self._calm()
        self._check_end()
        self._check_idle()

    def _calm(self) -> None:
        """Ends all disturbances, and lets three of the longest resync periods pass."""
        self._end_causes()
        self.loop.run(3.0 * JITTER * RESYNC)

    def _end_causes(self) -> None:
        """Ends all disturbances."""
        self._end_faults()
        self.another_agent_stops()
        self.machine.checkpoint_readable = True
        self.world.make_unhealthy(frozenset())
        self.loop.watch.delay = 0.0
        self.loop.use_up_inotify(used_up=False)
        self.loop.watch.end_hang()
        if not self.loop.watch.possible:
            self.loop.watch.forbid(possible=True)
        if self.server.document is None:
            self.world.start_kubelet(False, 0.4)
            self.loop.run(0.4)

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
            ours = recorded is not None and (own is None or own.has(name))
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
        self._check_labels(wanted)
        if config.settings.condition and wanted:
            unknown = any(isinstance(r, Unknown) for r in wanted.values())
            assert len(server.conditions) == 1
            full = all((whole_quantity(server.allocatable.get(n, "0")) or 0) >= record[n] for n in {*NAMES} & {*record})
            assert server.condition["status"] == "False" or (full and config.complete and not unknown)
        elif not config.settings.condition:
            assert not server.conditions
        elif config.complete and any(name in capacity for name in record):
            assert server.condition["reason"] == "NotConfigured"

    def _check_labels(self, wanted: Mapping[str, Reading]) -> None:
        """A label that is ours has the published number. Otherwise, it is another writer's, and is reported."""
        server, machine, record, own = self.server, self.machine, self.server.record(), self.machine.own_record
        for resource in NAMES:
            label, reading = label_of(resource), wanted.get(resource)
            if not isinstance(reading, Quantity) or label not in machine.configured.labels() or resource not in record:
                continue
            stored, ours = server.stored.get(label), label in record and (own is None or own.has(label))
            adopted = any(r.name == resource and r.adopt for r in machine.configured.resources)
            assert stored is not None, f"{label} is missing"
            refused = not ours and not adopted
            assert refused or (stored, record.get(label)) == (str(record[resource]), record[resource]), (
                f"{label}: {stored}"
            )
            assert not refused or server.condition.get("status") != "True", f"True beside another writer's {label}"

    def _check_idle(self) -> None:
        """Each resync needs one PATCH of the heartbeat. An event that changes nothing causes no request.

        An unknown resource is read every ten minutes.
        """
        loop, server, settings = self.loop, self.server, self.machine.configured.settings
        loop.passes, server.gets, server.patches, seconds = 0, 0, 0, 2.0 * JITTER * settings.resync
        loop.run(seconds)
        self.world.hear({PassReason.HARDWARE, PassReason.FILE})
        loop.run(30.0)
        has_heartbeat = server.conditions and not settings.observe
        assert 2 <= server.patches <= 6 if has_heartbeat else server.patches == 0
        assert server.gets <= loop.passes
        unknown = any(isinstance(reading, Unknown) for reading in self.machine.probe().values())
        assert loop.passes <= 5 + unknown * (1 + seconds / LONGEST)


Act = tuple[Any, ...]
"""The name of a method of LongHistory or of one of its attributes, and the method's arguments."""

BY_OTHERS: Mapping[str, tuple[st.SearchStrategy[Any], ...]] = {
    "server.write": (any_entry, values),
    "server.annotate": (records,),
    "server.disturb_conditions": (st.sampled_from(["front", "add", "change", "remove"]),),
    "server.delete": (),
    "server.zero": (),
    "world.write_allocatable": (any_key, values),
    "world.register_anew": (),
    "world.start_kubelet": (st.booleans(), st.sampled_from([0.0, 0.4, 20.0])),
    "world.plugin_comes": (names, st.integers(0, 4), st.booleans()),
    "world.plugin_leaves": (names,),
}
"""Disturbances that may come just before the worker's PATCH."""

ACTS: Mapping[str, tuple[st.SearchStrategy[Any], ...]] = {
    "loop.run": (pauses,),  # nothing happens; hypothesis simplifies failing examples towards the first entry
    **BY_OTHERS,
    "world.make_unhealthy": (some_names,),
    "loop.start": (st.booleans(),),
    "loop.suspend": (st.sampled_from([30.0, 10_000.0]),),
    "loop.watch.cut": (st.sampled_from([0.0, 5.0, 30.0]),),
    "loop.watch.hang": (st.sampled_from([5.0, 130.0]),),
    "loop.watch.repeat": (),
    "the_watch_lags": (st.sampled_from([0.0, 0.5, 5.0, 65.0]),),
    "the_node_can_be_watched": (st.sampled_from([False, False, True]),),
    "the_cluster_is_restored": (st.sampled_from([0.0, 0.5, 20.0]),),
    "the_kubelet_zeroes": (st.lists(st.sampled_from([0.0, 0.05, 1.0, 9.0, 30.0]), min_size=1, max_size=8),),
    "a_watched_file_is_replaced": (names, readings),
    "inotify_is_used_up": (st.booleans(),),
    "another_agent_starts": (st.dictionaries(ours, readings, max_size=2),),
    "another_agent_stops": (),
    "the_condition_is_added_by_two": (),
    "another_publishes_the_same_at_the_same_time": (ours, st.integers(0, 4), st.booleans()),
    "another_value_is_lost_while_one_is_written": (ours, ours, st.integers(1, 4)),
    "nothing_happens": (),
    "all_causes_end": (),
    "hardware_changes": (names, readings, reasons),
    "a_source_becomes_too_old": (ours, st.integers(0, 4), st.sampled_from([20.0, 100.0, 300.0])),
    "hardware_flaps": (names, flips, st.sampled_from([0.1, 1.5, 10.0, 12.0, 60.0])),
    "the_checkpoint_changes": (st.booleans(), st.booleans()),
    "the_configuration_changes": (some_names, some_names, some_names, settings, st.booleans(), some_names),
    "the_clock_jumps": (st.sampled_from([-3600.0, -10.0, 10.0, 100_000.0]),),
    "the_machine_reboots": (st.booleans(), st.sampled_from([0.4, 20.0])),
    "the_machine_is_imaged_anew": (),
    "a_worker_is_killed": (st.integers(0, 12), ours, readings),
    "the_record_fails": (st.sampled_from(["missing", "directory", "unwritable", "EIO"]),),
    "the_api_server_fails": (
        st.sampled_from(["", "", "unreachable", "busy", "denied", "rejected"]),
        st.integers(0, 2),
        st.integers(0, 2),
    ),
    "admission_denies": (st.lists(denials | label_denials, max_size=2).map(tuple), readings),
    "a_webhook_alters": (st.lists(alterations, max_size=1).map(tuple), ours, readings),
    "somebody_applies": (st.dictionaries(names, readings), some_names, st.booleans()),
    "all_is_withdrawn": (),
    "devices_come_or_go": (ours, st.integers(-2, 3)),
    "a_resource_cannot_be_read_for_a_time": (
        ours,
        st.integers(1, 3),
        st.lists(st.sampled_from([0.3, 3.0, 15.0, 70.0, 700.0]), min_size=1, max_size=8),
        st.sampled_from(["", "", "unreachable", "busy", "rejected"]),
        st.sampled_from([PassReason.FILE, PassReason.HARDWARE, PassReason.PLUGINS]),
    ),
    "another_registers_the_node": (names,),
    "another_writes_a_value_and_loses_the_record": (
        ours,
        st.sampled_from([None, "0", "1", "3", "1500m", "1k"]),
        st.sampled_from([None, "", "garbage", "[]"]),
        st.booleans(),
    ),
}
OFTEN = {"all_causes_end": 8, "the_kubelet_zeroes": 3, "the_cluster_is_restored": 3}
"""How often an act comes, compared with the others."""
acts = st.one_of([st.tuples(st.just(name), *every) for name, every in ACTS.items() for _ in range(OFTEN.get(name, 1))])
long_histories = st.lists(st.tuples(acts, st.booleans(), pauses), min_size=12, max_size=16)

usual = how_hard().max_examples


@pytest.mark.timeout(3600)  # all examples take minutes, on a busy machine many
@how_hard(max_examples=min(3 * usual, 20_000), suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**16), st.sampled_from([True, True, True, False]), values, long_histories)
def test_any_long_history_ends_right_and_publishes_in_time(
    seed: int, registered: bool, theirs: str | None, acts: list[tuple[Act, bool, float]]
) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        history = LongHistory(folder, seed, registered=registered, theirs=theirs)
        for act, between, pause in acts:
            history.take(act, between, pause)
        history.end()
