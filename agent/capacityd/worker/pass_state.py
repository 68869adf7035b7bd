"""state.json: what a pass shows in `status`. No pass reads this file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from capacityd.model.node import Condition
from capacityd.model.plan import Change, Trouble
from capacityd.model.reading import Reading
from capacityd.model.reasons import PassReason
from capacityd.model.waits import Wait


@dataclass(frozen=True, slots=True)
class PassStatus:
    """A reconcile pass, for `status`, the journal and the metrics. Times are in seconds since the epoch.

    What is about the Node comes from the last pass that has read it.
    """

    at: float = 0.0
    """When the pass ended, before it saved its state; 0.0: no pass has ended yet."""
    reasons: tuple[PassReason, ...] = ()
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """Readings by name, without their details."""
    observe: bool = False
    error: str = ""
    """Why the Node could not be reconciled; empty if it could."""
    configuration: str = ""
    """The hash of the configuration."""
    expect: Mapping[str, int] = field(default_factory=dict)
    """Name -> expected quantity."""
    waits: tuple[Wait, ...] = ()
    """Reasons for later passes."""
    node: str = ""
    """The Node's name; "": no pass has read the Node yet."""
    changes: tuple[Change, ...] = ()
    """The plan's change for each key, with what the Node stores and its annotation lists after the pass."""
    troubles: tuple[Trouble, ...] = ()
    """What is wrong with the Node."""
    condition: Condition | None = None
    """The condition on the Node; None: there is none."""
    condition_denied: str = ""
    """Why the API server does not store the condition; empty if it does."""
    succeeded_at: float | None = None
    """When a pass last ended without an error; None: not yet."""
    read_at: float | None = None
    """When a pass last read the Node; None: not yet."""
    written_at: float | None = None
    """When the Node was last written; None: not yet."""

    @property
    def published(self) -> dict[str, int]:
        """Name -> published number, of the resources without their labels."""
        resources = [change for change in self.changes if not change.key.is_label]
        return {change.key.name: change.published for change in resources if change.published is not None}
