"""The promises, each as a function that yields its breaches. Its docstring is a sentence of docs/explanation.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from capacityd.model.quantity import name_problem
from capacityd.model.reading import Unknown
from tests.support.judge import node_view as view
from tests.support.judge.faults import Fault, What, faults, may_fall
from tests.support.judge.ghosts import Ghosts, changed
from tests.support.judge.observations import Asks, Document, Trouble, Writer

REACTION = 12.5
"""Seconds until a change is answered: a pass waits up to ten seconds for more events, and takes a second or two."""
MINUTE, SHARE, LONGEST = 60.0, 0.1, 600.0
"""What is wrong is right within a minute, or within this share of the time that it was wrong (LONGEST at most)."""
WRITES = 6
"""How often the Node is written in a row, before it is written once a minute."""
HINDERS = frozenset({*Trouble}) - {
    Trouble.DEAD_WATCH,
    Trouble.SOURCES,
    Trouble.UNREADABLE,
    Trouble.WATCH,
}
"""The troubles during which nothing need be repaired of what they are about."""
QUIET = 700.0
"""Seconds after which nothing of an earlier change is left to be done."""
LASTS = 9.5
"""Seconds for which a repair must last at least: a kubelet reports every ten seconds."""
ROUNDING = 0.05  # seconds


def pace(wrong_for: float) -> float:
    """Seconds within which something is right that was wrong for this number of seconds."""
    return max(MINUTE, min(SHARE * wrong_for, LONGEST))


@dataclass(frozen=True, slots=True)
class Breach:
    """A promise that may be broken. What is admitted may excuse it."""

    fault: Fault | None
    """What is wrong with the Node; None: the breach is an act of capacityd."""
    entry: str
    """The entry that the breach is about; "": none."""
    detail: str
    since: float
    """When it began, in seconds."""
    lasts: float = 0.0
    """For how many seconds it may last without an excuse."""


def untouched(ghosts: Ghosts, before: Document, after: Document) -> Iterator[Breach]:
    """Without `adopt`, capacityd does not change, remove or take over what others have written on the Node."""
    if view.rest(before) != view.rest(after):
        yield _act(ghosts, "", "it has changed something else of the Node")
    if len(view.conditions(after)) > max(1, len(view.conditions(before))):
        yield _act(ghosts, "", "it has added a second condition")
    old, new = view.stored(before), view.stored(after)
    parts = view.allocatable(before), view.allocatable(after)
    for name in sorted(changed(old, new) | changed(*parts)):
        exists = name in old
        if ghosts.is_plugins(name) or name_problem(view.resource_of(name)):
            yield _act(ghosts, name, f"it has written {name}")
        elif exists and not ghosts.may_write(name):
            yield _act(ghosts, name, f"it has changed {name}, which is not its own")
        elif not exists and ghosts.wanted(name) is None and name not in ghosts.ours:
            yield _act(ghosts, name, f"it has created {name}, which nothing configures")
        elif name in old and name not in new:
            yield from _removes(ghosts, name, old[name])
    for name in sorted(view.published(after).keys() - view.published(before).keys() - ghosts.ours):
        if name in old and not ghosts.may_write(name):
            yield _act(ghosts, name, f"it has taken over {name}")


def _removes(ghosts: Ghosts, name: str, text: str) -> Iterator[Breach]:
    number = view.number(name, text)
    is_own = number == ghosts.published.get(name) or (number == 0 and not view.is_label(name))
    by_another = ghosts.written_by.get(name, Writer.CAPACITYD) is not Writer.CAPACITYD
    if not is_own:
        yield _act(ghosts, name, f"it has removed {name}, which another writer has set to {text}")
    elif by_another and number != 0:
        yield _act(ghosts, name, f"it has removed the {text} of another writer from {name}")


def seen(ghosts: Ghosts, before: Document, after: Document) -> Iterator[Breach]:
    """capacityd overwrites only values that it has seen."""
    for of in (view.stored, view.allocatable):
        found = of(before)
        for name in sorted(changed(found, of(after))):
            known = [of(node).get(name) for node in ghosts.seen]
            if found.get(name) not in known:
                yield _act(ghosts, name, f"it has overwritten {name}, which it saw as {known}")
    if view.annotation(before) not in (view.annotation(after), *map(view.annotation, ghosts.seen)):
        yield _act(ghosts, "", "it has overwritten an annotation that it has not seen")


def unknown_keeps(ghosts: Ghosts, before: Document, after: Document) -> Iterator[Breach]:
    """While a resource is unknown, capacityd neither lowers nor removes its number."""
    old, new = view.stored(before), view.stored(after)
    for name in sorted(changed(old, new)):
        resource = view.resource_of(name)
        if not isinstance(ghosts.reading(resource, ghosts.given), Unknown) or ghosts.is_plugins(resource):
            continue
        now = view.number(name, new.get(name))
        is_restored = now is not None and now == ghosts.published.get(name, now)
        if not is_restored:
            yield _act(ghosts, name, f"{name} is unknown, and {old.get(name)} has become {new.get(name)}")


def holds(ghosts: Ghosts, before: Document, after: Document) -> Iterator[Breach]:
    """capacityd lowers or removes a resource's number only after `lower_after` has passed."""
    old, new = view.stored(before), view.stored(after)
    for name in sorted(changed(old, new) & ghosts.published.keys()):
        if view.is_label(name) or name not in old or name not in ghosts.ours:
            continue
        was, now, published = view.number(name, old[name]), view.number(name, new.get(name)), ghosts.published[name]
        is_fall = was != 0 if now is None else now < published and (was is None or now < was)
        if is_fall and not may_fall(ghosts, name):
            since = ghosts.lower_since.get(name, ghosts.at)
            yield _act(ghosts, name, f"{name} has fallen to {now} after {ghosts.at - since:.1f} s")


def true_when_written(ghosts: Ghosts, asks: Asks) -> Iterator[Breach]:
    """A patch sets the condition to True only if no fault remains. A reduction that waits for `lower_after` does not
    count as a fault."""
    if asks.is_part or not view.is_true(asks.after):
        return
    then = ghosts.after(asks)
    for fault in sorted(faults(then, asks.after, ghosts.given), key=str):
        if fault.what is not What.LOWER:  # true_only_while_right() knows for how long a reduction may be held
            yield Breach(fault, fault.entry, f"it has written True beside {fault}", ghosts.at)


def observes(ghosts: Ghosts) -> Iterator[Breach]:
    """With `observe = true`, capacityd writes nothing to the Node, except by the command `withdraw`."""
    if ghosts.configuration.observe:
        yield _act(ghosts, "", "it writes in observe mode")


def few_writes(ghosts: Ghosts) -> Iterator[Breach]:
    """capacityd writes to the Node at most six times in a row, then once a minute."""
    times = ghosts.passes_with_write
    for index, since in enumerate(times):
        if times[-1] == ghosts.at and len(times) - index > WRITES + (ghosts.at - since + ROUNDING) / MINUTE:
            yield _act(ghosts, "", f"the Node was written too often: {times[index:]}")
            break


def quiet(ghosts: Ghosts) -> Iterator[Breach]:
    """While there is no fault and nothing changes, capacityd sends only its heartbeat."""
    since = max([ghosts.changed_at, ghosts.heard_at, *(span.ended for span in ghosts.spans(""))])
    if ghosts.troubles or not view.is_true(ghosts.node) or ghosts.at - since < QUIET or len(ghosts.requests) < 2:
        return
    last = ghosts.requests[-2]
    if last > since + QUIET and ghosts.at - last < 0.8 * ghosts.configuration.resync - 1.0:
        yield _act(ghosts, "", f"it sends a request {ghosts.at - last:.0f} s after the last one")


def true_only_while_right(ghosts: Ghosts, true_since: dict[Fault, float]) -> Iterator[Breach]:
    """The condition is True only while the configuration, the readings and the Node have no fault."""
    for fault, since in sorted(true_since.items(), key=str):
        lasts = REACTION + (ghosts.lower_after(since) if fault.what is What.LOWER else 0.0)
        yield Breach(fault, fault.entry, f"True beside {fault}", since, lasts)


def right_in_time(ghosts: Ghosts, wrong_since: dict[Fault | None, float]) -> Iterator[Breach]:
    """After the cause of a fault has ended, capacityd repairs the fault within a minute or a tenth of the time that the
    fault lasted, whichever is longer."""
    for fault, since in sorted(wrong_since.items(), key=str):
        entry = fault.entry if fault else ""
        hindered = [span for trouble, span in ghosts.troubles.items() if trouble in HINDERS and span.concerns(entry)]
        if hindered:
            continue
        spans = ghosts.spans(entry)
        calm = max([ghosts.changed_at, since, *(span.ended for span in spans)])
        began = min([since, *(span.began for span in spans if span.ended >= since - LONGEST - MINUTE)])
        lasts = pace(calm - began) + REACTION + ghosts.lower_after(calm)
        detail = f"{fault} is not repaired" if fault else "all is right, and the condition is not True"
        yield Breach(fault, entry, detail, calm, lasts)


def secret(ghosts: Ghosts, text: str, secrets: frozenset[str]) -> Iterator[Breach]:
    """capacityd shows the content of a file, the output of a program or the answer of a server only to people who can
    also read it at its source."""
    for hidden in sorted(secrets):
        if hidden in text:
            yield _act(ghosts, "", f"it shows {hidden} to all users")


def _act(ghosts: Ghosts, entry: str, detail: str) -> Breach:
    """A breach by an act of capacityd."""
    return Breach(None, entry, detail, ghosts.at)
