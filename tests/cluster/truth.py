"""Tells the judge (tests/support/judge) what happened to a real Node: its versions, the machine's changes, faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from capacityd.model.reading import Quantity, Reading, Unknown
from tests.cluster.nodewatch import Version
from tests.support.judge import node_view as view
from tests.support.judge.admitted import ADMITTED, ANSWERED, Admitted
from tests.support.judge.judge import BrokenPromise, Judge
from tests.support.judge.promises import MINUTE, pace
from tests.support.judge.surroundings import Configuration, ConfiguredResource, Trouble, Writer

SLACK = 15.0
"""Seconds for a pass on a busy machine."""
_UNSEEN = {"mount", "inotify"}
"""Faults that no event reports. The comparison of each minute finds them."""
_TROUBLES = {
    "agent": Trouble.OTHER_CAPACITYD,
    "anew": Trouble.API,
    "condition": Trouble.ALTERED,
    "inotify": Trouble.SOURCES,
    "mount": Trouble.SOURCES,
    "nospace": Trouble.API,
    "policy": Trouble.DENIED,
    "webhook": Trouble.DENIED,
}
"""The judge's troubles, by kind of fault. Other faults are changes of the Node or of the machine."""


@dataclass(frozen=True, slots=True)
class Change:
    """Quantities that have changed on the machine at a time."""

    at: float
    """Seconds since the epoch."""
    quantities: Mapping[str, int | None]
    """The quantities by resource. None: unknown."""


@dataclass(frozen=True, slots=True)
class Span:
    """A fault, with the times in seconds at which it begins and ends."""

    kind: str
    begin: float
    end: float


_BUSY = Admitted(excuses=lambda memory, breach: SLACK, promises=("true_only_while_right", "right_in_time"))
"""Allows passes to be late on a busy machine."""


Step = tuple[float, Callable[..., None], tuple[object, ...]]
"""A time in seconds since the epoch, and a method of Judge with its further arguments, which tells what happened."""


def broken_promise(
    versions: Sequence[Version], changes: Sequence[Change], spans: Sequence[Span], end: float
) -> BrokenPromise | None:
    """The first broken promise, or None. end: until when to judge, in seconds since the epoch.

    In the first version, the Node already has the machine's numbers.
    """
    steps: list[Step] = [*_versions(versions), *_changes(changes), *_spans(spans)]
    steps += [(float(second), Judge.time_passes, ()) for second in range(int(versions[0].received), int(end) + 1)]
    steps.sort(key=lambda step: step[0])
    names = {name for change in changes for name in change.quantities}
    judge = Judge((*ADMITTED, _BUSY))
    begin, *_ = steps[0]
    try:
        judge.configuration_becomes(
            begin, Configuration({name: ConfiguredResource() for name in names}, lower_after=10.0)
        )
        for at, tell, arguments in steps:
            tell(judge, at, *arguments)
    except BrokenPromise as broken:
        return broken
    return None


def _versions(versions: Sequence[Version]) -> Iterator[Step]:
    """Each version with its writer. Every write of capacityd changes the annotation, or renews the heartbeat."""
    last: Version | None = None
    for version in versions:
        by = Writer.CAPACITYD if last is None or _is_by_capacityd(last, version) else Writer.OTHER
        node = None if version.type == "DELETED" else version.node
        yield version.received, Judge.node_becomes, (node, by)
        last = version


def _is_by_capacityd(last: Version, version: Version) -> bool:
    return last.condition != version.condition or last.published != version.published


def _changes(changes: Iterable[Change]) -> Iterator[Step]:
    readings: dict[str, Reading] = {}
    for change in sorted(changes, key=lambda change: change.at):
        for name, number in change.quantities.items():
            readings[name] = Unknown("too old") if number is None else Quantity(number)
        yield change.at, Judge.readings_become, (dict(readings),)


def _spans(spans: Iterable[Span]) -> Iterator[Step]:
    known = [span for span in spans if span.kind in _TROUBLES]
    for span in known:
        trouble = _TROUBLES[span.kind]
        # If two faults overlap that are the same trouble for the judge, the later end counts.
        end = max(other.end for other in known if _TROUBLES[other.kind] is trouble and other.begin <= span.end)
        yield span.begin - 1.0, Judge.trouble_begins, (trouble,)
        until_seen = MINUTE if span.kind in _UNSEEN else 0.0
        yield end + until_seen, Judge.trouble_ends, (trouble,)


def is_right(version: Version, expected: Mapping[str, int | None]) -> bool:
    """Whether the condition is True, and the expected quantities are published and allocatable."""
    if version.condition.get("status") != "True":
        return False
    places = view.published(version.node), view.stored(version.node), view.allocatable(version.node)
    for name, quantity in expected.items():
        if quantity is None or any(str(place.get(name)) != str(quantity) for place in places):
            return False
    return True


def quantities(changes: Iterable[Change]) -> dict[str, int | None]:
    """The machine's quantities after these changes."""
    merged: dict[str, int | None] = {}
    for change in sorted(changes, key=lambda change: change.at):
        merged |= change.quantities
    return merged


def right_within(spans: Sequence[Span]) -> float:
    """The seconds after the end of all faults within which the Node must be right."""
    if not spans:
        return SLACK
    begin, end = min(span.begin for span in spans), max(span.end for span in spans)
    had_two_agents = any(span.kind == "agent" for span in spans)
    return pace(end - begin) + (ANSWERED if had_two_agents else 0.0) + SLACK
