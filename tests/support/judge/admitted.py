"""What is admitted: each is a sentence of docs/explanation.md, with a function that says how long it excuses a breach.

Nothing else is excused. The function returns seconds. 0: it excuses nothing; infinity: for as long as the breach lasts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from tests.support.judge import node_view as view
from tests.support.judge.ghosts import Ghosts
from tests.support.judge.observations import Trouble
from tests.support.judge.promises import MINUTE, REACTION, WRITES, Breach, pace

ANSWERED = 90.0
"""Seconds after a change by another capacityd during which the condition is Overwritten."""
NOTICED = 75.0
"""Seconds until a watch that died without a sign is noticed."""
POLLED = 300.0
"""Seconds between two passes that look at a Node that can't be watched."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """An excuse."""

    sentence: str
    """As it stands on the page."""
    promises: tuple[str, ...]
    """The names of the promises whose breaches it may excuse."""
    excuses: Callable[[Ghosts, Breach], float]

    @property
    def name(self) -> str:
        return self.excuses.__name__


_TRUE = ("true_only_while_right", "true_when_written")
_TIME = ("true_only_while_right", "right_in_time")
_OWNER = ("untouched", "right_in_time", "true_only_while_right", "true_when_written")


def a_limit_holds_a_change_back(ghosts: Ghosts, breach: Breach) -> float:
    times = ghosts.passes_with_write[1 - WRITES :]
    is_often = len(times) == WRITES - 1 and times[-1] - times[0] < WRITES * MINUTE
    return MINUTE if is_often and ghosts.at - times[-1] < MINUTE + REACTION else 0.0


def many_events_wait(ghosts: Ghosts, breach: Breach) -> float:
    before, since = ([at for at in ghosts.passes if (at > breach.since) == is_since] for is_since in (False, True))
    times = before[-WRITES:]
    is_often = len(times) == WRITES and breach.since - times[0] < WRITES * MINUTE
    return MINUTE if is_often and (not since or ghosts.at - since[0] < REACTION) else 0.0


def the_node_is_out_of_reach(ghosts: Ghosts, breach: Breach) -> float:
    if Trouble.API in ghosts.troubles or Trouble.STOPPED in ghosts.troubles:
        return inf
    ended = [ghosts.ended[trouble] for trouble in (Trouble.API, Trouble.STOPPED) if trouble in ghosts.ended]
    until = [span.ended + pace(span.ended - span.began) + REACTION for span in ended]
    return max([0.0, *(at - breach.since for at in until)])


def the_node_is_not_watched(ghosts: Ghosts, breach: Breach) -> float:
    return POLLED if ghosts.was(Trouble.WATCH, ghosts.at - breach.since) else 0.0


def the_watch_is_dead(ghosts: Ghosts, breach: Breach) -> float:
    return NOTICED if ghosts.was(Trouble.DEAD_WATCH, ghosts.at - breach.since) else 0.0


def no_event_reports_a_change(ghosts: Ghosts, breach: Breach) -> float:
    span = ghosts.troubles.get(Trouble.SOURCES)
    if span and span.concerns(breach.entry):
        return inf
    resource = view.resource_of(breach.entry)
    noticed = [at for entry, at in ghosts.noticed.items() if resource in ("", entry)]
    return max([0.0, *(at - breach.since for at in noticed)])


def another_capacityd_writes(ghosts: Ghosts, breach: Breach) -> float:
    return ANSWERED if ghosts.was(Trouble.OTHER_CAPACITYD, ghosts.at - breach.since + ANSWERED) else 0.0


def others_keep_overwriting(ghosts: Ghosts, breach: Breach) -> float:
    often = sum(breach.since - at < WRITES * MINUTE for at in ghosts.overwritten) >= 3
    return ANSWERED if often and breach.fault is None else 0.0


def the_annotation_is_lost_with_the_memory(ghosts: Ghosts, breach: Breach) -> float:
    return inf if breach.entry in ghosts.orphaned else 0.0


def the_annotation_is_believed(ghosts: Ghosts, breach: Breach) -> float:
    return inf if breach.entry in ghosts.believed else 0.0


def anothers_number_equals_ours(ghosts: Ghosts, breach: Breach) -> float:
    return inf if "of another writer from" in breach.detail else 0.0


ADMITTED = (
    Admitted(
        "The limit on writes can delay a change by a minute, and the condition can stay True meanwhile.",
        (*_TRUE, "right_in_time"),
        a_limit_holds_a_change_back,
    ),
    Admitted(
        "After six passes in a row for one kind of event, the next event of this kind can wait for a minute, and the "
        "condition stays True meanwhile.",
        _TIME,
        many_events_wait,
    ),
    Admitted(
        "While the service is stopped, or cannot read or write the Node, the condition stays as it is.",
        ("true_only_while_right",),
        the_node_is_out_of_reach,
    ),
    Admitted(
        "If capacityd cannot watch the Node, it finds a change of the Node within five minutes.",
        _TIME,
        the_node_is_not_watched,
    ),
    Admitted(
        "If the watch of the Node breaks without an error, capacityd finds a change of the Node within 75 s.",
        _TIME,
        the_watch_is_dead,
    ),
    Admitted(
        "If no event reports a change of the machine, the next pass finds the change.",
        _TIME,
        no_event_reports_a_change,
    ),
    Admitted(
        "While two instances of capacityd write to one Node, and for 90 s afterwards, the condition can stay True.",
        (*_TRUE, "right_in_time"),
        another_capacityd_writes,
    ),
    Admitted(
        "If others overwrite capacityd's values three times within six minutes, the condition stays False for 90 s.",
        ("right_in_time",),
        others_keep_overwriting,
    ),
    Admitted(
        "If the annotation and the service's memory have both lost a key, the key is no longer capacityd's.",
        _OWNER,
        the_annotation_is_lost_with_the_memory,
    ),
    Admitted(
        "If another writer adds a key with a number to the annotation, capacityd treats key and number as its own.",
        (*_OWNER, "unknown_keeps", "holds"),
        the_annotation_is_believed,
    ),
    Admitted(
        "If another writer writes the published number to a key, capacityd cannot see that the key is now another "
        "writer's, and can remove the key.",
        ("untouched",),
        anothers_number_equals_ours,
    ),
)
