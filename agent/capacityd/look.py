"""One look of the service, after the probe: whether the Node has to be asked at all, and what to remember for the next.

Everything but the Node comes in and goes out as values, so that a model can drive it through any history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from capacityd.apply import Outcome, Untold, WriteUnanswered, apply
from capacityd.budget import not_before, spent, undo_not_before
from capacityd.capacity import NodeState
from capacityd.errors import NodeDenied, NodeError, NodeMissing, NodeUnreachable
from capacityd.model import Absent, Config, Quantity, Reading, Unknown
from capacityd.node import Node
from capacityd.patch import unknown_before
from capacityd.plan import REST, Terms, make_plan, read_record
from capacityd.quantity import same_quantity
from capacityd.schedule import BOOTING

LOCAL = frozenset({"hardware", "file", "due"})
"""Reasons that say nothing of the Node: if the readings are what was last published, it need not be asked."""

_UNSETTLED = (1.0, 2.0, 4.0, 8.0)  # seconds between looks while a kubelet that began anew may still write
_DOUBT, _DOUBT_MOST = 60.0, 3600.0  # seconds between looks while something is unknown: the first, and the longest
_SOON = 0.1  # seconds between two looks, at least
_UNSETTLED_MOST = 40  # looks at the last of these, about five minutes


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
    plugins: Collection[str] | None = ()
    kubelet_began: float | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """What a look came to. outcome: None if the Node was not asked, or could not be. again_in: seconds until the next.

    held: name -> seconds for which its change is still held back. trouble: what was wrong, for the operator; failed:
    whether the Node is not as it should be for it.
    """

    memory: Memory
    outcome: Outcome | None = None
    again_in: float | None = None
    held: Mapping[str, float] = field(default_factory=dict)
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
    pending: Collection[str] = (),
) -> Look:
    """Brings the Node into line with the readings, unless it is, or has to wait. Raises no NodeError: see trouble.

    pending: names that are not read yet, so that there will be another look for them.
    """
    doubtful = (
        memory.doubtful + 1 if any(isinstance(r, Unknown) for n, r in readings.items() if n not in pending) else 0
    )
    memory = replace(memory, lower_since=_still_lower(readings, memory, pending), doubtful=doubtful)
    terms = _terms(config, memory, here, pending)
    waiting = _waits(readings, memory, terms) if LOCAL.issuperset(reasons) else None
    if waiting is not None:
        since, held, rest = waiting
        again = min([*held.values(), *rest, *_doubt(memory)], default=None)
        return Look(replace(memory, lower_since=since), again_in=again, held=held)
    try:
        node = open_node()
        if config.settings.observe:
            outcome = _observe(node, readings, terms)
        else:
            outcome = apply(node, lambda state: make_plan(readings, state, terms), 0.0, memory.untold)
    except NodeUnreachable as e:
        if isinstance(e, WriteUnanswered):
            memory = replace(memory, untold=e.untold)
        return Look(memory, trouble=str(e), failed=True, retry_after=e.retry_after)
    except (NodeDenied, NodeMissing, NodeError) as e:
        return Look(memory, trouble=str(e), failed=True)
    tells = config.settings.condition and not config.settings.observe
    after = _remember(memory, readings, outcome, here, pending, tells)
    held = {name: max(_SOON, until - here.uptime) for name, until in outcome.plan.held.items()}
    rest = [max(_SOON, terms.not_before[REST] - here.uptime)] if after.delayed else []
    unsettled = [_UNSETTLED[min(after.unsettled, len(_UNSETTLED)) - 1]] if after.unsettled else []
    return Look(after, outcome, min([*unsettled, *held.values(), *rest, *_doubt(after)], default=None), held)


def _doubt(memory: Memory) -> list[float]:
    """Seconds until what is unknown is tried again, if anything is: no event may tell that it can be read by now.

    At boot, say, which interface is the system's can't be told before there is a default route.
    """
    return [min(_DOUBT * 2.0 ** min(memory.doubtful - 1, 10), _DOUBT_MOST)] if memory.doubtful else []


def digest(reading: Reading) -> str:
    """What a reading amounts to, as far as the Node is concerned."""
    if isinstance(reading, Quantity):
        return str(reading.value)
    return "absent" if isinstance(reading, Absent) else "unknown"


def _terms(config: Config, memory: Memory, here: Circumstances, pending: Collection[str]) -> Terms:
    settings = config.settings
    booting = here.uptime < BOOTING
    return Terms(
        adopt=frozenset(r.name for r in config.resources if r.adopt),
        plugins=here.plugins,
        pending=pending,
        complete=config.complete,
        now=here.now,
        condition=settings.condition,
        uptime=here.uptime,
        lower_after=max(settings.lower_after, settings.lower_after_boot) if booting else settings.lower_after,
        lower_since=memory.lower_since,
        not_before=not_before(memory.written),
        undo_not_before=undo_not_before(memory.undone),
        published=memory.published,
        kubelet_anew=bool(memory.unsettled) or here.kubelet_began != memory.kubelet,
    )


def _waits(
    readings: Mapping[str, Reading], memory: Memory, terms: Terms
) -> tuple[Mapping[str, float], Mapping[str, float], list[float]] | None:
    """If the Node need not be asked now: since when each name is lower, and seconds until it may be written.

    And seconds until what is no quantity may be. None: ask now.
    """
    if memory.seen is None or memory.unsettled:
        return None
    since = dict(terms.lower_since)  # with what is only observed, which stays lower since when it is
    held: dict[str, float] = {}
    rest = max(0.0, terms.not_before.get(REST, 0.0) - terms.uptime)
    if memory.delayed and not rest:
        return None
    tells = memory.delayed
    for name in memory.seen.keys() | readings.keys():
        reading = readings.get(name)
        if name in terms.pending or (reading is not None and memory.seen.get(name) == digest(reading)):
            continue
        if rest and name in memory.seen and _only_told(reading, memory.published.get(name)):
            tells = True
            continue
        until = terms.not_before.get(name, 0.0)
        if name not in memory.seen:
            until = max(until, terms.undo_not_before.get(name, 0.0))
        if _lower(reading, memory.published.get(name)):
            since[name] = terms.lower_since.get(name, terms.uptime)
            until = max(until, since[name] + terms.lower_after)
        if until <= terms.uptime:
            return None
        held[name] = until - terms.uptime
    return since, held, [rest] if tells else []


def _only_told(reading: Reading | None, published: int | None) -> bool:
    """Whether the Node's quantity stays as it is, so that there is at most something to tell."""
    return isinstance(reading, Unknown) or (isinstance(reading, Quantity) and reading.value == published)


def _still_lower(readings: Mapping[str, Reading], memory: Memory, pending: Collection[str]) -> dict[str, float]:
    """Since when each name is lower, without those that came back: they begin anew, even if this look fails."""
    return {
        name: at
        for name, at in memory.lower_since.items()
        if name in pending or name not in memory.published or _lower(readings.get(name), memory.published[name])
    }


def _lower(reading: Reading | None, published: int | None) -> bool:
    if published is None or isinstance(reading, Unknown):
        return False
    return not isinstance(reading, Quantity) or reading.value < published


def _observe(node: Node, readings: Mapping[str, Reading], terms: Terms) -> Outcome:
    state = node.read()
    plan = make_plan(readings, state, terms)
    # Nothing is written, so our record stays as it is, and what is lower stays so since when it is.
    undone = {c.name for c in plan.changes if c.action in ("set", "remove")}
    since = {name: at for name, at in terms.lower_since.items() if name in undone} | dict(plan.lower_since)
    return Outcome(replace(plan, published=read_record(state.annotation), lower_since=since), False, state)


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


def _remember(
    memory: Memory,
    readings: Mapping[str, Reading],
    outcome: Outcome,
    here: Circumstances,
    pending: Collection[str],
    tells: bool,
) -> Memory:
    """tells: whether the Node's condition is kept."""
    plan = outcome.plan
    written, undone = spent(plan, outcome.applied, here.uptime, memory.written, memory.undone)
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
    since = {name: at for name, at in memory.lower_since.items() if name in pending} | dict(plan.lower_since)
    unsettled = _unsettled(memory, outcome.state, here)
    return Memory(
        seen, plan.published, since, written, undone, here.kubelet_began, unsettled, memory.doubtful, plan.delayed
    )


def _is_so(seen: str, recorded: int | None, stored: str | None, told: bool) -> bool:
    if seen == "unknown":
        return told  # it has been left as it was, or restored, already
    if recorded is None:
        return seen == "absent" and stored is None
    return seen == str(recorded) and stored is not None and same_quantity(stored, recorded)
