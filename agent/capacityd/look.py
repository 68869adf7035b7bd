"""One look of the service, after the probe: whether the Node has to be asked at all, and what to remember for the next.

Everything but the Node comes in and goes out as values, so that a model can drive it through any history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from capacityd.apply import Outcome, WriteUnanswered, apply
from capacityd.budget import OFTEN, not_before, undo_not_before
from capacityd.capacity import NodeState, Plan
from capacityd.decision import REST, Terms
from capacityd.errors import NodeError, NodeRejected, NodeUnreachable
from capacityd.memory import Circumstances, Memory, digest, is_lower, remember, still_lower
from capacityd.model import Config, Quantity, Reading, Unknown
from capacityd.node import Node
from capacityd.plan import make_plan, read_record
from capacityd.schedule import BOOTING

LOCAL = frozenset({"hardware", "file", "due"})
"""Reasons that say nothing of the Node: if the readings are what was last published, it need not be asked."""

_UNSETTLED = (1.0, 2.0, 4.0, 8.0)  # seconds between looks while a kubelet that began anew may still write
_DOUBT, _DOUBT_MOST = 60.0, 3600.0  # seconds between looks while something is unknown: the first, and the longest
_SOON = 0.1  # seconds between two looks, at least


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
    plugins: Callable[[], Collection[str] | None],
    pending: Collection[str] = (),
    intend: Callable[[Memory], None] = lambda _: None,
) -> Look:
    """Brings the Node into line with the readings, unless it is, or has to wait. Raises no NodeError: see trouble.

    plugins: asks for the names of device plugins, None: not to be known; anew for each plan, because a conflict may
    come of one that registers. pending: names that are not read yet, so that there will be another look for them.
    intend: is given, before the Node is written, what the next look must know if this one is killed on the way.
    """
    doubt = any(isinstance(r, Unknown) for name, r in readings.items() if name not in pending)
    memory = replace(
        memory,
        lower_since=still_lower(readings, memory, pending),
        doubtful=memory.doubtful + 1 if doubt else 0,
    )
    terms = _terms(config, memory, here, pending)
    waiting = _waits(readings, memory, terms) if LOCAL.issuperset(reasons) else None
    if waiting is not None:
        since, held, rest = waiting
        again = min([*held.values(), *rest, *_doubt(memory)], default=None)
        return Look(replace(memory, lower_since=since), again_in=again, held=held)

    def decide(state: NodeState) -> Plan:
        return make_plan(readings, state, replace(terms, plugins=plugins()))

    try:
        node = open_node()
        if config.settings.observe:
            outcome = _observe(node, decide, terms.lower_since)
        else:
            outcome = apply(
                node,
                decide,
                0.0,
                memory.untold,
                lambda untold: intend(replace(memory, untold=untold)),
            )
    except NodeUnreachable as e:
        if isinstance(e, WriteUnanswered):
            memory = replace(memory, untold=e.untold)
        return Look(memory, trouble=str(e), failed=True, retry_after=e.retry_after)
    except NodeError as e:
        # What is not taken now will not be taken in a second, either.
        return Look(memory, trouble=str(e), failed=True, retry_after=OFTEN if isinstance(e, NodeRejected) else None)
    tells = config.settings.condition and not config.settings.observe
    after = remember(memory, readings, outcome, here, pending, tells)
    held = {name: max(_SOON, until - here.uptime) for name, until in outcome.plan.held.items()}
    rest = [max(_SOON, terms.not_before[REST] - here.uptime)] if after.delayed else []
    unsettled = [_UNSETTLED[min(after.unsettled, len(_UNSETTLED)) - 1]] if after.unsettled else []
    return Look(after, outcome, min([*unsettled, *held.values(), *rest, *_doubt(after)], default=None), held)


def _doubt(memory: Memory) -> list[float]:
    """Seconds until what is unknown is tried again, if anything is: no event may tell that it can be read by now.

    At boot, say, which interface is the system's can't be told before there is a default route.
    """
    return [min(_DOUBT * 2.0 ** min(memory.doubtful - 1, 10), _DOUBT_MOST)] if memory.doubtful else []


def _terms(config: Config, memory: Memory, here: Circumstances, pending: Collection[str]) -> Terms:
    settings = config.settings
    booting = here.uptime < BOOTING
    return Terms(
        adopt=frozenset(r.name for r in config.resources if r.adopt),
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
        if is_lower(reading, memory.published.get(name)):
            since[name] = terms.lower_since.get(name, terms.uptime)
            until = max(until, since[name] + terms.lower_after)
        if until <= terms.uptime:
            return None
        held[name] = until - terms.uptime
    return since, held, [rest] if tells else []


def _only_told(reading: Reading | None, published: int | None) -> bool:
    """Whether the Node's quantity stays as it is, so that there is at most something to tell."""
    return isinstance(reading, Unknown) or (isinstance(reading, Quantity) and reading.value == published)


def _observe(node: Node, decide: Callable[[NodeState], Plan], lower_since: Mapping[str, float]) -> Outcome:
    state = node.read()
    plan = decide(state)
    # Nothing is written, so our record stays as it is, and what is lower stays so since when it is.
    undone = {c.name for c in plan.changes if c.action in ("set", "remove")}
    since = {name: at for name, at in lower_since.items() if name in undone} | dict(plan.lower_since)
    return Outcome(replace(plan, published=read_record(state.annotation), lower_since=since), False, state)
