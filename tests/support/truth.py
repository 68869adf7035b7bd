"""Judges a Node from outside, by time: for how long its condition is True although something is wrong.

The limits are those of docs/explanation.md. They depend only on time, on the disturbances, and on what others can see.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from capacityd.model.label import resource_of
from capacityd.model.node import annotated_quantities
from capacityd.model.quantity import whole_quantity
from capacityd.model.reading import Quantity, Unknown
from capacityd.model.reasons import RetryCause
from tests.support.model_server import LABELS, NAMES
from tests.support.write_checks import BOOTING, PER_WRITE, WRITES, is_reduction

if TYPE_CHECKING:
    from tests.support.model_machine import Machine
    from tests.support.world import Loop

MINUTE, SHARE, LONGEST = 60.0, 0.1, 600.0
"""What is wrong becomes right within a minute, or within this share of the time that it was wrong; LONGEST seconds at
most."""
SEEN = 2.0
"""Seconds until a change of a watched Node has been answered."""
EVENTS = 10.0
"""Seconds for which a pass waits while events arrive, or while the Node keeps changing."""
POLLED = 300.0
"""Seconds between two passes that look at a Node that can't be watched."""
ROUNDING = 0.5  # seconds: a pass takes 0.1
ANSWERED = 80.0
"""Seconds until another agent counts as gone, at the latest."""

QUIET = 120.0
"""Seconds after which a repair that does not last is known as such, whatever the rate limit holds back."""

Wrong = tuple[str, str]
"""What is wrong, and the resource's name."""


def pace(wrong_for: float) -> float:
    """The seconds within which the Node is right, once the causes have ended. wrong_for: for how long it was wrong."""
    return max(MINUTE, min(SHARE * wrong_for, LONGEST))


class Truth:
    """The judge of a service's Node. look() is called before and after each action."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.lies: dict[Wrong, float] = {}
        """What is wrong while the condition is True -> since when, in seconds of uptime."""
        self._outage_since: float | None = None
        self._paced_until = 0.0
        """Until when the effects of the last outage last, at most."""
        self._excused_until = 0.0
        self._contested_since: dict[str, float] = {}
        """Name -> since when another agent has disagreed about it, in seconds of uptime."""
        self.another_wrote_at = float("-inf")
        """When another agent wrote the Node the last time, or could have."""
        self.fine_at = loop.world.uptime
        """When nothing was wrong the last time."""
        self._published_since: dict[tuple[str, str, int], float] = {}
        """Uid of the Node, name and published quantity -> since when that Node has had it, in seconds of uptime."""

    def excuse(self) -> None:
        """The service could not act until now: it starts, or the machine was suspended."""
        self.lies = {}
        self._excused_until = self._loop.world.uptime

    def restart(self) -> None:
        """The uptime counts anew."""
        self._outage_since, self._paced_until = None, 0.0
        self.fine_at = 0.0
        self._published_since, self._contested_since = {}, {}
        self.excuse()

    def look(self) -> None:
        """Raises AssertionError if the condition has been True for too long beside something wrong."""
        uptime = self._loop.world.uptime
        if self._loop.world.other_agents or self._loop.world.machine.is_other:
            self.another_wrote_at = uptime
        if self._is_outage():
            self._outage_since = uptime if self._outage_since is None else self._outage_since
            self.lies = {}
            return
        if self._outage_since is not None:
            self._paced_until, self._outage_since = uptime + pace(uptime - self._outage_since), None
        self.lies = {wrong: self.lies.get(wrong, uptime) for wrong in self._wrong()}
        if not self.lies and self._loop.world.server.condition.get("status") == "True":
            self.fine_at = uptime
        self._published_since = {entry: self._published_since.get(entry, uptime) for entry in self._published()}
        self._check_unhealthy()
        self._check_agents()
        for wrong, since in self.lies.items():
            allowed = self._allowed(wrong, since)
            assert uptime - since <= allowed, (
                f"True for {uptime - since:.1f} s (at most {allowed:.1f}) beside {' '.join(wrong)}"
            )

    def _published(self) -> list[tuple[str, str, int]]:
        """Uid of the Node, name and quantity of each entry of the annotation."""
        server = self._loop.world.server
        uid = server.document["metadata"]["uid"] if server.document else ""
        return [(uid, name, quantity) for name, quantity in annotated_quantities(server.annotation).items()]

    def _check_unhealthy(self) -> None:
        """While a kubelet undoes each repair of allocatable, the condition does not become True for a moment."""
        loop, world = self._loop, self._loop.world
        if world.other_agents:  # True may be the word of an agent that has just started, and has seen no repair undone
            return
        quiet_since = max(world.unhealthy_since, self._excused_until, self._paced_until, loop.watch.late_at)
        if loop.watch.is_late or world.uptime < quiet_since + QUIET or world.server.condition.get("status") != "True":
            return
        config = world.machine.configured
        names = {resource.name for resource in config.resources} if not config.settings.observe else set()
        lasting = {name for (_, name, n), at in self._published_since.items() if n > 0 and world.uptime >= at + QUIET}
        unhealthy = names & world.unhealthy & lasting
        own = unhealthy - world.machine.device_plugins - loop.unheard.keys()
        assert not own or not config.settings.condition, f"True beside {own}, which a kubelet keeps at 0"

    def _check_agents(self) -> None:
        """While two agents disagree about a name, the condition does not become True for a moment."""
        loop, world = self._loop, self._loop.world
        others = [other.world.machine for other in world.other_agents]
        contested = {n for other in others for of in (_contested, _differ) for n in of(world.machine, other)}
        self._contested_since = {name: self._contested_since.get(name, world.uptime) for name in contested}
        if loop.watch.is_late or world.server.condition.get("status") != "True":
            return
        quiet_since = max(self._excused_until, self._paced_until, loop.watch.late_at)
        lasting = {n for n, at in self._contested_since.items() if world.uptime >= max(at, quiet_since) + QUIET}
        own = lasting - world.machine.device_plugins - loop.unheard.keys()
        assert not own, f"True beside {own}, about which another agent disagrees"

    def _is_outage(self) -> bool:
        """Whether something keeps the service from seeing or writing the Node."""
        loop, server, machine = self._loop, self._loop.world.server, self._loop.world.machine
        altered = any(alters.key in ("annotation", "condition") for alters in server.alters)
        faults = server.fault or server.lose or server.drop or machine.kill_at is not None or altered
        failing = loop.failure not in (None, RetryCause.STATE)
        return bool(faults) or failing or server.document is None or not loop.has_passed

    def _wrong(self) -> set[Wrong]:
        """What is wrong although the condition is True."""
        server, machine = self._loop.world.server, self._loop.world.machine
        config = machine.configured
        if config.settings.observe or not config.settings.condition or server.condition.get("status") != "True":
            return set()
        annotated, wanted = annotated_quantities(server.annotation), machine.probe()
        wrong: set[Wrong] = {("the configuration", "")} if not config.complete else set()
        for name in NAMES:
            reading, quantity = wanted.get(name), annotated.get(name)
            if self._is_excused(name):
                continue
            if isinstance(reading, Unknown):
                wrong.add(("unknown", name))
            elif isinstance(reading, Quantity) and reading.value != quantity:
                is_lower = quantity is not None and reading.value < quantity
                wrong.add(("a lower reading of" if is_lower else "a reading of", name))
            elif not isinstance(reading, Quantity) and quantity is not None and name in server.capacity:
                wrong.add(("the gone" if wanted else "the unconfigured", name))
        for name, quantity in annotated.items():
            capacity, allocatable = (whole_quantity(q.get(name, "")) for q in (server.capacity, server.allocatable))
            altered = capacity != quantity or (allocatable or 0) < quantity
            reading = wanted.get(name)
            if isinstance(reading, Quantity) and altered and not is_reduction(name, reading, server.document or {}):
                wrong.add(("another value of", name))
        return wrong | self._wrong_labels(annotated)

    def _wrong_labels(self, annotated: Mapping[str, int]) -> set[Wrong]:
        """The labels that are not the published numbers. annotated: the content of the annotation."""
        server, machine = self._loop.world.server, self._loop.world.machine
        readings = machine.probe()
        known = {n for n, r in readings.items() if isinstance(r, Quantity) and not self._is_excused(n)}
        return {
            ("another value of", name)
            for name in machine.configured.labels()
            if (resource := resource_of(name)) in known
            and resource in annotated
            and server.stored.get(name) != str(annotated[resource])
        }

    def _is_excused(self, name: str) -> bool:
        """Whether the service need not know this reading yet."""
        return self._loop.world.uptime <= self._loop.unheard.get(name, 0.0)

    def _allowed(self, wrong: Wrong, since: float) -> float:
        """For how many seconds the condition may be True beside this."""
        loop = self._loop
        settings, checks = loop.world.machine.configured.settings, loop.world.machine.checks
        allowed = SEEN + ROUNDING
        if since - loop.heard_at < EVENTS or loop.is_busy(since):
            allowed += EVENTS
        if wrong[0] in ("a lower reading of", "the gone"):
            allowed += max(settings.lower_after, settings.lower_after_boot if since < BOOTING else 0.0)
        if any(checks.times_written(name, WRITES * PER_WRITE) >= WRITES - 1 for name in (*NAMES, *LABELS, "")):
            allowed += PER_WRITE
        allowed += max(0.0, self._paced_until - since)
        if loop.watch.is_late or loop.watch.late_at >= since:
            allowed += POLLED
        if since - self._excused_until < EVENTS:
            allowed += EVENTS
        if self.another_wrote_at >= since - ANSWERED:
            allowed += ANSWERED
        return allowed


def _contested(machine: Machine, other: Machine) -> set[str]:
    """The names of which each of two machines has published its own number on the Node."""
    settings, document = machine.configured.settings, machine.server.document
    if settings.observe or not settings.condition or document is None:
        return set()
    contested, theirs = set(), _quantities(other)
    for name, number in _quantities(machine).items():
        if theirs.get(name, number) != number:
            records = [record for record in (machine.own_record, other.own_record) if record is not None]
            publish = [r for r in records if r.node_uid == document["metadata"]["uid"] and name in r.published]
            contested |= {name} if len(publish) == 2 else set()
    return contested


def _differ(machine: Machine, other: Machine) -> set[str]:
    """The names of which one of two machines knows the quantity, and the other knows that there is none, or nothing."""
    settings = machine.configured.settings
    if settings.observe or not settings.condition or machine.server.document is None:
        return set()
    own, theirs = machine.probe(), other.probe()
    return {name for name in own.keys() & theirs.keys() if type(own[name]) is not type(theirs[name])}


def _quantities(machine: Machine) -> dict[str, int]:
    """The readings of a machine that are quantities."""
    return {name: reading.value for name, reading in machine.probe().items() if isinstance(reading, Quantity)}
