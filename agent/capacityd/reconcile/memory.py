"""What the service remembers between two passes, while the machine is up. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from capacityd.model.node import NodeState
from capacityd.model.reading import Reading, Unknown
from capacityd.reconcile.timing import VERIFY_PERIOD, Denial, Kubelet, WriteTimes, pause_after_denials


@dataclass(frozen=True, slots=True)
class Conflict:
    """Conflicts that have not ended."""

    message: str
    """Of the first ones: a single attempt can't determine the cause."""
    at: float
    """When the last attempt ended in one."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What a pass leaves for the next one. Times are seconds of uptime."""

    node: NodeState | None = None
    """The Node as the API server returned it last, as far as a plan looks at it. It decides only whether the Node must
    be read: nothing is written from it. None: it has to be read."""
    lower_since: Mapping[str, float] = field(default_factory=dict)
    """Name -> since when its quantity is to be lower."""
    unknown_since: Mapping[str, float] = field(default_factory=dict)
    """Name -> since when its reading has been unknown."""
    write_times: WriteTimes = field(default_factory=WriteTimes)
    """When the Node was written lately."""
    denied: Mapping[str, Denial] = field(default_factory=dict)
    """By name."""
    conflict: Conflict | None = None
    kubelet: Kubelet = field(default_factory=Kubelet)
    less_allocatable: frozenset[str] = frozenset()
    """Names whose allocatable was less than what was published when the Node was last read."""
    writes_fail_since: float | None = None
    """Since when the API server answers writes with a server error, although the Node can be read; None: it doesn't."""
    verify_at: float | None = None
    """When the Node is read again to see whether allocatable is what was published."""

    def without_future(self, uptime: float) -> Memory:
        """The same as of this uptime: the files of a snapshot that was restored may have times after it.

        What began in the future begins now, and what waits longer than anything does is due now.
        """
        latest = uptime + VERIFY_PERIOD
        future_denials = {
            name: replace(denial, retry_at=uptime)
            for name, denial in self.denied.items()
            if denial.retry_at > uptime + pause_after_denials(denial.attempts)
        }
        return replace(
            self,
            lower_since=_past(self.lower_since, uptime),
            unknown_since=_past(self.unknown_since, uptime),
            write_times=self.write_times.recent(uptime),
            denied={**self.denied, **future_denials},
            writes_fail_since=_past_or_now(self.writes_fail_since, uptime),
            conflict=self.conflict and replace(self.conflict, at=min(self.conflict.at, uptime)),
            kubelet=replace(self.kubelet, settling_since=_past_or_now(self.kubelet.settling_since, uptime)),
            verify_at=uptime if self.verify_at is not None and self.verify_at > latest else self.verify_at,
        )

    def with_readings(self, readings: Mapping[str, Reading], uptime: float) -> Memory:
        """The same with these readings: since when each of them has been unknown, even if this pass fails."""
        unknown = [name for name, reading in readings.items() if isinstance(reading, Unknown)]
        return replace(self, unknown_since={name: self.unknown_since.get(name, uptime) for name in unknown})

    def with_denials_due(self, uptime: float) -> Memory:
        """The same, with each denied change to be tried now, and again in the next pass if this one fails."""
        return replace(self, denied={name: replace(denial, retry_at=uptime) for name, denial in self.denied.items()})

    def write_times_of(self, node_state: NodeState) -> WriteTimes:
        """When this Node was written lately. One that was created anew has not been written yet."""
        return self.write_times if self.node is None or self.node.uid == node_state.uid else WriteTimes()


def remembered(node_state: NodeState) -> NodeState:
    """The Node as far as a plan looks at it: without the documents of its conditions, which only a patch tests."""
    condition = node_state.condition
    stripped = None if condition is None else replace(condition, stored={})
    return replace(node_state, condition=stripped, duplicate_conditions=())


def _past(times: Mapping[str, float], uptime: float) -> dict[str, float]:
    return {name: at for name, at in times.items() if at <= uptime}


def _past_or_now(at: float | None, uptime: float) -> float | None:
    return None if at is None else min(at, uptime)
