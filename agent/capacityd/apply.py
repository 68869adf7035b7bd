"""Reads the Node, has a plan made, writes it, and begins again when somebody else wrote in between."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from capacityd.capacity import ANNOTATION, Event, NodeState, Plan
from capacityd.errors import NodeConflict, NodeError, NodeRejected, NodeUnreachable
from capacityd.events import events
from capacityd.node import Node
from capacityd.patch import refused_before
from capacityd.plan import read_record
from capacityd.quantity import plain

TRIES = 6
"""How often a plan is made anew because a guard did not hold, before somebody has to look at who keeps writing."""

_LONGEST_PAUSE = 5.0


@dataclass(frozen=True, slots=True)
class Untold:
    """Events of a write that may be carried out and not told, and what the Node says if it was: then they are due.

    uid: of the Node. capacity: of the keys that it changed, None: absent. refused: what the condition newly refuses.
    """

    uid: str
    capacity: Mapping[str, str | None]
    refused: tuple[str, ...]
    events: tuple[Event, ...]

    def carried_out(self, state: NodeState) -> bool:
        """Whether the Node says so."""
        return state.uid == self.uid and not self.altered(state) and refused_before(state).issuperset(self.refused)

    def altered(self, state: NodeState) -> list[str]:
        """What the Node says otherwise, in words. The same quantity may be spelt otherwise."""
        stored = state.capacity or {}
        found = [(name, plain(stored.get(name)), plain(wanted)) for name, wanted in self.capacity.items()]
        return [f"{name} is {says}, not {wanted}" for name, says, wanted in found if says != wanted]


class WriteUnanswered(NodeUnreachable):
    """The patch was sent, and no answer came: it may have been carried out."""

    def __init__(self, cause: NodeUnreachable, untold: Untold) -> None:
        super().__init__(str(cause), cause.retry_after)
        self.untold = untold


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of it. state: the Node afterwards. warnings: what went wrong beside it."""

    plan: Plan
    applied: bool
    state: NodeState
    warnings: tuple[str, ...] = ()


def apply(
    node: Node,
    decide: Callable[[NodeState], Plan],
    patience: float,
    untold: Untold | None = None,
    intend: Callable[[Untold], None] = lambda _: None,
) -> Outcome:
    """Makes and writes a plan. decide: from what the Node says to the plan.

    patience: seconds in which an API server that does not answer, or says "later", is tried again. untold: of the write
    before, if its answer was lost. intend: is given what a write leaves untold if we are killed, before it.
    Raises NodeError, of them WriteUnanswered with what is then untold.
    """
    deadline = time.monotonic() + patience
    conflicts = failures = 0
    while True:
        try:
            return _once(node, decide, untold, intend)
        except NodeConflict as e:
            conflicts += 1
            if conflicts == TRIES:
                raise NodeConflict(
                    f"{e}; tried {TRIES} times, each time somebody else wrote the same in between"
                ) from e
            untold = None  # the Node was read, so it has been told
            time.sleep(random.uniform(0, 0.05 * 2**conflicts))  # noqa: S311  # jitter is no secret
        except NodeUnreachable as e:
            failures += 1
            untold = e.untold if isinstance(e, WriteUnanswered) else untold
            pause = e.retry_after if e.retry_after is not None else random.uniform(0, min(_LONGEST_PAUSE, 2**failures))  # noqa: S311
            if time.monotonic() + pause > deadline:
                raise
            time.sleep(pause)


def _once(
    node: Node, decide: Callable[[NodeState], Plan], untold: Untold | None, intend: Callable[[Untold], None]
) -> Outcome:
    state = node.read()
    warnings = _report(node, untold.events, state) if untold and untold.carried_out(state) else []
    plan = decide(state)
    after = state
    told = tuple(events(plan))
    if plan.patch:
        changed = {c.name: c.new for c in plan.changes if c.action in ("set", "remove")}
        writing = Untold(state.uid, changed, plan.newly_refused, told)
        if told:
            intend(writing)
        try:
            after = node.write(plan.patch)
        except NodeUnreachable as e:
            raise WriteUnanswered(e, writing) from e
        altered = writing.altered(after)
        if read_record(after.annotation) != plan.published:
            altered.append(f"the annotation {ANNOTATION} is another")
        if altered:
            raise NodeRejected(
                f"the API server has taken the write, but the Node then says otherwise: {'; '.join(altered)}. Does an "
                "admission webhook or policy change it?"
            )
    warnings += _report(node, told, after)
    return Outcome(plan, bool(plan.patch), after, tuple(warnings))


def _report(node: Node, told: Iterable[Event], state: NodeState) -> list[str]:
    """Writes Events; what went wrong with it."""
    warnings = []
    for event in told:
        try:
            node.report(event, state)
        except NodeError as e:
            warnings.append(f"the Event could not be written: {e}")
    return warnings
