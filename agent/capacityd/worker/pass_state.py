"""The content of state.json: what `status` shows about the last pass. No pass reads this file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from capacityd.model.node import Condition, ConditionReason
from capacityd.model.plan import Change, Trouble
from capacityd.model.reading import Absent, Reading, Unknown
from capacityd.model.reasons import PassReason
from capacityd.model.waits import Wait


@dataclass(frozen=True, slots=True)
class PassStatus:
    """The result of a reconcile pass, for `status`, the journal and the metrics. Times are in seconds since the epoch.

    All data of the Node comes from the last pass that has read the Node.
    """

    at: float = 0.0
    """When the pass ended; 0.0 if no pass has ended yet."""
    reasons: tuple[PassReason, ...] = ()
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """Readings by name, without their details."""
    observe: bool = False
    error: str = ""
    """Why the pass has failed; "" after success."""
    configuration: str = ""
    """The hash of the configuration."""
    expect: Mapping[str, int] = field(default_factory=dict)
    """Name -> expected quantity."""
    waits: tuple[Wait, ...] = ()
    """What later passes wait for."""
    node: str = ""
    """The Node's name; "" if no pass has read the Node yet."""
    changes: tuple[Change, ...] = ()
    """The plan's changes. Their stored and published numbers are those after the pass."""
    troubles: tuple[Trouble, ...] = ()
    """What is wrong with the Node, including a denial of the condition, which the condition itself can't report."""
    condition: Condition | None = None
    """The condition on the Node; None if the Node has no condition of capacityd's type."""
    succeeded_at: float | None = None
    """When a pass last ended without an error; None for never."""
    read_at: float | None = None
    """When a pass last read the Node; None for never."""
    written_at: float | None = None
    """When a pass last wrote the Node; None for never."""

    @property
    def published(self) -> dict[str, int]:
        """Name -> published number of each resource. Labels are left out."""
        numbers: dict[str, int] = {}
        for change in self.changes:
            if change.published is not None and not change.key.is_label:
                numbers[change.key.name] = change.published
        return numbers

    @property
    def summary(self) -> str:
        """A line for people: how many resources are published, and why the others are not."""
        readings = self.readings.values()
        reasons = [trouble.reason for trouble in self.troubles]
        counts = {
            "absent": sum(isinstance(reading, Absent) for reading in readings),
            "unknown": sum(isinstance(reading, Unknown) for reading in readings),
            "refused": reasons.count(ConditionReason.REFUSED),
            "denied": reasons.count(ConditionReason.DENIED),
            "held back": len({wait.key for wait in self.waits if wait.holds_change}),
        }
        if self.observe:
            counts["not written (observe = true)"] = sum(change.action.writes for change in self.changes)
        texts = [f"{len(self.published)} of {len(readings)} resources published"]
        texts += [f"{count} {state}" for state, count in counts.items() if count > 0]
        return ", ".join(texts)
