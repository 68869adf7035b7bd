"""Decides what is to happen to one name on the Node: pure, from values to values.

The rules, in the order in which they count:
- A device plugin's name is refused, whatever our record says.
- Ours is what our record names, and a key is removed only when its value is what the record says, or 0.
- Unknown never lowers or removes; what was lost or zeroed meanwhile is restored from the record.
- Raise at once, lower late: pods that no longer fit are stopped at the kubelet's next restart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from capacityd.model import Absent, Quantity, Reading, Unknown
from capacityd.quantity import same_quantity, whole_quantity

REST = ""
"""In Terms.not_before: a write of the condition or the record alone."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a plan is made by, beside the readings and the Node.

    adopt: names that may be taken over. plugins: those of device plugins, None: not to be known, so nothing is adopted.
    pending: names that are unknown for the moment only: the condition says of them what it said before.
    complete: whether the whole configuration could be read. now: seconds since the epoch. condition: whether to keep a
    Node condition. Of the service's, in seconds of uptime, which no change of the clock moves: lower_after: how long a
    lower quantity must hold; lower_since: name -> since when it has; not_before: name -> when it may be written again,
    REST -> when that may be written which is no quantity; undo_not_before: name -> when another writer's change of it
    may be undone again. published: name -> what was there when the service last knew. kubelet_anew: it may have zeroed
    what is there, or registered the Node, since.
    """

    adopt: Collection[str] = ()
    plugins: Collection[str] | None = ()
    pending: Collection[str] = ()
    complete: bool = True
    now: float = 0.0
    condition: bool = True
    uptime: float = 0.0
    lower_after: float = 0.0
    lower_since: Mapping[str, float] = field(default_factory=dict)
    not_before: Mapping[str, float] = field(default_factory=dict)
    undo_not_before: Mapping[str, float] = field(default_factory=dict)
    published: Mapping[str, int] = field(default_factory=dict)
    kubelet_anew: bool = False


@dataclass(frozen=True, slots=True)
class NodeKey:
    """A name as the Node has it. recorded: what we published, None: it isn't ours."""

    name: str
    stored: str | None
    recorded: int | None

    def says(self, number: int) -> bool:
        """Whether the Node has it with this quantity."""
        return self.stored is not None and same_quantity(self.stored, number)


@dataclass(frozen=True, slots=True)
class Decision:
    """action, value, reason as in Change; record: what our record says afterwards, None: nothing."""

    action: str
    value: int | None
    reason: str
    record: int | None


def decide(key: NodeKey, reading: Reading | None, terms: Terms, configured: bool) -> Decision:
    """What is to happen to a name. reading: None if it is not configured. configured: whether anything is."""
    owned = of_plugin(key, terms) if isinstance(reading, Quantity) or key.recorded is not None else None
    if owned:
        return owned
    if isinstance(reading, Quantity):
        return _publish(key, reading, terms)
    if isinstance(reading, Unknown):
        return _stand(key, reading)
    if isinstance(reading, Absent):
        return forget(key, reading.reason)
    # No longer configured. A configuration that is damaged or empty is rather a mistake than a wish.
    if not terms.complete:
        return Decision("keep", None, "kept: a file of the configuration can't be read, and may name it", key.recorded)
    if not configured:
        why = 'kept: no resource is configured at all; "capacityd withdraw" removes what was published'
        return Decision("keep", None, why, key.recorded)
    return forget(key, "no longer configured")


def of_plugin(key: NodeKey, terms: Terms) -> Decision | None:
    """A device plugin's name is never touched: the kubelet writes that key itself, from what the plugin tells it."""
    if terms.plugins is None or key.name not in terms.plugins:
        return None
    return Decision("refuse", None, "a device plugin has this name; the key is the kubelet's", None)


def _publish(key: NodeKey, reading: Quantity, terms: Terms) -> Decision:
    value = reading.value
    if key.stored is None:
        lost = f"lost from the Node, where {key.recorded} was published" if key.recorded is not None else "found"
        return Decision("set", value, lost, value)
    if key.recorded is None:
        return _take_over(key, value, terms)
    if key.says(value):
        return Decision("keep", value, "as published", value)
    if key.says(key.recorded):
        return Decision("set", value, "the hardware changed", value)
    if key.says(0):
        return Decision("set", value, "restored: the Node's 0 is none of ours (a kubelet restart?)", value)
    return Decision("set", value, f"put back: somebody else wrote {key.stored}", value)


def _take_over(key: NodeKey, value: int, terms: Terms) -> Decision:
    """A key that is there and not ours is refused, whatever its value: a 0 may be a device plugin's that comes back."""
    if key.name not in terms.adopt:
        same = "the same value, but " if key.says(value) else ""
        why = f"{same}not published by capacityd; adopt = true takes it over"
        return Decision("refuse", None, why, None)
    if terms.plugins is None:
        why = "not adopted: the kubelet's list of device plugins can't be read, and this may be one's"
        return Decision("refuse", None, why, None)
    return Decision("keep" if key.says(value) else "set", value, "adopted", value)


def _stand(key: NodeKey, reading: Unknown) -> Decision:
    if key.recorded is None:
        return Decision("keep", None, f"unknown: {reading.reason}", None)
    if key.stored is None or (key.says(0) and key.recorded != 0):
        return Decision("set", key.recorded, f"restored as last published; unknown: {reading.reason}", key.recorded)
    return Decision("keep", None, f"stays as it is; unknown: {reading.reason}", key.recorded)


def forget(key: NodeKey, reason: str) -> Decision:
    """What is to happen to a name that is to be gone, for this reason."""
    if key.stored is None or key.recorded is None:
        return Decision("keep", None, reason, None)
    if not (key.says(key.recorded) or key.says(0)):  # a zeroing kubelet's is as good as ours
        why = f"{reason}, but its value is not the {key.recorded} that was published: somebody else's, so it is left"
        return Decision("refuse", None, why, None)
    return Decision("remove", None, reason, None)


def lowers(key: NodeKey, decision: Decision) -> bool:
    """Whether setting or removing it makes the Node say less than it does and than we did. Taking away a 0 does not."""
    if decision.value is None:
        return not key.says(0)
    if key.stored is None:
        return False
    stored = whole_quantity(key.stored)
    return (stored is None or decision.value < stored) and (key.recorded is None or decision.value < key.recorded)


def undoes(key: NodeKey, terms: Terms) -> bool:
    """Whether to write it is to undo what another writer did. A kubelet that began anew is none."""
    if key.recorded is not None:
        return not key.says(key.recorded) and not (terms.kubelet_anew and key.says(0))
    before = terms.published.get(key.name)
    return before is not None and not key.says(before) and not terms.kubelet_anew


def waits_for(key: NodeKey, decision: Decision, terms: Terms) -> list[tuple[float, str]]:
    """Until when a change has to wait, and for what, as the end of a sentence; one at least."""
    waits = [(terms.not_before.get(key.name, 0.0), "because it keeps changing")]
    if lowers(key, decision):
        since = terms.lower_since.get(key.name, terms.uptime)
        waits.append((since + terms.lower_after, "in case it comes back"))
    if undoes(key, terms):
        waits.append((terms.undo_not_before.get(key.name, 0.0), "because somebody else keeps changing it"))
    return waits
