"""What the service remembers between two looks, and what of it a look changes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from capacityd.apply import Outcome, Untold
from capacityd.budget import spent
from capacityd.capacity import NodeState
from capacityd.model import Absent, Quantity, Reading, Unknown
from capacityd.patch import unknown_before
from capacityd.quantity import same_quantity

_UNSETTLED_MOST = 40  # looks for one kubelet that began anew, about five minutes


@dataclass(frozen=True, slots=True)
class Memory:
    """What the service remembers between two looks, while the machine is up. Times are seconds of uptime.

    seen: the readings when the Node was last brought into line; None: it wasn't yet. published: our record then.
    A name that is not in seen although it is read is not yet on the Node as it shall be. written, undone: as in
    budget.py. kubelet: when the kubelet began, as the Node was last asked; unsettled: looks since then while it may
    still zero what is on the Node, 0: it has had its chance. doubtful: looks in a row that left something unknown.
    delayed: the condition or the record waits for its budget. untold: of the last write, if its answer was lost.
    """

    seen: Mapping[str, str] | None = None
    published: Mapping[str, int] = field(default_factory=dict)
    lower_since: Mapping[str, float] = field(default_factory=dict)
    written: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    undone: Mapping[str, float] = field(default_factory=dict)
    kubelet: float | None = None
    unsettled: int = 0
    doubtful: int = 0
    delayed: bool = False
    untold: Untold | None = None


@dataclass(frozen=True, slots=True)
class Circumstances:
    """When and where a look happens. now: seconds since the epoch; uptime: seconds that the machine is up.

    kubelet_began: seconds since the epoch at which the kubelet made its socket, None: it has none.
    """

    now: float
    uptime: float
    kubelet_began: float | None = None


def digest(reading: Reading) -> str:
    """What a reading amounts to, as far as the Node is concerned."""
    if isinstance(reading, Quantity):
        return str(reading.value)
    return "absent" if isinstance(reading, Absent) else "unknown"


def is_lower(reading: Reading | None, published: int | None) -> bool:
    """Whether less is read than is published; what is not to be known, or not published, is not lower."""
    if published is None or isinstance(reading, Unknown):
        return False
    return not isinstance(reading, Quantity) or reading.value < published


def still_lower(readings: Mapping[str, Reading], memory: Memory, pending: Collection[str]) -> dict[str, float]:
    """Since when each name is lower, without those that came back: they begin anew, even if this look fails."""
    return {
        name: at
        for name, at in memory.lower_since.items()
        if name in pending or name not in memory.published or is_lower(readings.get(name), memory.published[name])
    }


def remember(
    memory: Memory,
    readings: Mapping[str, Reading],
    outcome: Outcome,
    here: Circumstances,
    pending: Collection[str],
    tells: bool,
) -> Memory:
    """What to remember after a look that has asked the Node.

    pending: names that are not read yet. tells: whether the Node's condition is kept.
    """
    plan = outcome.plan
    written, undone = spent(plan, outcome.applied, here.uptime, memory.written, memory.undone)
    since = {name: at for name, at in memory.lower_since.items() if name in pending} | dict(plan.lower_since)
    return Memory(
        seen=_seen(memory, readings, outcome, pending, tells),
        published=plan.published,
        lower_since=since,
        written=written,
        undone=undone,
        kubelet=here.kubelet_began,
        unsettled=_unsettled(memory, outcome.state, here),
        doubtful=memory.doubtful,
        delayed=plan.delayed,
    )


def _seen(
    memory: Memory, readings: Mapping[str, Reading], outcome: Outcome, pending: Collection[str], tells: bool
) -> dict[str, str]:
    """The readings that the Node is in line with by now."""
    plan = outcome.plan
    seen = {name: digest(reading) for name, reading in readings.items() if name not in pending}
    node = {change.name: change.new for change in plan.changes}
    silent = tells and outcome.state.condition is None  # its first word comes when all is read
    for name in pending:  # if the Node is as the last reading said, there may be nothing to do for this one either
        before = (memory.seen or {}).get(name)
        told = not tells or name in unknown_before(outcome.state)
        if before is not None and not silent and _is_so(before, plan.published.get(name), node.get(name), told):
            seen[name] = before
    for name in plan.held:  # the Node is not yet as the reading says, so the reading is not done with
        published = plan.published.get(name)
        if name in plan.undone:
            seen.pop(name, None)
        else:
            seen[name] = "absent" if published is None else str(published)
    return seen


def _is_so(seen: str, recorded: int | None, stored: str | None, told: bool) -> bool:
    if seen == "unknown":
        return told  # it has been left as it was, or restored, already
    if recorded is None:
        return seen == "absent" and stored is None
    return seen == str(recorded) and stored is not None and same_quantity(stored, recorded)


def _unsettled(memory: Memory, state: NodeState, here: Circumstances) -> int:
    """How many looks there were while the kubelet, since it began anew, may still zero what is here; 0: none any more.

    It decides to before its socket appears, but the write may come much later; the heartbeat of the Ready condition
    comes after it. Heartbeats are in whole seconds. One that never comes (a kubelet that hangs, a clock that was set
    back) is waited for once.
    """
    if here.kubelet_began is None or state.heartbeat is None or state.heartbeat >= int(here.kubelet_began):
        return 0
    if here.kubelet_began != memory.kubelet:
        return 1
    return 0 if memory.unsettled in (0, _UNSETTLED_MOST) else memory.unsettled + 1
