"""The shortest histories of each kind. In each, a machine publishes, then one cause meets one change of a reading.

A cause is what may keep the change from being published: a denial, another writer, a killed worker. The causes of a
kind take turns, each with the next change. So all histories of a kind together combine every cause with every change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from capacityd.model.reading import Absent, Quantity, Reading
from tests.support.denials import Alters, Denies
from tests.support.model import acts, others
from tests.support.model.acts import Act
from tests.support.model.machine import configuration
from tests.support.model.server import THEIRS, A, B

_Numbers = Mapping[str, int | None]
PAUSE = 70.0
"""Seconds after each act: longer than the limit of one write a minute."""
POINTS = 12
"""The number of points at which a worker that writes can be killed: before and after each request and each file."""


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of the machine's numbers."""

    before: _Numbers
    after: _Numbers
    name: str
    """The resource that changes last."""

    def first_acts(self) -> list[Act]:
        """The changes of the other resources."""
        names = [n for n in self.after if n != self.name and self.before.get(n) != self.after[n]]
        return [acts.change_reading(name, _reading(self.after[name])) for name in names]


_CHANGES = (  # the numbers before and after, and the resource that changes last
    _Change({A: 4}, {A: 4, B: 2}, B),
    _Change({A: 4}, {A: 5}, A),
    _Change({A: 4}, {A: 1, B: 2}, A),
    _Change({A: 4, B: 2}, {A: None, B: 2}, A),
    _Change({}, {A: 4, B: 2}, B),
)

Cause = Callable[[str, Reading], Sequence[Act]]
"""A function that combines a cause with the change of a resource to a reading. It returns the acts of both."""


def _reading(number: int | None) -> Reading:
    return Absent("none") if number is None else Quantity(number)


def _before(*before: Act) -> Cause:
    """These acts come before the change."""
    return lambda name, reading: [*before, acts.change_reading(name, reading)]


def _just_before_patch(act: Act) -> Cause:
    """This act comes just before the PATCH that publishes the change arrives."""
    return lambda name, reading: [others.just_before_a_patch(act, acts.change_reading(name, reading))]


def _denied(denies: Denies, *before: Act) -> Cause:
    return lambda name, reading: [*before, others.deny((denies,), reading)]


def _altered(alters: Alters) -> Cause:
    return lambda name, reading: [others.alter((alters,), name, reading)]


def _killed(point: int) -> Cause:
    """The worker that publishes the change is killed at this point."""
    return lambda name, reading: [acts.kill_worker(point, name, reading)]


def _instead(*these: Act) -> Cause:
    """These acts take the place of the change."""
    return lambda name, reading: these


def _denials(name: str) -> Sequence[Cause]:
    """Denials in every form: a webhook's with any code, a policy's with its three codes, and those without a reason."""
    webhook = (400, 401, 403, 404, 409, 410, 413, 422, 429, 451, 500, 503, 504, 599)
    ways = {"webhook": webhook, "policy": (403, 413, 422), "opaque": (409, 422)}
    return [_denied(Denies(name, code, kind)) for kind, codes in ways.items() for code in codes]


def _server_errors(name: str) -> Sequence[Cause]:
    """Server errors in response to a PATCH only."""
    besides = (others.repeat_watch(), others.annotate(None), others.set_fault(lost_answers=1))
    return [_denied(Denies(name, code, "storage"), other) for code in (500, 502, 503, 504) for other in besides]


def _alterations(name: str) -> Sequence[Cause]:
    values: Mapping[str, Sequence[str | None]] = {
        name: (None, "3", "1k"),
        "annotation": (None, "", "{}", f'{{"{A}":1}}', "garbage"),
        "condition": (None, "altered"),
    }
    return [_altered(Alters(key, value)) for key in values for value in values[key]]


def _before_or_just_before(acts_of_others: Sequence[Act]) -> Sequence[Cause]:
    return [*map(_before, acts_of_others), *map(_just_before_patch, acts_of_others)]


def _other_writers(name: str) -> Sequence[Cause]:
    annotations = ("", "garbage", f'{{"{THEIRS}":8,"{A}":4}}', f'{{"{B}":7}}')
    writes = [others.write(name, value) for value in (None, "0", "7")]
    return _before_or_just_before([*writes, *map(others.annotate, annotations)])


def _lost_annotations(name: str) -> Sequence[Cause]:
    """Lost annotations, each with a value that another writer sets at the same time."""
    texts, values = ("", "garbage"), (None, "0", "7", "1k")
    return _before_or_just_before([others.write_and_annotate(name, value, text) for text in texts for value in values])


def _kills(_: str) -> Sequence[Cause]:
    lost = (others.set_fault(lost_answers=1), others.set_fault(lost_requests=1))
    return [*map(_killed, range(POINTS)), *map(_before, lost)]


def _nodes_created_anew(_: str) -> Sequence[Cause]:
    anew = others.register_node_anew()
    besides = (
        acts.reboot(),
        others.annotate(f'{{"{THEIRS}":8,"{A}":4}}'),
        others.write(A, "4"),  # the quantity that the machine has published to the old Node
        others.write(A, "0"),
        others.set_fault(lost_answers=1),
    )
    alone = _before_or_just_before([anew, others.register_node_anew(A)])
    return [*(_before(anew, other) for other in besides), *alone]


def _values_that_change(_: str) -> Sequence[Cause]:
    """The API server allows quantities up to 4. It denies a larger one, then the machine reads another quantity."""
    denies = others.deny((Denies(A, 403, most=4),), Quantity(6))
    later: Sequence[_Numbers] = ({A: 2}, {A: 4}, {A: 3, B: 2}, {A: None}, {A: 7}, {B: 1}, {A: 5, B: 2})
    changes = [[acts.change_reading(name, _reading(n)) for name, n in numbers.items()] for numbers in later]
    return [_instead(denies, *acts_of_machine) for acts_of_machine in changes]


_CAUSES: Mapping[str, Callable[[str], Sequence[Cause]]] = {
    "denials": _denials,
    "server errors": _server_errors,
    "alterations": _alterations,
    "other writers": _other_writers,
    "lost annotations": _lost_annotations,
    "kills and lost answers": _kills,
    "Nodes created anew": _nodes_created_anew,
    "values that change while denied": _values_that_change,
}
KINDS = tuple(_CAUSES)


def histories(kind: str) -> Sequence[Sequence[tuple[Act, float]]]:
    """All histories of a kind. Each act is followed by a pause in seconds."""
    causes = _CAUSES[kind]
    results = []
    for turn in range(len(_CHANGES)):
        for number in range(len(causes(A))):
            change = _CHANGES[(turn + number) % len(_CHANGES)]
            results.append(_history(change, causes(change.name)[number]))
    return results


def _history(change: _Change, cause: Cause) -> Sequence[tuple[Act, float]]:
    before = [acts.change_reading(name, _reading(change.before.get(name))) for name in (A, B)]
    caused = cause(change.name, _reading(change.after[change.name]))
    together = [*change.first_acts(), *caused[:-1]]
    return [
        (acts.configure(configuration()), PAUSE),
        *zip(before, (0.0, PAUSE), strict=True),  # both at the same time
        *((act, 0.0) for act in together),
        (caused[-1], PAUSE),
        (acts.end_causes(), PAUSE),
    ]
