"""The shortest histories of each kind. In each, a machine publishes, then one cause meets one change of a reading.

A cause is what may keep the change from being published: a denial, another writer, a killed worker. The causes of a
kind take turns, each with the next change. So all histories of a kind together combine every cause with every change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from capacityd.model.reading import Absent, Quantity, Reading
from tests.support.denials import Alters, Denies
from tests.support.model import others
from tests.support.model.acts import Act, ConfigurationChanges, HardwareChanges, MachineReboots, WorkerIsKilled
from tests.support.model.acts import AllCausesEnd as CausesEnd
from tests.support.model.others import JustBeforeAPatch
from tests.support.model.server import OURS, THEIRS, A, B

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
    """The resource that changes."""

    def acts(self) -> list[HardwareChanges]:
        """The acts of the change. The last act changes the resource `name`."""
        names = [n for n in self.after if n != self.name and self.before.get(n) != self.after[n]]
        return [HardwareChanges(name, _reading(self.after[name])) for name in (*names, self.name)]


_CHANGES = (
    _Change({A: 4}, {A: 4, B: 2}, B),
    _Change({A: 4}, {A: 5}, A),
    _Change({A: 4}, {A: 1, B: 2}, A),
    _Change({A: 4, B: 2}, {A: None, B: 2}, A),
    _Change({}, {A: 4, B: 2}, B),
)

Cause = Callable[[HardwareChanges], Sequence[Act]]
"""A function that combines a cause with the change that it meets. It returns the acts of both."""


def _reading(number: int | None) -> Reading:
    return Absent("none") if number is None else Quantity(number)


def _first(*acts: Act) -> Cause:
    """These acts come before the change."""
    return lambda change: [*acts, change]


def _just_before(act: Act) -> Cause:
    """This act comes just before the PATCH that publishes the change arrives."""
    return lambda change: [JustBeforeAPatch(act, change)]


def _denied(denies: Denies, *acts: Act) -> Cause:
    return lambda change: [*acts, others.AdmissionDenies((denies,), change.reading)]


def _altered(alters: Alters) -> Cause:
    return lambda change: [others.WebhookAlters((alters,), change.name, change.reading)]


def _killed(point: int) -> Cause:
    """The worker that publishes the change is killed at this point."""
    return lambda change: [WorkerIsKilled(point, change.name, change.reading)]


def _instead(*acts: Act) -> Cause:
    """These acts take the place of the change."""
    return lambda _: acts


def _denials(name: str) -> Sequence[Cause]:
    """Denials in every form: a webhook's with any code, a policy's with its three codes, and those without a reason."""
    webhook = (400, 401, 403, 404, 409, 410, 413, 422, 429, 451, 500, 503, 504, 599)
    ways = {"webhook": webhook, "policy": (403, 413, 422), "opaque": (409, 422)}
    return [_denied(Denies(name, code, kind)) for kind, codes in ways.items() for code in codes]


def _server_errors(name: str) -> Sequence[Cause]:
    """Server errors in response to a PATCH only."""
    besides: Sequence[Act] = (others.WatchRepeats(), others.OtherAnnotates(None), others.ServerFails(lost_answers=1))
    return [_denied(Denies(name, code, "storage"), other) for code in (500, 502, 503, 504) for other in besides]


def _alterations(name: str) -> Sequence[Cause]:
    values: Mapping[str, Sequence[str | None]] = {
        name: (None, "3", "1k"),
        "annotation": (None, "", "{}", f'{{"{A}":1}}', "garbage"),
        "condition": (None, "altered"),
    }
    return [_altered(Alters(key, value)) for key in values for value in values[key]]


def _before_or_between(acts: Sequence[Act]) -> Sequence[Cause]:
    return [*map(_first, acts), *map(_just_before, acts)]


def _other_writers(name: str) -> Sequence[Cause]:
    annotations = ("", "garbage", f'{{"{THEIRS}":8,"{A}":4}}', f'{{"{B}":7}}')
    writes = [others.OtherWrites(name, value) for value in (None, "0", "7")]
    return _before_or_between([*writes, *map(others.OtherAnnotates, annotations)])


def _lost_annotations(name: str) -> Sequence[Cause]:
    """Lost annotations, each with a value that another writer sets at the same time."""
    texts, values = ("", "garbage"), (None, "0", "7", "1k")
    lost = [others.AnnotationIsLostWithAValue(name, value, text) for text in texts for value in values]
    return _before_or_between(lost)


def _kills(_: str) -> Sequence[Cause]:
    lost = (others.ServerFails(lost_answers=1), others.ServerFails(lost_requests=1))
    return [*map(_killed, range(POINTS)), *map(_first, lost)]


def _nodes_created_anew(_: str) -> Sequence[Cause]:
    anew = others.NodeIsRegisteredAnew()
    besides: Sequence[Act] = (
        MachineReboots(),
        others.OtherAnnotates(f'{{"{THEIRS}":8,"{A}":4}}'),
        others.OtherWrites(A, "4"),  # the quantity that the machine has published to the old Node
        others.OtherWrites(A, "0"),
        others.ServerFails(lost_answers=1),
    )
    again = _before_or_between([anew, others.NodeIsRegisteredAnew(A)])
    return [*(_first(anew, other) for other in besides), *again]


def _values_that_change(_: str) -> Sequence[Cause]:
    """The API server allows quantities up to 4. It denies a larger one, then the machine reads another quantity."""
    denies = others.AdmissionDenies((Denies(A, 403, most=4),), Quantity(6))
    then: Sequence[_Numbers] = ({A: 2}, {A: 4}, {A: 3, B: 2}, {A: None}, {A: 7}, {B: 1}, {A: 5, B: 2})
    return [_instead(denies, *(HardwareChanges(n, _reading(q)) for n, q in numbers.items())) for numbers in then]


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
    first = [HardwareChanges(name, _reading(change.before.get(name))) for name in OURS[:2]]
    *others_change, last = change.acts()
    acts = chain(zip(first, (0.0, PAUSE), strict=True), [(act, 0.0) for act in others_change])
    caused = cause(last)
    pauses = [0.0] * (len(caused) - 1) + [PAUSE]
    return [(ConfigurationChanges(), PAUSE), *acts, *zip(caused, pauses, strict=True), (CausesEnd(), PAUSE)]
