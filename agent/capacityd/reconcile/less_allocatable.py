"""What the service remembers of other writers that reduce allocatable, and whether repairs last. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from capacityd.reconcile import timing


@dataclass(frozen=True, slots=True)
class LessAllocatable:
    """Another writer has reduced the allocatable of a resource, perhaps several times."""

    quantity: str
    """The last reduced quantity."""
    repaired_at: float | None
    """When allocatable was last as published again, in seconds of uptime; None: it is still reduced."""
    repeated: bool = False
    """Whether a repair of allocatable did not last."""

    @property
    def was_repaired(self) -> bool:
        """Whether a further reduction means that a repair did not last."""
        return self.repeated or self.repaired_at is not None

    @property
    def over_at(self) -> float:
        """When the last repair counts as lasting, unless allocatable is reduced again before. Infinite while it is
        reduced."""
        return math.inf if self.repaired_at is None else self.repaired_at + timing.REPAIR_LASTS


def less_allocatable_after(
    last: Mapping[str, LessAllocatable], reduced: Mapping[str, str], changed: Collection[str], uptime: float
) -> dict[str, LessAllocatable]:
    """How other writers have recently reduced allocatable, including what this pass has found.

    last: as of the last pass. reduced: name -> its reduced allocatable, before this pass. changed: the names that this
    pass has written.
    """
    recent = {name: less for name, less in last.items() if uptime < less.over_at}
    found = {
        name: LessAllocatable(
            quantity,
            repaired_at=uptime if name in changed else None,
            repeated=name in recent and recent[name].was_repaired,
        )
        for name, quantity in reduced.items()
    }
    for name, less in recent.items():
        if name not in reduced and less.was_repaired:
            is_repaired_now = less.repaired_at is None
            found[name] = replace(less, repaired_at=uptime) if is_repaired_now else less
    return found
