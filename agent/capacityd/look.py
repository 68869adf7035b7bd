"""One look of the service, after the probe: whether the Node has to be asked at all, and what to remember for the next.

Everything but the Node comes in and goes out as values, so that a model can drive it through any history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from capacityd.apply import Outcome, apply
from capacityd.capacity import NodeState, Plan
from capacityd.errors import NodeDenied, NodeError, NodeMissing, NodeUnreachable
from capacityd.model import Absent, Config, Quantity, Reading
from capacityd.node import Node
from capacityd.plan import Terms, make_plan

LOCAL = frozenset({"hardware", "file", "due"})
"""Reasons that say nothing of the Node: if the readings are what was last published, it need not be asked."""

OFTEN = 60.0
"""Seconds of uptime within which a resource that was written twice is not written a third time."""

BOOTING = 180.0
"""Seconds of uptime in which drivers and devices may still come up, so that a lower quantity must hold longer."""

_UNSETTLED = (1.0, 2.0, 4.0, 8.0)  # seconds between looks while a kubelet that began anew may still write
_UNSETTLED_MOST = 40  # looks at the last of these, about five minutes


@dataclass(frozen=True, slots=True)
class Memory:
    """What the service remembers between two looks, while the machine is up. Times are seconds of uptime.

    seen: the readings when the Node was last brought into line; None: it wasn't yet. published: our record then.
    written: when each name was last written, at most twice. unsettled: looks since the kubelet began anew.
    """

    seen: Mapping[str, str] | None = None
    published: Mapping[str, int] = field(default_factory=dict)
    lower_since: Mapping[str, float] = field(default_factory=dict)
    written: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    unsettled: int = 0


@dataclass(frozen=True, slots=True)
class Circumstances:
    """When and where a look happens. now: seconds since the epoch; uptime: seconds that the machine is up.

    kubelet_began: seconds since the epoch at which the kubelet made its socket, None: it has none.
    """

    now: float
    uptime: float
    plugins: Collection[str] | None = ()
    kubelet_began: float | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """What a look came to. outcome: None if the Node was not asked, or could not be. again_in: seconds until the next.

    trouble: what was wrong, for the operator; failed: whether the Node is not as it should be for it.
    """

    memory: Memory
    outcome: Outcome | None = None
    again_in: float | None = None
    trouble: str = ""
    failed: bool = False
    retry_after: float | None = None


def look(
    config: Config,
    readings: Mapping[str, Reading],
    reasons: Collection[str],
    memory: Memory,
    here: Circumstances,
    open_node: Callable[[], Node],
) -> Look:
    """Brings the Node into line with the readings, unless it is, or has to wait. Raises no NodeError: see trouble."""
    terms = _terms(config, memory, here)
    waiting = _waits(readings, memory, terms) if LOCAL.issuperset(reasons) else None
    if waiting is not None:
        since, again_in = waiting
        return Look(replace(memory, lower_since=since), again_in=again_in)
    try:
        node = open_node()
        outcome = _observe(node, readings, terms) if config.settings.observe else _apply(node, readings, terms)
    except NodeUnreachable as e:
        return Look(memory, trouble=str(e), failed=True, retry_after=e.retry_after)
    except (NodeDenied, NodeMissing, NodeError) as e:
        return Look(memory, trouble=str(e), failed=True)
    after = _remember(memory, readings, outcome, here, _settled(outcome.state, here))
    return Look(after, outcome, _again_in(outcome.plan, after, terms))


def digest(reading: Reading) -> str:
    """What a reading amounts to, as far as the Node is concerned."""
    if isinstance(reading, Quantity):
        return str(reading.value)
    return "absent" if isinstance(reading, Absent) else "unknown"


def _terms(config: Config, memory: Memory, here: Circumstances) -> Terms:
    settings = config.settings
    booting = here.uptime < BOOTING
    return Terms(
        adopt=frozenset(r.name for r in config.resources if r.adopt),
        plugins=here.plugins,
        complete=config.complete,
        now=here.now,
        condition=settings.condition,
        uptime=here.uptime,
        lower_after=max(settings.lower_after, settings.lower_after_boot) if booting else settings.lower_after,
        lower_since=memory.lower_since,
        not_before={name: at[0] + OFTEN for name, at in memory.written.items() if len(at) == 2},
    )


def _waits(
    readings: Mapping[str, Reading], memory: Memory, terms: Terms
) -> tuple[Mapping[str, float], float | None] | None:
    """If the Node need not be asked now: since when each name is lower, and seconds until it must be. None: ask now."""
    if memory.seen is None or memory.unsettled:
        return None
    since: dict[str, float] = {}
    due: list[float] = []
    for name in memory.seen.keys() | readings.keys():
        reading = readings.get(name)
        if reading is not None and memory.seen.get(name) == digest(reading):
            continue
        until = terms.not_before.get(name, 0.0)
        if _lower(reading, memory.published.get(name)):
            since[name] = terms.lower_since.get(name, terms.uptime)
            until = max(until, since[name] + terms.lower_after)
        if until <= terms.uptime:
            return None
        due.append(until - terms.uptime)
    return since, min(due, default=None)


def _lower(reading: Reading | None, published: int | None) -> bool:
    if published is None or reading is None:
        return False
    return isinstance(reading, Absent) or (isinstance(reading, Quantity) and reading.value < published)


def _apply(node: Node, readings: Mapping[str, Reading], terms: Terms) -> Outcome:
    return apply(node, lambda state: make_plan(readings, state, terms), patience=0.0)


def _observe(node: Node, readings: Mapping[str, Reading], terms: Terms) -> Outcome:
    state = node.read()
    return Outcome(make_plan(readings, state, terms), False, state)


def _settled(state: NodeState, here: Circumstances) -> bool:
    """Whether the kubelet has written since it began: before that it may still zero what is here.

    It decides to before its socket appears, but the write may come much later; the heartbeat of the Ready condition
    comes after it. Heartbeats are in whole seconds.
    """
    if here.kubelet_began is None or state.heartbeat is None:
        return True
    return state.heartbeat >= int(here.kubelet_began)


def _remember(
    memory: Memory, readings: Mapping[str, Reading], outcome: Outcome, here: Circumstances, settled: bool
) -> Memory:
    written = dict(memory.written)
    held = {c.name for c in outcome.plan.changes if c.action == "hold"}
    if outcome.applied:
        for change in outcome.plan.changes:
            if change.action in ("set", "remove"):
                written[change.name] = (*written.get(change.name, ()), here.uptime)[-2:]
    recent = {name: at for name, at in written.items() if here.uptime - at[-1] < OFTEN}
    seen = {name: digest(reading) for name, reading in readings.items()}
    for name in held:  # the Node is not yet as the reading says, so the reading is not done with
        before = outcome.plan.published.get(name)
        seen[name] = "absent" if before is None else str(before)
    unsettled = 0 if settled or memory.unsettled >= _UNSETTLED_MOST else memory.unsettled + 1
    return Memory(seen, outcome.plan.published, outcome.plan.lower_since, recent, unsettled)


def _again_in(plan: Plan, memory: Memory, terms: Terms) -> float | None:
    moments = [_UNSETTLED[min(memory.unsettled, len(_UNSETTLED)) - 1]] if memory.unsettled else []
    for change in plan.changes:
        if change.action == "hold":
            until = max(
                terms.not_before.get(change.name, 0.0), plan.lower_since.get(change.name, 0.0) + terms.lower_after
            )
            moments.append(max(0.1, until - terms.uptime))
    return min(moments, default=None)
