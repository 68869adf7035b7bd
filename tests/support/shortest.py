"""The steps of a history, and the shortest histories of each kind: a machine publishes, then a cause meets a change.

The order is fixed: the causes of a kind take turns, each with the next change. So the first histories contain every
cause, and with enough histories every cause meets every change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from tests.support.denials import Alters, Denies
from tests.support.model_server import THEIRS, A, B


@dataclass(frozen=True)
class Step:
    """What happens before a pass. None or an empty value: nothing changes."""

    hardware: Mapping[str, int | None] | None = None
    denies: tuple[Denies, ...] | None = None
    alters: tuple[Alters, ...] | None = None
    record: str = ""
    """A fault of the machine record, or "restored" or "missing"."""
    kill_at: int | None = None
    writes: Mapping[str, str | None] = field(default_factory=dict)
    """The capacity values that another writer sets; None removes a value."""
    annotates: str | None = None
    """The annotation that another writer sets; "" removes it."""
    node_anew: bool = False
    """The Node is deleted and created again."""
    between: bool = False
    """Others write, or create the Node anew, just before the pass's PATCH, instead of before the pass."""
    lost_answer: bool = False
    watched: str = ""
    """"fresh": the pass knows the Node as it is; "stale": as it was before this step; empty: it reads the Node."""
    reason: str = "resync"

    def __repr__(self) -> str:
        changed = [(f.name, value) for f in fields(self) if (value := getattr(self, f.name)) != getattr(Step(), f.name)]
        return f"Step({', '.join(f'{name}={value!r}' for name, value in changed)})"


@dataclass(frozen=True)
class _Change:
    """A change of what a machine publishes, from one step to the next."""

    before: Mapping[str, int | None] | None
    """None: nothing was published yet, so the machine has no record."""
    after: Mapping[str, int | None]
    name: str
    """The capacity key that changes."""


_CHANGES = (
    _Change({"a": 4}, {"a": 4, "b": 2, "c": 1}, B),
    _Change({"a": 4}, {"a": 5}, A),
    _Change({"a": 4}, {"a": 1, "b": 2}, A),
    _Change({"a": 4, "b": 2}, {"a": None, "b": 2}, A),
    _Change(None, {"a": 4, "b": 2}, B),
)

_Fields = Mapping[str, Any]
"""What a cause adds to the step of the change: fields of Step."""

POINTS = 12
"""The number of points at which a pass that writes can be killed: before and after each request and each file."""


def _denials(name: str) -> Sequence[_Fields]:
    """All ways to deny: a webhook with any code, a policy with its three codes, and denials without a reason."""
    webhook = (400, 401, 403, 404, 409, 410, 413, 422, 429, 451, 500, 503, 504, 599)
    ways = {"webhook": webhook, "policy": (403, 413, 422), "opaque": (409, 422)}
    return [{"denies": (Denies(name, code, kind),)} for kind, codes in ways.items() for code in codes]


def _server_errors(name: str) -> Sequence[_Fields]:
    """Server errors in response to a PATCH only."""
    fields: list[_Fields] = [{"denies": (Denies(name, code, "storage"),)} for code in (500, 502, 503, 504)]
    besides: Sequence[_Fields] = ({}, {"annotates": ""}, {"lost_answer": True}, {"kill_at": 3})
    return [{**more, **other} for more in fields for other in besides]


def _alterations(name: str) -> Sequence[_Fields]:
    values: Mapping[str, Sequence[str | None]] = {
        name: (None, "3", "1k"),
        "annotation": (None, "", "{}", f'{{"{A}":1}}', "garbage"),
        "condition": (None, "altered"),
    }
    return [{"alters": (Alters(key, value),)} for key in values for value in values[key]]


def _record_faults(_: str) -> Sequence[_Fields]:
    faults = ("EACCES", "EIO", "directory", "loop", "pipe", "unwritable", "missing", "garbage", "name", "text", "float")
    return [{"record": fault} for fault in faults]


def _other_writers(name: str) -> Sequence[_Fields]:
    writes: list[_Fields] = [{"writes": {name: value}} for value in (None, "0", "7")]
    annotations = ("", "garbage", f'{{"{THEIRS}":8,"{A}":4}}', f'{{"{B}":7}}')
    writes += [{"annotates": text} for text in annotations]
    return [{**fields, "between": between} for between in (False, True) for fields in writes]


def _lost_annotations(name: str) -> Sequence[_Fields]:
    """Lost annotations, each with a value that another writer sets at the same time."""
    texts, values = ("", "garbage"), (None, "0", "7", "1k")
    written: list[_Fields] = [{"annotates": text, "writes": {name: value}} for text in texts for value in values]
    return [{**fields, "between": between} for between in (False, True) for fields in written]


def _kills(_: str) -> Sequence[_Fields]:
    return [*({"kill_at": point} for point in range(POINTS)), {"lost_answer": True}]


def _nodes_created_anew(name: str) -> Sequence[_Fields]:
    at_the_patch = POINTS // 3
    besides: Sequence[_Fields] = (
        {},
        {"between": True},
        *({"record": fault} for fault in ("missing", "directory", "unwritable", "EIO")),
        {"denies": (Denies(name, 403),)},
        {"annotates": f'{{"{THEIRS}":8,"{A}":4}}'},
        {"writes": {A: "4"}},  # the quantity that the machine has published to the old Node
        {"writes": {A: "4"}, "between": True},
        {"writes": {A: "0"}},
        {"lost_answer": True},
        *({"kill_at": point} for point in (at_the_patch, at_the_patch + 1)),
    )
    return [{"node_anew": True, **fields} for fields in besides]


_CAUSES: Mapping[str, Callable[[str], Sequence[_Fields]]] = {
    "denials": _denials,
    "server errors": _server_errors,
    "alterations": _alterations,
    "faults of the record": _record_faults,
    "other writers": _other_writers,
    "lost annotations": _lost_annotations,
    "kills and lost answers": _kills,
    "Nodes created anew": _nodes_created_anew,
}

_VALUES = "values that change while denied"

KINDS = (*_CAUSES, _VALUES)


def histories(kind: str) -> Sequence[Sequence[Step]]:
    """All histories of a kind. The first few also run on a real API server."""
    if kind == _VALUES:
        return _values_that_change()
    causes = _CAUSES[kind]
    results = []
    for turn in range(len(_CHANGES)):
        for number in range(len(causes(A))):
            change = _CHANGES[(turn + number) % len(_CHANGES)]
            published = [] if change.before is None else [Step(change.before)]
            results.append([*published, Step(change.after, **causes(change.name)[number])])
    return results


def _values_that_change() -> Sequence[Sequence[Step]]:
    """The API server allows quantities up to 4. It denies a larger one, then the machine reads another quantity."""
    results = []
    for before in (4, 1, None):
        for then in ({"a": 2}, {"a": 4}, {"a": 3, "b": 2}, {"a": None}, {"a": 7}, {"b": 1}, {"a": 5, "b": 2}):
            published = [] if before is None else [Step({"a": before})]
            denied = Step({"a": 6, "b": 1}, denies=(Denies(A, 403, most=4),))
            results.append([*published, denied, Step(then, reason="hardware")])
    return results
