"""What is admitted: functions that excuse a breach of a promise. Their docstrings are sentences of docs/explanation.md.

Nothing else is excused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf

from tests.support.judge import node_view as view
from tests.support.judge.memory import Memory
from tests.support.judge.promises import MINUTE, REACTION, WRITES, Breach, pace
from tests.support.judge.surroundings import Trouble

ANSWERED = 90.0
"""Seconds after a change by another capacityd during which the condition is Overwritten."""
NOTICED = 75.0
"""Seconds until a watch that died without a sign is noticed."""
POLLED = 300.0
"""Seconds between two passes that look at a Node that can't be watched."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """An excuse."""

    excuses: Callable[[Memory, Breach], float]
    """Returns for how many seconds it excuses a breach. 0: not at all; infinity: for as long as the breach lasts."""
    promises: tuple[str, ...]
    """The names of the promises whose breaches it may excuse."""

    @property
    def name(self) -> str:
        return self.excuses.__name__

    @property
    def sentence(self) -> str:
        """As it stands on the page."""
        return " ".join((self.excuses.__doc__ or "").split())


# Names of promises that several exceptions excuse.
_TRUE = ("true_only_while_right", "true_when_written")
_TIME = ("true_only_while_right", "right_in_time")
_OWNER = ("untouched", "right_in_time", "true_only_while_right", "true_when_written")


def a_limit_holds_a_change_back(memory: Memory, breach: Breach) -> float:
    """The limit on writes can delay a change by a minute. During this minute, the condition can stay True."""
    count = WRITES - 1  # the write after so many others reaches the limit
    times = memory.passes_with_write[-count:]
    is_often = len(times) == count and times[-1] - times[0] < WRITES * MINUTE
    return MINUTE if is_often and memory.at - times[-1] < MINUTE + REACTION else 0.0


def many_events_wait(memory: Memory, breach: Breach) -> float:
    """If events of one kind have started six passes in quick succession, the pass for the next such event can be
    delayed by a minute. During this minute, the condition stays True."""
    before = [at for at in memory.passes if at <= breach.since][-WRITES:]
    after = [at for at in memory.passes if at > breach.since]
    is_often = len(before) == WRITES and breach.since - before[0] < WRITES * MINUTE
    is_waiting = not after or memory.at - after[0] < REACTION
    return MINUTE if is_often and is_waiting else 0.0


def the_node_is_out_of_reach(memory: Memory, breach: Breach) -> float:
    """While the service is stopped, or cannot read or write the Node, the condition does not change."""
    if Trouble.API in memory.troubles or Trouble.STOPPED in memory.troubles:
        return inf
    ended = [memory.ended[trouble] for trouble in (Trouble.API, Trouble.STOPPED) if trouble in memory.ended]
    until = [span.ended + pace(span.ended - span.began) + REACTION for span in ended]
    return _seconds_until(until, breach)


def the_node_is_not_watched(memory: Memory, breach: Breach) -> float:
    """If capacityd cannot watch the Node, it notices a change to the Node within five minutes."""
    return POLLED if memory.is_recent(Trouble.WATCH, within=memory.at - breach.since) else 0.0


def the_watch_is_dead(memory: Memory, breach: Breach) -> float:
    """If the watch on the Node breaks without an error, capacityd notices a change to the Node within 75 s."""
    return NOTICED if memory.is_recent(Trouble.DEAD_WATCH, within=memory.at - breach.since) else 0.0


def no_event_reports_a_change(memory: Memory, breach: Breach) -> float:
    """If the machine changes and no event reports it, the next pass finds the change."""
    span = memory.troubles.get(Trouble.SOURCES)
    if span and span.concerns(breach.entry):
        return inf
    resource = view.resource_of(breach.entry)
    noticed = [at for entry, at in memory.noticed.items() if resource in ("", entry)]
    return _seconds_until(noticed, breach)


def another_capacityd_writes(memory: Memory, breach: Breach) -> float:
    """While two instances of capacityd write to one Node, and for 90 s afterwards, the condition can be True when
    it should be False."""
    if Trouble.OTHER_CAPACITYD in memory.troubles:
        return inf
    if not memory.is_recent(Trouble.OTHER_CAPACITYD, within=memory.at - breach.since + ANSWERED):
        return 0.0
    return ANSWERED + max(0.0, memory.ended[Trouble.OTHER_CAPACITYD].ended - breach.since)


def others_keep_overwriting(memory: Memory, breach: Breach) -> float:
    """If other writers overwrite capacityd's values three times within six minutes, the condition is False until nobody
    has overwritten a value for 90 s."""
    recent = [at for at in memory.overwritten if breach.since - at < WRITES * MINUTE]
    return ANSWERED if len(recent) >= 3 and breach.fault is None else 0.0


def the_annotation_is_lost_with_the_memory(memory: Memory, breach: Breach) -> float:
    """If both the annotation and the service's memory have lost a key, the key no longer belongs to capacityd."""
    return inf if breach.entry in memory.orphaned else 0.0


def the_annotation_is_believed(memory: Memory, breach: Breach) -> float:
    """If another writer adds a key with a number to the annotation, capacityd treats the key and the number as its
    own."""
    return inf if breach.entry in memory.believed else 0.0


def anothers_number_equals_ours(memory: Memory, breach: Breach) -> float:
    """If another writer takes over one of capacityd's keys, and writes the same number, capacityd does not notice and
    can later remove the key."""
    is_removal = "of another writer from" in breach.detail  # a part of a text in promises.untouched()
    return inf if is_removal else 0.0


def _seconds_until(moments: Iterable[float], breach: Breach) -> float:
    """The seconds from the start of a breach until the last of these moments. 0: no moment comes after the start."""
    return max([0.0, *(moment - breach.since for moment in moments)])


ADMITTED = (
    Admitted(a_limit_holds_a_change_back, (*_TRUE, "right_in_time")),
    Admitted(many_events_wait, _TIME),
    Admitted(the_node_is_out_of_reach, ("true_only_while_right",)),
    Admitted(the_node_is_not_watched, _TIME),
    Admitted(the_watch_is_dead, _TIME),
    Admitted(no_event_reports_a_change, _TIME),
    Admitted(another_capacityd_writes, (*_TRUE, "right_in_time")),
    Admitted(others_keep_overwriting, ("right_in_time",)),
    Admitted(the_annotation_is_lost_with_the_memory, _OWNER),
    Admitted(the_annotation_is_believed, (*_OWNER, "unknown_keeps", "holds")),
    Admitted(anothers_number_equals_ours, ("untouched",)),
)
