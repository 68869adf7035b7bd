"""The promises, each as a function that yields its breaches. Its docstring is a sentence of docs/explanation.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from capacityd.model.quantity import name_problem
from capacityd.model.reading import Unknown
from tests.support.judge import node_view as view
from tests.support.judge.faults import Fault, FaultKind, faults, may_fall
from tests.support.judge.memory import Memory, changed
from tests.support.judge.surroundings import Document, Trouble, Writer

REACTION = 12.5
"""Seconds until a change is answered: a pass waits up to ten seconds for more events, and takes a second or two."""
MINUTE, SHARE, LONGEST = 60.0, 0.1, 600.0
"""A fault is repaired within a minute, or within this share of its duration (at most LONGEST seconds)."""
WRITES = 6
"""How often the Node may be written in quick succession. After that, it is written once a minute."""
HINDERS = frozenset({*Trouble}) - {Trouble.DEAD_WATCH, Trouble.SOURCES, Trouble.UNREADABLE, Trouble.WATCH}
"""While one of these troubles lasts, capacityd need not repair the entries that it concerns."""
QUIET = 700.0
"""Seconds after which nothing of an earlier change is left to be done."""
SHORTEST_REPAIR = 9.5
"""Seconds for which a repair must last to count: a little less than the ten seconds between a kubelet's reports."""
ROUNDING = 0.05  # seconds
LEAST_RESYNC = 0.8
"""The share of the resync period after which a heartbeat may come: the pauses between heartbeats are random."""


def pace(wrong_for: float) -> float:
    """Seconds within which a fault must be repaired that existed for this number of seconds."""
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


def untouched(memory: Memory, before: Document, after: Document) -> Iterator[Breach]:
    """Without `adopt`, capacityd does not change, remove or take over what belongs to others on the Node."""
    if view.rest(before) != view.rest(after):
        yield _act(memory, "", "it has changed something else of the Node")
    if len(view.conditions(after)) > max(1, len(view.conditions(before))):
        yield _act(memory, "", "it has added a second condition")
    old, new = view.stored(before), view.stored(after)
    allocatable = view.allocatable(before), view.allocatable(after)
    for name in sorted(changed(old, new) | changed(*allocatable)):
        exists = name in old
        if memory.is_of_plugin(name) or name_problem(view.resource_of(name)):
            yield _act(memory, name, f"it has written {name}")
        elif exists and not memory.may_write(name):
            yield _act(memory, name, f"it has changed {name}, which is not its own")
        elif not exists and not memory.is_configured(name) and name not in memory.ours:
            yield _act(memory, name, f"it has created {name}, which nothing configures")
        elif name in old and name not in new:
            yield from _removes(memory, name, old[name])
    for name in sorted(view.published(after).keys() - view.published(before).keys() - memory.ours):
        if name in old and not memory.may_write(name):
            yield _act(memory, name, f"it has taken over {name}")


def _removes(memory: Memory, name: str, text: str) -> Iterator[Breach]:
    number = view.number(name, text)
    is_own = number == memory.published.get(name) or (number == 0 and not view.is_label(name))
    by_another = memory.written_by.get(name, Writer.CAPACITYD) is not Writer.CAPACITYD
    if not is_own:
        yield _act(memory, name, f"it has removed {name}, which another writer has set to {text}")
    elif by_another and number != 0:
        yield _act(memory, name, f"it has removed the {text} of another writer from {name}")


def seen(memory: Memory, before: Document, after: Document) -> Iterator[Breach]:
    """A pass never overwrites a value that the pass has not read."""
    for numbers_of in (view.stored, view.allocatable):
        old = numbers_of(before)
        for name in sorted(changed(old, numbers_of(after))):
            seen_texts = [numbers_of(node).get(name) for node in memory.seen_nodes]
            if old.get(name) not in seen_texts:
                yield _act(memory, name, f"it has overwritten {name}, which it saw as {seen_texts}")
    if view.annotation(before) not in (view.annotation(after), *map(view.annotation, memory.seen_nodes)):
        yield _act(memory, "", "it has overwritten an annotation that it has not seen")


def unknown_keeps(memory: Memory, before: Document, after: Document) -> Iterator[Breach]:
    """While a resource is unknown, capacityd neither lowers nor removes its number."""
    old, new = view.stored(before), view.stored(after)
    for name in sorted(changed(old, new)):
        resource = view.resource_of(name)
        if not isinstance(memory.reading(resource, memory.pass_readings), Unknown) or memory.is_of_plugin(resource):
            continue
        now = view.number(name, new.get(name))
        is_restored = now is not None and now == memory.published.get(name, now)
        if not is_restored:
            yield _act(memory, name, f"{name} is unknown, and {old.get(name)} has become {new.get(name)}")


def holds(memory: Memory, before: Document, after: Document) -> Iterator[Breach]:
    """The service lowers or removes a resource's number only after `lower_after` has passed."""
    old, new = view.stored(before), view.stored(after)
    for name in sorted(changed(old, new) & memory.published.keys()):
        if view.is_label(name) or name not in old or name not in memory.ours:
            continue
        was, now, published = view.number(name, old[name]), view.number(name, new.get(name)), memory.published[name]
        if _is_fall(was, now, published) and not may_fall(memory, name):
            since = memory.lower_since.get(name, memory.at)
            yield _act(memory, name, f"{name} has fallen to {now} after {memory.at - since:.1f} s")


def _is_fall(was: int | None, now: int | None, published: int) -> bool:
    """Whether a stored number has become smaller, and is smaller than the published one. None: no number is stored."""
    if now is None:
        return was != 0
    return now < published and (was is None or now < was)


def true_when_written(memory: Memory, before: Document, after: Document) -> Iterator[Breach]:
    """A patch sets the condition to True only if no fault remains after the patch. A reduction that waits for
    `lower_after` does not count as a fault."""
    if not view.is_true(after):
        return
    for fault in sorted(faults(memory.after(before, after), after, memory.pass_readings), key=str):
        if fault.kind is not FaultKind.LOWER:  # true_only_while_right() knows for how long a reduction may be held
            yield Breach(fault, fault.entry, f"it has written True beside {fault}", memory.at)


def observes(memory: Memory) -> Iterator[Breach]:
    """With `observe = true`, only the command `withdraw` writes to the Node."""
    if memory.configuration.observe:
        yield _act(memory, "", "it writes in observe mode")


def few_writes(memory: Memory) -> Iterator[Breach]:
    """After six writes within six minutes, capacityd writes to the Node at most once a minute."""
    times = memory.passes_with_write
    if not times or times[-1] != memory.at:
        return
    for index, since in enumerate(times):
        writes, minutes = len(times) - index, (memory.at - since + ROUNDING) / MINUTE
        if writes > WRITES + minutes:
            yield _act(memory, "", f"the Node was written too often: {times[index:]}")
            break


def quiet(memory: Memory) -> Iterator[Breach]:
    """While there is no fault and nothing changes, capacityd sends only its heartbeat."""
    since = max([memory.changed_at, memory.heard_at, *(span.ended for span in memory.spans(""))])
    is_quiet = not memory.troubles and view.is_true(memory.node) and memory.at - since >= QUIET
    if not is_quiet or len(memory.requests) < 2:
        return
    last = memory.requests[-2]
    least_pause = LEAST_RESYNC * memory.configuration.resync - 1.0  # 1 s: a pass takes some time
    if last > since + QUIET and memory.at - last < least_pause:
        yield _act(memory, "", f"it sends a request {memory.at - last:.0f} s after the last one")


def true_only_while_right(memory: Memory, true_since: dict[Fault, float]) -> Iterator[Breach]:
    """The condition is True only while the configuration, the readings and the Node have no fault."""
    for fault, since in sorted(true_since.items(), key=str):
        lasts = REACTION + (memory.lower_after(since) if fault.kind is FaultKind.LOWER else 0.0)
        yield Breach(fault, fault.entry, f"True beside {fault}", since, lasts)


def right_in_time(memory: Memory, wrong_since: dict[Fault | None, float]) -> Iterator[Breach]:
    """Once the cause of a fault is gone, capacityd repairs the fault within a tenth of the fault's duration, but a
    minute at least. A reduction also waits for `lower_after`."""
    for fault, since in sorted(wrong_since.items(), key=str):
        entry = fault.entry if fault else ""
        hinders = [span for trouble, span in memory.troubles.items() if trouble in HINDERS]
        if any(span.concerns(entry) for span in hinders):
            continue
        spans = memory.spans(entry)
        calm = max([memory.changed_at, since, *(span.ended for span in spans)])  # since then, nothing hinders a repair
        began = min([since, *(span.began for span in spans if span.ended >= since - LONGEST - MINUTE)])
        lasts = pace(calm - began) + REACTION + memory.lower_after(calm)
        detail = f"{fault} is not repaired" if fault else "all is right, and the condition is not True"
        yield Breach(fault, entry, detail, calm, lasts)


def secret(memory: Memory, text: str, secrets: frozenset[str]) -> Iterator[Breach]:
    """Except for numbers, capacityd shows what a file, a program or a server contains only to people who could also
    read it there."""
    for hidden in sorted(secrets):
        if hidden in text:
            yield _act(memory, "", f"it shows {hidden} to all users")


def _act(memory: Memory, entry: str, detail: str) -> Breach:
    """A breach by an act of capacityd."""
    return Breach(None, entry, detail, memory.at)
