"""Histories of a machine and its Node, and the checks after each step: for the model and for a real API server."""

from __future__ import annotations

import copy
import errno
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from capacityd.model.node import annotation_content
from capacityd.model.quantity import whole_quantity
from capacityd.model.reading import Quantity
from tests.support.model_machine import Machine, damage, readings, remove, remove_obstacle
from tests.support.model_server import OURS, THEIRS
from tests.support.shortest import Step

if TYPE_CHECKING:
    from tests.cluster.real_machine import RealMachine

    AnyMachine = Machine | RealMachine

PAUSE = 70.0
"""Seconds between two passes: longer than the rate limit of one write a minute, so that no write is held back."""
LONGEST_BACKOFF = 3700.0


class History:
    """A machine, and what has happened to it so far."""

    def __init__(self, machine: AnyMachine, log: Callable[[str], object]) -> None:
        self.log = log
        self.machine = machine
        self.machine.readings = readings(a=None)
        self.server = self.machine.server
        self.kills: list[str] = []
        """The points at which passes were killed."""
        self.passes = 0
        self._only_denials = True  # every step so far only changed the hardware or the denials
        self._only_lost_annotations = True  # so far, others only set values and made the annotation unreadable
        self._kept: bytes | None = None  # the machine record before it was damaged
        self._record_lost = False
        self._annotation_lost = False
        self._reasons: dict[str, set[str]] = {}  # capacity key -> reasons for the denials of earlier attempts
        self._denied: set[tuple[str, int | None]] = set()  # denied at earlier attempts: key, quantity
        self._forged: set[str] = set()  # keys that another writer has put into the annotation
        self._by_others: dict[str, str | None] = {}  # capacity key -> the value that another writer has set
        self._came_with_node: dict[str, str] = {}  # capacity key -> value that another writer set on a new Node

    def take(self, step: Step) -> None:
        """Carries out the step, its pass and at least one more. Then checks all that must hold."""
        machine, server = self.machine, self.server
        self._only_denials &= replace(step, hardware=None, denies=None, reason="") == Step(reason="")
        self._only_lost_annotations &= _only_loses_annotation(step)
        published_before = {name for name in OURS if self._recorded(name) and name in self._annotated()}
        if step.hardware is not None:
            machine.readings = readings(**step.hardware)
        if step.reason == "config" and step.kill_at is None:
            self._reasons.clear()  # this pass retries all denied changes
            self._denied.clear()
        else:
            for denies in server.denies:
                self._reasons.setdefault(denies.name, set()).add(denies.reason())
        self._came_with_node = {}
        before = copy.deepcopy(machine.server.document) if isinstance(machine, Machine) else None
        server.denies = server.denies if step.denies is None else step.denies
        server.alters = server.alters if step.alters is None else step.alters
        for alters in [alters for alters in server.alters if alters.key == "annotation"]:
            self._annotation_lost = True
            self._forged |= annotation_content(alters.value).keys()
        if step.record:
            self._change_record(step.record)
        if step.between:
            server.between.append(lambda: self._others_write(step))
        else:
            self._others_write(step)
        self._make_disturbed_pass(step, before)
        for _ in range(2 if any(denies.kind == "storage" for denies in server.denies) else 1):
            self._make_pass("resync")  # after a minute, a server error counts as a rejection
        self.check_truth()
        self.check_others()
        if self._only_denials:
            self.check_isolation()
        for name in published_before if self._only_lost_annotations else ():
            self.check_not_given_up(name)
        self._denied |= {(name, self._desired(name)) for name in OURS if self._denies(name)}

    def end(self) -> None:
        """Ends all causes: denials, faults, and other writers' values. Then checks that the Node is right."""
        machine, server = self.machine, self.server
        server.denies = server.alters = ()
        self._change_record("restored")
        if (annotated := self._annotated()).pop(THEIRS, None):
            server.annotate(json.dumps(annotated))
        for name, value in self._by_others.items():
            if server.capacity.get(name) == value:
                server.write(name, None)
        for name in OURS:  # capacityd reports and leaves a key that should change but is no longer known as its own
            reading = machine.readings.get(name)
            desired = reading.value if isinstance(reading, Quantity) else None
            doubtful = name not in annotated or annotated[name] != desired or name in self._forged
            if self._record_lost and doubtful and (self._annotation_lost or not self._recorded(name)):
                server.write(name, None)
        for _ in range(2):
            machine.uptime += LONGEST_BACKOFF - PAUSE
            self._make_pass("resync")
        condition = server.condition
        assert is_right(machine), (server.capacity, server.annotation, condition)
        assert condition.get("status") == "True" or (not condition and not machine.readings), condition

    def check_truth(self) -> None:
        """The condition is not True while something is wrong, unless a webhook alters the condition."""
        server = self.server
        assert (server.capacity["cpu"], server.capacity[THEIRS]) == ("8", "8")
        if any(alters.key == "condition" for alters in server.alters):
            return
        condition = server.condition
        # If nothing is to be published, the annotation lists nothing, so altering it does no harm.
        annotation_altered = any(alters.key == "annotation" for alters in server.alters)
        unpublished = {n for n in OURS if not isinstance(self.machine.readings.get(n), Quantity)}
        left = unpublished & (self._by_others.keys() | self._forgotten())
        assert is_right(self.machine, left, annotation_altered) or condition.get("status") != "True", (
            server.capacity,
            server.annotation,
            condition,
        )
        altered = {alters.key for alters in server.alters}  # a change that a mutating webhook undoes is never denied
        for name in {denies.name for denies in server.denies} - altered:
            reasons = {d.reason() for d in server.denies if d.name == name} | self._reasons.get(name, set())
            denied = f"denied: {name}: " in condition.get("message", "")
            assert not denied or any(reason in condition["message"] for reason in reasons), condition

    def check_others(self) -> None:
        """What another writer set on a new Node stays, unless a webhook alters it."""
        if not self.server.alters:
            kept = {name: self.server.capacity.get(name) for name in self._came_with_node}
            assert kept == self._came_with_node, self.server.annotation

    def check_isolation(self) -> None:
        """A denied key does not block the other quantities, and the condition reports the denial."""
        capacity, condition = self.server.capacity, self.server.condition
        for name in OURS:
            desired = self._desired(name)
            published = whole_quantity(capacity[name]) if name in capacity else None
            if (name, desired) not in self._denied:  # a quantity that was denied before may still wait for its retry
                assert published == desired or self._denies(name), (name, capacity, condition)
                assert published == desired or condition["reason"] == "Denied", condition

    def check_not_given_up(self, name: str) -> None:
        """The key has the quantity that was read, whatever other writers wrote while the annotation was lost."""
        desired, capacity = self._desired(name), self.server.capacity
        assert desired is None or capacity.get(name) == str(desired), (name, capacity, self.server.condition)
        assert desired is None or self._annotated().get(name) == desired, self.server.annotation

    def _desired(self, name: str) -> int | None:
        reading = self.machine.readings.get(name)
        return reading.value if isinstance(reading, Quantity) else None

    def _denies(self, name: str) -> bool:
        """Whether the API server denies the change of this key to what the machine has read."""
        desired, stored = self._desired(name), self.server.capacity.get(name)
        after = None if desired is None else str(desired)
        return any(denies.name == name and denies.applies(stored, after) for denies in self.server.denies)

    def _forgotten(self) -> set[str]:
        """The keys whose owner nobody knows any more, because the machine record and the annotation were both lost."""
        if not (self._record_lost and self._annotation_lost):
            return set()
        return {name for name in OURS if name not in self._annotated() and not self._recorded(name)}

    def _make_disturbed_pass(self, step: Step, before: dict[str, Any] | None) -> None:
        """Makes the step's pass. before: the Node before the step, which a late watch still shows."""
        machine, server = self.machine, self.server
        machine.kill_at, server.lose = step.kill_at, int(step.lost_answer)
        self._make_pass(step.reason)
        server.between.clear()
        server.lose = 0

    def _make_pass(self, reason: str) -> None:
        machine, before = self.machine, dict(self.server.capacity)
        machine.uptime += PAUSE
        ended = machine.make_pass(reason)
        self.passes += 1
        self.kills += [] if ended else [machine.killed]
        after = self.server.capacity
        for name in {*before, *after}:
            if before.get(name) != after.get(name) != self._by_others.get(name, ...):
                self._by_others.pop(name, None)
        self._by_others |= {a.key: a.value for a in self.server.alters if a.key in after and after[a.key] == a.value}
        self.log(f"pass ({reason}): {machine.error if ended else f'killed {machine.killed}'}")
        self.log(f"  {self.server.annotation} {after} {self.server.condition.get('message')}")

    def _others_write(self, step: Step) -> None:
        server = self.server
        if step.node_anew:
            server.register_anew()
            if step.annotates is None:  # without a record of this Node, capacityd owns what the annotation lists
                self._came_with_node = {name: value for name, value in step.writes.items() if value is not None}
        if step.annotates is not None:
            server.annotate(step.annotates or None)
            self._forged |= self._annotated().keys()
            self._annotation_lost = True
        for name, value in step.writes.items():
            server.write(name, value)
            self._by_others[name] = value

    def _change_record(self, how: str) -> None:
        record = self.machine.record
        if record.is_file() and not record.is_symlink() and _is_json(content := record.read_bytes()):
            self._kept = content
        self._record_lost |= bool(how) and how != "restored"
        self.machine.record_errno = getattr(errno, how, 0)
        if how == "restored":
            if self._kept is not None:
                remove(record)
                record.write_bytes(self._kept)
            elif not record.is_file():
                remove(record)
            remove_obstacle(record)
        elif how == "unwritable":
            record.with_name("published.json.new").mkdir(exist_ok=True)
        elif how in ("garbage", "name", "text", "float"):
            remove(record)
            record.write_text(self._corrupted(how))
            self._kept = None
        elif how and not self.machine.record_errno:
            damage(record, how)
            self._kept = None if how == "missing" else self._kept

    def _corrupted(self, how: str) -> str:
        text = (self._kept or b"{}").decode()
        if how == "name":
            return text.replace("example.com/a", "example.com/q")
        if how in ("text", "float"):
            document = json.loads(text)
            for table in (document.get("published", {}), document.get("intended", {})):
                table.update({n: str(q) if how == "text" else float(q) for n, q in table.items()})
            return json.dumps(document)
        return "garbage"

    def _annotated(self) -> dict[str, object]:
        return dict(annotation_content(self.server.annotation))

    def _recorded(self, name: str) -> bool:
        if not self.machine.record.is_file():
            return False
        try:
            document = json.loads(self.machine.record.read_text())
            return name in document["published"] or name in document["intended"]
        except (OSError, ValueError, KeyError):
            return False


def _only_loses_annotation(step: Step) -> bool:
    """Whether the step's disturbances are at most other writers' values together with an unreadable annotation."""
    lost = step.annotates in ("", "garbage") or not (step.writes or step.annotates)
    return lost and replace(step, hardware=None, writes={}, annotates=None, between=False) == Step()


def take_all(history: History, steps: Sequence[Step]) -> None:
    """Takes the steps, and ends the history. Raises AssertionError if a check fails."""
    for step in steps:
        history.log(repr(step))
        history.take(step)
    history.end()


def is_right(machine: AnyMachine, others: Collection[str] = (), annotation_altered: bool = False) -> bool:
    """Whether the Node's capacity and the annotation match the machine's readings. others: keys of other writers.

    annotation_altered: a webhook keeps altering the annotation, which is harmless if nothing is published.
    """
    published = {n: r.value for n, r in machine.readings.items() if isinstance(r, Quantity)}
    try:
        annotated = json.loads(machine.server.annotation or "{}")
    except ValueError:
        annotated = None
    capacity = {n: whole_quantity(q) for n, q in machine.server.capacity.items() if n in {*OURS} - {*others}}
    return bool(capacity == published == annotated or (annotation_altered and capacity == published == {}))


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except ValueError:
        return False
    return True
