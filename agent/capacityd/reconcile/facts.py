"""The facts that a plan depends on, except for the Node: values only."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from capacityd.model.node import NodeState
from capacityd.model.other_agent import ANSWER_TIME, WRITE_INTERVAL, OtherAgent
from capacityd.model.plan import MachineRecord, Plan
from capacityd.model.reading import Reading
from capacityd.model.reasons import PassReason
from capacityd.model.watch import WatchedNode
from capacityd.reconcile.memory import Memory
from capacityd.schema.config import Config


@dataclass(frozen=True, slots=True)
class Facts:
    """What a pass, or a user's command, knows before it plans."""

    readings: Mapping[str, Reading] = field(default_factory=dict)
    """The readings of the configured resources, by name."""
    config: Config = field(default_factory=Config)
    now: float = 0.0
    """Seconds since the epoch."""
    uptime: float = 0.0
    """Seconds since the machine booted. Changes of the clock do not affect this value."""
    reasons: frozenset[PassReason] = frozenset()
    """Why the pass runs; empty if a user's command runs it."""
    watched: WatchedNode | None = None
    """The Node as the API server last sent it; None: the Node is not watched."""
    machine_record: MachineRecord | None = None
    """The quantities that this machine has published; None if the record is missing or can't be read.

    A plan uses only a record of its own Node; see of_node(). Without a record (a new image for an old Node), the
    annotation alone says which keys of configured resources capacityd owns. It also does while the record can't be
    read, but then a pass only raises and restores what is published (limits.py)."""
    machine_record_error: str = ""
    """Why the machine record can't be read; empty if it could be read or is missing."""
    configuration_errors: tuple[str, ...] = ()
    """The errors of the last check of the configuration, each with its file and line. The effective configuration may
    be an older one without these errors."""
    save_error: str = ""
    """Why this machine can't save the state of a pass or the machine record; empty if it can."""
    memory: Memory = field(default_factory=Memory)
    """The previous pass's memory, updated with the readings of this pass."""
    device_plugins: Collection[str] | None = ()
    """Names of the registered device plugins. None: unknown, so capacityd adopts nothing and keeps other writers'
    values."""
    denied: Mapping[str, str] = field(default_factory=dict)
    """Name -> why the API server has denied its change in this pass."""
    written: Plan | None = None
    """An earlier plan of this pass, whose patches may explain what has changed on the Node. None: no patch of this pass
    has succeeded."""
    lower_after: float = 0.0
    """Seconds for which a lower quantity must hold before it is written."""
    heartbeat_after: float | None = None
    """Seconds after which the condition's heartbeat is refreshed. None: the heartbeat changes only with other
    changes."""
    observe: bool = False
    """Whether a pass plans and writes nothing (observe = true). False in a user's command, which shows what would be
    written."""

    def of_node(self, node_state: NodeState) -> Facts:
        """These facts for a plan for this Node, without the machine record and the write times of another Node."""
        record = self.machine_record.of_node(node_state.uid) if self.machine_record else None
        return replace(self, machine_record=record, memory=self.memory.of_node(node_state))

    @property
    def unsaved(self) -> str:
        """Why this pass can't record what it publishes: it can't read the machine record, or can't save its state or
        the record. Empty if it can."""
        return "; ".join(why for why in (self.machine_record_error, self.save_error) if why)

    @property
    def other_agent(self) -> OtherAgent | None:
        """Another capacityd that an earlier pass has seen, and that does not count as gone yet; None: there is none."""
        other = self.memory.other_agent
        return other if other and self.uptime < other.gone_at else None

    @property
    def was_contradicted(self) -> bool:
        """Whether a pass has found a condition that says something else than its own findings, so recently that another
        agent may still answer."""
        at = self.memory.contradicted_at
        return at is not None and self.uptime < at + WRITE_INTERVAL + ANSWER_TIME

    def keeps_record(self, node_state: NodeState) -> bool:
        """Whether this pass knows which keys of the Node capacityd owns, so that it may write them into the machine
        record."""
        if self.machine_record_error:
            return False
        if self.machine_record is not None:
            return True
        # A first record contains only configured keys, so an incomplete or empty configuration would leave some of the
        # annotated keys out. A new Node has no annotation.
        mentions_all_keys = self.config.complete and bool(self.readings)
        return mentions_all_keys or node_state.annotation is None
