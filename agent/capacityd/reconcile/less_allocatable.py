"""What the service remembers of other writers that reduce allocatable, and whether repairs last. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from capacityd.reconcile import timing


@dataclass(frozen=True, slots=True)
class LessAllocatable:
    """A reduction of a resource's allocatable by another writer, perhaps the last of several."""

    quantity: str
    """The last reduced quantity."""
    repaired_at: float | None
    """When allocatable was last as published again, in seconds of uptime; None: it is still reduced."""
    repeated: bool = False
    """Whether a repair of allocatable did not last."""

    @property
    def was_repaired(self) -> bool:
        """Whether allocatable has been as published again at least once."""
        return self.repeated or not self.is_reduced

    @property
    def is_reduced(self) -> bool:
        """Whether allocatable is still reduced."""
        return self.repaired_at is None

    @property
    def over_at(self) -> float:
        """When the last repair counts as lasting, in seconds of uptime; infinite while allocatable is reduced."""
        return math.inf if self.repaired_at is None else self.repaired_at + timing.REPAIR_LASTS_AFTER


def less_allocatable_after(
    last: Mapping[str, LessAllocatable], quantities: Mapping[str, str], changed: Collection[str], uptime: float
) -> dict[str, LessAllocatable]:
    """How other writers have recently reduced allocatable, including what this pass has found.

    last: as of the last pass. quantities: name -> its reduced allocatable, before this pass. changed: the names that
    this pass has written, and so repaired.
    """
    recent = {name: less for name, less in last.items() if uptime < less.over_at}
    found_reduced: dict[str, LessAllocatable] = {}
    for name, quantity in quantities.items():
        was_repaired = name in recent and recent[name].was_repaired
        repaired_at = uptime if name in changed else None
        found_reduced[name] = LessAllocatable(quantity, repaired_at, repeated=was_repaired)
    found_as_published: dict[str, LessAllocatable] = {}  # but reduced recently
    for name, less in recent.items():
        if name in found_reduced:
            continue
        if not less.was_repaired:  # a first reduction that ended without a repair by this agent is forgotten
            continue
        # If allocatable was still reduced after the last pass, another writer has ended the reduction since.
        found_as_published[name] = replace(less, repaired_at=uptime) if less.is_reduced else less
    return found_reduced | found_as_published
