"""The memory that a pass leaves for the next one. Times are seconds of uptime.

The memory is empty after a start of the service, after a worker has died, after a patch without an answer, and for a
Node with another uid. Then the published numbers come only from the Node's annotation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from capacityd.model.key import Key
from capacityd.model.node import ANNOTATION, ConditionReason, NodeState, Patch
from capacityd.model.pace import LONGEST_PAUSE
from capacityd.model.plan import Plan, Trouble
from capacityd.model.published import is_annotated, published_in
from capacityd.model.reading import Quantity, Reading, Unknown
from capacityd.reconcile.denial import Denial, condition_text, denial_after, is_paused, why_altered

MIN_INTERVAL = 60.0
"""Seconds between two writes of a Node that has been written often."""
BURST = 6
WINDOW = BURST * MIN_INTERVAL
"""A Node with BURST writes within WINDOW seconds has been written often. A few writes in a row are normal: a user plugs
in a device, pulls another, and plugs it in again. All patches of a pass count as one write."""

OVERWRITES = 3
OVERWRITTEN_FOR = 90.0
"""The Node counts as overwritten if other writers have changed it OVERWRITES times within WINDOW seconds, and if the
last change is at most OVERWRITTEN_FOR seconds old."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one Node."""

    uid: str = ""
    """The Node's uid; "" if the memory is about no Node."""
    published: Mapping[Key, int] = field(default_factory=dict)
    left: str = ""
    """digest_of_ours() of the Node after the last pass; "" if no pass has read the Node."""
    lower_since: Mapping[Key, float] = field(default_factory=dict)
    """Key -> when its reduction became due."""
    unknown_since: Mapping[str, float] = field(default_factory=dict)
    """Name of a resource -> when its reading became unknown."""
    plugins_unknown_since: float | None = None
    """Since when keys have been refused because the list of device plugins is unreadable; None if no key is."""
    writes: tuple[float, ...] = ()
    """When passes have written the Node: the last BURST times."""
    restored: tuple[float, ...] = ()
    """When passes have found changes by other writers: the last BURST times."""
    denied: Mapping[Key, Denial] = field(default_factory=dict)
    annotation_denied: Denial | None = None
    condition_denied: Denial | None = None
    condition_about: tuple[str, ...] | None = None
    """about() of the last written condition; None if no condition was written."""
    settled: str = ""
    """Inputs.digest of the last pass, if nothing was wrong, held back or denied at its end; otherwise ""."""

    def of_node(self, node: NodeState) -> Memory:
        """This memory, if it is about this Node. Otherwise a new memory with only lower_since and unknown_since."""
        if self.uid == node.uid:
            return self
        return Memory(uid=node.uid, lower_since=self.lower_since, unknown_since=self.unknown_since)

    def published_on(self, node: NodeState) -> dict[Key, int]:
        """Key -> published number, from the Node's annotation and from this memory. The remembered number wins.

        So a lost or altered annotation is restored, and a key that a restored etcd brings back is removed. If the
        memory is not about this Node, only the annotation counts.
        """
        annotated = published_in(node.annotation)
        return {**annotated, **self.published} if self.uid == node.uid else annotated

    def without_limits(self, uptime: float) -> Memory:
        """The memory after a reload, a start or new credentials. No earlier write or denial delays a write."""

        def due(denial: Denial | None) -> Denial | None:
            return replace(denial, retry_at=uptime) if denial else None

        return replace(
            self,
            writes=(),
            denied={key: replace(denial, retry_at=uptime) for key, denial in self.denied.items()},
            annotation_denied=due(self.annotation_denied),
            condition_denied=due(self.condition_denied),
        )

    def with_readings(self, readings: Mapping[str, Reading], uptime: float) -> Memory:
        """The memory after the machine was read, even if the pass fails later.

        A reduction is forgotten if the readings no longer ask for it. So a new rule that lowers a number must change
        the reading, or its reduction never becomes due.
        """
        unknown = [name for name, reading in readings.items() if isinstance(reading, Unknown)]
        resources = {key for key in {*self.published, *self.lower_since} if not key.is_label}
        lower = [key for key in resources if _asks_to_lower(readings.get(key.name), self.published.get(key))]
        return replace(
            self,
            unknown_since={name: self.unknown_since.get(name, uptime) for name in unknown},
            lower_since={key: self.lower_since.get(key, uptime) for key in lower},
        )

    def with_write(self, uptime: float) -> Memory:
        """The memory after a pass that has sent a patch."""
        return replace(self, writes=(*self.writes, uptime)[-BURST:])

    @property
    def limited_until(self) -> float:
        """When the limit of writes ends; 0.0 if the limit does not apply."""
        is_full = len(self.writes) == BURST and self.writes[-1] - self.writes[0] < WINDOW
        return self.writes[-1] + MIN_INTERVAL if is_full else 0.0

    @property
    def has_denials(self) -> bool:
        """Whether a number, the annotation or the condition is denied."""
        return bool(self.denied or self.annotation_denied or self.condition_denied)

    def overwritten_until(self, uptime: float) -> float | None:
        """Until when the Node counts as overwritten by other writers; None if it does not."""
        recent = [at for at in self.restored if uptime - at < WINDOW]
        if len(recent) < OVERWRITES or uptime - recent[-1] >= OVERWRITTEN_FOR:
            return None
        return recent[-1] + OVERWRITTEN_FOR

    def is_changed_by_others(self, node: NodeState) -> bool:
        """Whether other writers have changed capacityd's keys, annotation or condition since the last pass."""
        return bool(self.left) and self.left != digest_of_ours(node, self.published)

    def with_restored(self, node: NodeState, uptime: float) -> Memory:
        """The memory with this time in `restored`, if other writers have changed the Node. A pass counts once."""
        if not self.is_changed_by_others(node) or uptime in self.restored:
            return self
        return replace(self, restored=(*self.restored, uptime)[-BURST:])

    def annotation_is_right_again(self, plan: Plan, uptime: float) -> bool:
        """Whether the annotation is denied and could be sent again now, but the Node already has it."""
        is_due = self.annotation_denied is not None and not is_paused(self.annotation_denied, uptime)
        return is_due and is_annotated(plan.node.annotation, plan.published)

    def after_plan(self, plan: Plan, uptime: float) -> Memory:
        """The memory after a plan that writes nothing, or that the limit of writes holds back."""
        published = self.published if plan.is_limited else plan.published
        left = digest_of_ours(plan.node, published)
        return replace(self._with_plan(plan, uptime), published=published, left=left, lower_since=plan.lower_since)

    def after_write(self, plan: Plan, patch: Patch, stored: NodeState, uptime: float) -> Memory:
        """The memory after a patch. stored: the Node in the answer to the patch.

        A number that was stored differently counts as denied. Its key stays capacityd's, with the stored number. All
        published keys are checked, because a webhook may change keys that the patch does not contain.
        """
        expected = plan.node.after(patch)
        written = {change.key for change in plan.written_changes}
        held = {wait.key for wait in plan.waits}  # the patch has only restored these keys; their reduction is still due
        denied = {key: denial for key, denial in self.denied.items() if key not in written - held}
        published = dict(plan.published)
        for key in written | published.keys():
            has, sent = stored.stored(key), expected.stored(key)
            if has == sent:
                continue
            text = sent.capacity or "none"
            denied[key] = denial_after(self.denied.get(key), text, why_altered(text, has), uptime)
            if has.number is not None:
                published[key] = has.number
        lowered = written - held - denied.keys()  # a denied reduction is still due
        return replace(
            self._with_plan(plan, uptime),
            published=published,
            left=digest_of_ours(stored, published),
            lower_since={key: at for key, at in plan.lower_since.items() if key not in lowered},
            denied=denied,
            condition_about=self.condition_about if patch.condition is None else about(plan.troubles),
            annotation_denied=self._annotation_denial(patch, expected, stored, uptime),
            condition_denied=self._condition_denial(patch, expected, stored, uptime),
        )

    def _with_plan(self, plan: Plan, uptime: float) -> Memory:
        """The memory with the updates that do not depend on whether the plan is written."""
        since = self.plugins_unknown_since
        return replace(
            self,
            denied={key: denial for key, denial in self.denied.items() if uptime < denial.retry_at + LONGEST_PAUSE},
            plugins_unknown_since=(uptime if since is None else since) if plan.needs_device_plugins else None,
        )

    def _annotation_denial(self, patch: Patch, expected: NodeState, stored: NodeState, uptime: float) -> Denial | None:
        """The denial of the annotation after a patch; None if the annotation is not denied."""
        if stored.annotation == expected.annotation:
            return None if ANNOTATION in patch.annotations else self.annotation_denied
        text = f"the annotation {ANNOTATION} is not stored as it was sent"
        return denial_after(self.annotation_denied, "annotation", text, uptime)

    def _condition_denial(self, patch: Patch, expected: NodeState, stored: NodeState, uptime: float) -> Denial | None:
        """The denial of the condition after a patch. A denied hash of the configuration also counts."""
        texts = [list(map(condition_text, node.conditions)) for node in (expected, stored)]
        if texts[0] == texts[1] and stored.configuration == expected.configuration:
            return self.condition_denied if patch.condition is None else None
        if expected.condition is None:
            return self.condition_denied
        sent = condition_text(expected.condition)
        return denial_after(self.condition_denied, sent, "the condition is stored differently", uptime)

    def without_denials_of(self, keys: Collection[Key]) -> Memory:
        """The memory without the denials of these keys."""
        return replace(self, denied={key: denial for key, denial in self.denied.items() if key not in keys})

    def with_rejected(self, key: Key, sent: str, text: str, uptime: float) -> Memory:
        """The memory after the API server has rejected a patch with this key. sent, text: see Denial."""
        return replace(self, denied={**self.denied, key: denial_after(self.denied.get(key), sent, text, uptime)})

    def with_annotation_rejected(self, text: str, uptime: float) -> Memory:
        """The memory after the API server has rejected the annotation."""
        return replace(self, annotation_denied=denial_after(self.annotation_denied, "annotation", text, uptime))

    def with_condition_rejected(self, sent: str, text: str, uptime: float) -> Memory:
        """The memory after the API server has rejected a condition. sent: its condition_text()."""
        return replace(self, condition_denied=denial_after(self.condition_denied, sent, text, uptime))


def about(troubles: Sequence[Trouble]) -> tuple[str, ...]:
    """What a condition is about: its reason, and the keys that are in trouble."""
    if not troubles:
        return (ConditionReason.PUBLISHED.value,)
    return (troubles[0].reason.value, *(str(trouble.key) for trouble in troubles if trouble.key))


def digest_of_ours(node: NodeState, published: Collection[Key]) -> str:
    """A hash of what capacityd owns on the Node: the published keys, the two annotations and the condition."""
    stored = [[str(key), node.stored(key).capacity, node.stored(key).allocatable] for key in sorted(published)]
    content = [
        stored,
        node.annotation,
        node.configuration,
        [condition_text(condition) for condition in node.conditions],
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def _asks_to_lower(reading: Reading | None, published: int | None) -> bool:
    """Whether a reading asks for less than the published number, or may do so. An unknown reading does not.

    published: None if only the annotation lists the key. The number in the annotation may be larger than the reading.
    """
    if isinstance(reading, Unknown):
        return False
    return not isinstance(reading, Quantity) or published is None or reading.value < published
