"""state.json: what a pass shows in `status`. No pass reads this file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum

from capacityd.model.key import Key
from capacityd.model.node import Condition, NodeState
from capacityd.model.plan import Change, Trouble
from capacityd.model.quantity import name_problem
from capacityd.model.reading import Reading
from capacityd.model.reasons import PassReason
from capacityd.model.waits import Wait


class Writer(str, Enum):
    """The writer of an extended resource that capacityd does not publish."""

    DEVICE_PLUGIN = "device_plugin"  # the kubelet writes it for a device plugin
    UNKNOWN = "unknown"


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
    others: Mapping[str, Writer] = field(default_factory=dict)
    """Name -> writer, as from other_writers()."""
    succeeded_at: float | None = None
    """When a pass last ended without an error; None: not yet."""
    read_at: float | None = None
    """When a pass last read the Node; None: not yet."""
    written_at: float | None = None
    """When the Node was last written; None: not yet."""
    impersonated: str = ""
    """The user as whom the service acts; "": the user of its credentials."""

    @property
    def published(self) -> dict[str, int]:
        """Name -> published number, of the resources without their labels."""
        resources = [change for change in self.changes if not change.key.is_label]
        return {change.key.name: change.published for change in resources if change.published is not None}


def other_writers(
    node: NodeState, published: Collection[Key], device_plugins: Collection[str] | None
) -> dict[str, Writer]:
    """Name -> writer, for this Node's extended resources that capacityd does not publish.

    published: the keys that capacityd publishes. device_plugins: the names that device plugins have registered; None if
    they are unknown.
    """
    others = [name for name in sorted(node.capacity) if Key(name) not in published and not name_problem(name)]
    of_plugins = device_plugins or ()
    return {name: Writer.DEVICE_PLUGIN if name in of_plugins else Writer.UNKNOWN for name in others}
