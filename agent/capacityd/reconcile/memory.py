"""The memory that a pass leaves for the next pass. Times are seconds of uptime.

The memory is empty after a start of the service, after a worker has died, after a patch without an answer, and for a
Node with another uid. Then the published numbers come only from the Node's annotation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from capacityd.model.key import Key
from capacityd.model.node import ANNOTATION, NodeState, Patch
from capacityd.model.plan import Plan
from capacityd.model.published import published_in
from capacityd.model.reading import Quantity, Reading, Unknown
from capacityd.reconcile.condition import condition_subject
from capacityd.reconcile.denial import (
    THE_ANNOTATION,
    THE_CONDITION,
    Denial,
    condition_text,
    condition_texts,
    denial_after,
    why_altered,
)

_T = TypeVar("_T")

MIN_INTERVAL = 60.0
"""Seconds between two writes of a Node that has been written often."""
BURST = 6
WINDOW = BURST * MIN_INTERVAL
"""A Node with BURST writes within WINDOW seconds has been written often. A few writes in a row are normal: a user plugs
in a device, pulls another, and plugs it in again. All patches of a pass count as one write."""

OVERWRITES = 3
OVERWRITTEN_FOR = 90.0
"""The Node counts as overwritten if other writers have changed it OVERWRITES times within WINDOW seconds, and if the
last change is less than OVERWRITTEN_FOR seconds old. The limit of writes may delay the last restoration, and then the
condition True, by MIN_INTERVAL each. So the condition becomes True within two minutes and a pass after that change."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one Node."""

    uid: str = ""
    """The Node's uid; "" if the memory contains nothing about a Node."""
    published: Mapping[Key, int] = field(default_factory=dict)
    """Key -> the number that capacityd has published."""
    owned_digest: str = ""
    """The hash of what capacityd owned on the Node after the last pass; "" if no pass has read the Node."""
    lower_since: Mapping[Key, float] = field(default_factory=dict)
    """Key -> when the delay of its reduction began."""
    unknown_since: Mapping[str, float] = field(default_factory=dict)
    """Name of a resource -> when its reading became unknown."""
    writes: tuple[float, ...] = ()
    """The times of the last BURST passes that have written the Node."""
    overwritten_at: tuple[float, ...] = ()
    """The times of the last BURST passes that have found a change by another writer."""
    denied: Mapping[str, Denial] = field(default_factory=dict)
    """Text of a key, THE_ANNOTATION or THE_CONDITION -> its denial."""
    condition_subject: tuple[str, ...] | None = None
    """The reason and the keys of the last written condition (condition_subject()); None if no condition was written."""
    settled_digest: str = ""
    """Inputs.digest of the last pass, if nothing was wrong, held back or denied at its end; otherwise ""."""

    def with_node(self, node: NodeState, readings: Mapping[str, Reading], uptime: float) -> Memory:
        """The memory after the Node was read. Forgets another Node, and records a change by another writer."""
        memory = self
        if self.uid != node.uid:
            memory = Memory(uid=node.uid, unknown_since=self.unknown_since)
        published = memory.published_on(node)
        to_lower = [key for key, number in published.items() if _asks_to_lower(key, readings, number)]
        memory = replace(memory, lower_since=_begin_times(self.lower_since, to_lower, uptime))
        if memory.owned_digest == "":  # no pass has read this Node
            return memory
        was_changed = memory.owned_digest != _owned_digest(node, memory.published)
        if was_changed and uptime not in memory.overwritten_at:  # a pass counts once, even if it reads the Node again
            memory = replace(memory, overwritten_at=(*memory.overwritten_at, uptime)[-BURST:])
        return memory

    def published_on(self, node: NodeState) -> dict[Key, int]:
        """Key -> published number, from the Node's annotation and from this memory. The remembered number wins.

        The memory knows what a lost or altered annotation should contain. The annotation contains keys that the memory
        does not know: those that a restored etcd has brought back.
        """
        return {**published_in(node.annotation), **self.published}

    def without_limits(self, uptime: float) -> Memory:
        """The memory after a reload, a start or new credentials: no earlier write or denial delays a write."""
        due_now = {name: replace(denial, retry_at=uptime) for name, denial in self.denied.items()}
        return replace(self, writes=(), denied=due_now)

    def with_readings(self, readings: Mapping[str, Reading], uptime: float) -> Memory:
        """The memory after the machine was read. Forgets a reduction that the readings no longer ask for.

        These must be the readings that the pass will publish: one that asks for no reduction ends its delay.
        """
        unknown = [name for name, reading in readings.items() if isinstance(reading, Unknown)]
        keys = {*self.published, *self.lower_since}
        to_lower = [key for key in keys if _asks_to_lower(key, readings, self.published.get(key))]
        unknown_since = _begin_times(self.unknown_since, unknown, uptime)
        lower_since = _begin_times(self.lower_since, to_lower, uptime)
        return replace(self, unknown_since=unknown_since, lower_since=lower_since)

    def with_write(self, uptime: float) -> Memory:
        """The memory after a pass that has sent a patch."""
        return replace(self, writes=(*self.writes, uptime)[-BURST:])

    def is_paused(self, name: str, uptime: float) -> bool:
        """Whether the next attempt after a denial is not due yet. name: a key of `denied`."""
        return name in self.denied and self.denied[name].is_paused(uptime)

    @property
    def limited_until(self) -> float:
        """When the limit of writes ends; 0.0 if the limit does not apply."""
        if len(self.writes) < BURST:
            return 0.0
        first, *_, last = self.writes
        is_written_often = last - first < WINDOW
        return last + MIN_INTERVAL if is_written_often else 0.0

    def overwritten_until(self, uptime: float) -> float | None:
        """When the Node stops counting as overwritten by other writers; None if it does not count as overwritten."""
        recent = [at for at in self.overwritten_at if uptime - at < WINDOW]
        if len(recent) < OVERWRITES:
            return None
        last = recent[-1]
        if uptime - last >= OVERWRITTEN_FOR:
            return None
        return last + OVERWRITTEN_FOR

    def after_plan(self, plan: Plan) -> Memory:
        """The memory after a plan that writes nothing, or that the limit of writes holds back."""
        published = self.published if plan.is_limited else plan.published
        return replace(self, published=published, owned_digest=_owned_digest(plan.node, published))

    def after_pass(self, plan: Plan, uptime: float) -> Memory:
        """The memory after a pass that has carried out this plan.

        Forgets denied changes whose next attempt was due, because the pass has tried them again, or no longer wants
        them. Remembers a denied change that a limit holds back.
        """
        if plan.is_limited:
            return self
        was_due = {name for name in self.denied if not self.is_paused(name, uptime)}
        held_back = {str(wait.key) for wait in plan.waits}
        return self.without_denials_of(was_due - held_back)

    def after_write(self, plan: Plan, patch: Patch, node: NodeState, uptime: float) -> Memory:
        """The memory after a patch. node: the Node in the answer to the patch.

        A number that was stored differently counts as denied. Its key stays capacityd's, with the stored number. All
        published keys are checked, because a webhook may change keys that the patch does not contain.
        """
        expected = plan.node.after(patch)
        published = dict(plan.published)
        written = {change.key for change in plan.written_changes}
        checked = written | published.keys()
        altered = {key for key in checked if node.stored(key) != expected.stored(key)}
        delayed = {wait.key for wait in plan.waits}  # the patch has restored these keys; their reduction comes later
        accepted = written - altered - delayed
        memory = self.without_denials_of(str(key) for key in accepted)
        for key in altered:
            sent = expected.stored(key).capacity or "none"
            stored = node.stored(key)
            memory = memory.with_denied(str(key), sent, why_altered(sent, stored), uptime)
            if stored.number is not None:
                published[key] = stored.number
        memory = memory._with_annotation_checked(patch, expected, node, uptime)
        memory = memory._with_condition_checked(patch, expected, node, uptime)
        if patch.condition is not None:
            memory = replace(memory, condition_subject=condition_subject(plan.troubles))
        return replace(
            memory,
            published=published,
            owned_digest=_owned_digest(node, published),
            lower_since={key: since for key, since in self.lower_since.items() if key not in accepted},
        )

    def _with_annotation_checked(self, patch: Patch, expected: NodeState, node: NodeState, uptime: float) -> Memory:
        """The memory after a patch. An annotation that was stored differently counts as denied."""
        if node.annotation != expected.annotation:
            text = f"the annotation {ANNOTATION} is not stored as it was sent"
            return self.with_denied(THE_ANNOTATION, THE_ANNOTATION, text, uptime)
        if ANNOTATION in patch.annotations:
            return self.without_denials_of([THE_ANNOTATION])
        return self

    def _with_condition_checked(self, patch: Patch, expected: NodeState, node: NodeState, uptime: float) -> Memory:
        """The memory after a patch. A condition that was stored differently counts as denied.

        It also counts as denied if the hash of the configuration was stored differently.
        """
        is_hash_stored = node.configuration == expected.configuration
        is_condition_stored = condition_texts(node) == condition_texts(expected)
        if is_hash_stored and is_condition_stored:
            was_patched = patch.condition is not None  # otherwise an earlier denial still holds
            return self.without_denials_of([THE_CONDITION]) if was_patched else self
        if expected.condition is None:
            return self
        sent = condition_text(expected.condition)
        return self.with_denied(THE_CONDITION, sent, "the condition is stored differently", uptime)

    def without_denials_of(self, names: Iterable[str]) -> Memory:
        """The memory without these denials."""
        gone = set(names)
        return replace(self, denied={name: denial for name, denial in self.denied.items() if name not in gone})

    def with_denied(self, name: str, sent: str, explanation: str, uptime: float) -> Memory:
        """The memory after a denial.

        name: a key of `denied`. sent: what was denied, as text. explanation: why it was denied, for people.
        """
        denial = denial_after(self.denied.get(name), sent, explanation, uptime)
        return replace(self, denied={**self.denied, name: denial})


def _owned_digest(node: NodeState, published: Collection[Key]) -> str:
    """A hash of what capacityd owns on the Node: the published keys, the two annotations and the condition."""
    numbers = []
    for key in sorted(published):
        stored = node.stored(key)
        numbers.append([str(key), stored.capacity, stored.allocatable])
    content = [numbers, node.annotation, node.configuration, condition_texts(node)]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def _begin_times(before: Mapping[_T, float], names: Iterable[_T], uptime: float) -> dict[_T, float]:
    """Name -> when something began: at the time in `before`, or now if `before` lacks the name."""
    return {name: before.get(name, uptime) for name in names}


def _asks_to_lower(key: Key, readings: Mapping[str, Reading], published: int | None) -> bool:
    """Whether a reading asks for less than the published number, or for no number. An unknown reading does not.

    published: None if only the annotation lists the key. The result is then True, because that number may be larger.
    """
    if key.is_label:  # a lower label needs no delay
        return False
    reading = readings.get(key.name)
    if isinstance(reading, Quantity):
        return published is None or reading.value < published
    return not isinstance(reading, Unknown)
