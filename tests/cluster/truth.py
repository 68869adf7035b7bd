"""Judges the versions of a Node by time: for how long its condition was True beside a wrong number. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from capacityd.model.quantity import whole_quantity
from tests.cluster.nodewatch import Version
from tests.support.judge.admitted import ANSWERED
from tests.support.judge.promises import MINUTE, WRITES, pace

SLACK = 15.0
"""Seconds for a pass on a busy machine, beside the limits of docs/explanation.md."""

OUTAGES = {"certificate", "role", "nospace", "anew"}
"""Faults during which the Node cannot be written. After them, the pace of repairs counts."""

UNSEEN = {"mount", "inotify"}
"""Faults that no event reports: the comparison of each minute finds them."""


@dataclass(frozen=True, slots=True)
class Change:
    """What has changed on the machine at a time."""

    at: float
    """Seconds since the epoch."""
    quantities: Mapping[str, int | None]
    """Name -> quantity; None: unknown."""


@dataclass(frozen=True, slots=True)
class Span:
    """A fault, and when it began and ended, in seconds since the epoch."""

    kind: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Lie:
    """The condition was True beside a wrong quantity."""

    name: str
    since: float
    until: float

    @property
    def lasted(self) -> float:
        return self.until - self.since


def lies(versions: Sequence[Version], changes: Sequence[Change], end: float) -> list[Lie]:
    """All lies until the end, in seconds since the epoch, however short."""
    found: list[Lie] = []
    since: dict[str, float] = {}
    version: Version | None = None
    wanted: dict[str, int | None] = {}
    moments: list[Version | Change] = [*versions, *changes]
    for what in sorted(moments, key=_at):
        at = _at(what)
        if isinstance(what, Change):
            wanted |= what.quantities
        else:
            version = None if what.type == "DELETED" else what
        wrong = wrong_names(version, wanted) if version and version.condition.get("status") == "True" else set()
        found += [Lie(name, since.pop(name), at) for name in {*since} - wrong]
        since |= {name: at for name in wrong if name not in since}
    return found + [Lie(name, at, end) for name, at in since.items()]


def _at(what: Version | Change) -> float:
    return what.at if isinstance(what, Change) else what.received


def quantities(changes: Iterable[Change]) -> dict[str, int | None]:
    """What the machine has after these changes."""
    merged: dict[str, int | None] = {}
    for change in sorted(changes, key=_at):
        merged |= change.quantities
    return merged


def wrong_names(version: Version, wanted: Mapping[str, int | None]) -> set[str]:
    """The resources whose number in the annotation, in capacity or in allocatable is not that of the machine."""
    annotated, stored = version.published, version.node["status"].get("capacity", {})
    return {
        name
        for name, quantity in wanted.items()
        if quantity is None
        or annotated.get(name) != quantity
        or any(whole_quantity(of.get(name, "")) != quantity for of in (stored, version.allocatable))
    }


def is_right(version: Version, wanted: Mapping[str, int | None]) -> bool:
    """Whether the condition is True, and so is what it says."""
    return version.condition.get("status") == "True" and not wrong_names(version, wanted)


def is_refused(version: Version) -> bool:
    """Whether the condition says that the service leaves somebody's numbers as they are."""
    condition = version.condition
    return (condition.get("status"), condition.get("reason")) == ("False", "Refused")


def belongs_to_another(versions: Sequence[Version], changes: Iterable[Change]) -> bool:
    """Whether another agent was the first to publish on the present Node, for example while this machine's certificate
    was not valid."""
    if not versions:
        return False
    uid = versions[-1].node["metadata"]["uid"]
    of_node = (version.published for version in versions if version.node["metadata"]["uid"] == uid)
    first: Mapping[str, int] = next(filter(None, of_node), {})
    of_machine = {entry for change in changes for entry in change.quantities.items()}
    return not first.items() <= of_machine


def allowed(lie: Lie, spans: Iterable[Span], writes: Sequence[float]) -> float:
    """For how many seconds this lie may last. writes: when the service changed this quantity."""
    seconds = SLACK
    if sum(0 <= lie.since - at < WRITES * MINUTE for at in writes) >= WRITES - 1:
        seconds += MINUTE
    effects = [SLACK]
    for span in spans:
        lasted = span.end - span.begin
        if span.kind in OUTAGES and span.begin <= lie.until and lie.since <= span.end + pace(lasted):
            effects.append(span.end + pace(lasted) - lie.since + SLACK)
        if span.kind in UNSEEN and span.begin - 1 <= lie.since <= span.end + MINUTE:
            effects.append(MINUTE + SLACK)
        if span.kind == "agent" and span.begin <= lie.until and lie.since <= span.end + ANSWERED:
            effects.append(max(span.end, lie.since) + ANSWERED - lie.since + SLACK)
    return seconds - SLACK + max(effects)


def right_within(spans: Sequence[Span]) -> float:
    """Within how many seconds the Node must be right after the end of all faults.

    After an outage, an agent that wrote meanwhile is noticed first, and counts as gone only after that.
    """
    if not spans:
        return SLACK
    end = max(span.end for span in spans)
    promised = pace(end - min(span.begin for span in spans))
    kinds = {span.kind for span in spans}
    if "agent" in kinds:
        promised = promised + ANSWERED if kinds & OUTAGES else max(promised, ANSWERED)
    return promised + SLACK
