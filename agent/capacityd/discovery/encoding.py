"""Readings as JSON, for the pipe from a child to the runner."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from capacityd.model.errors import Cause
from capacityd.model.reading import (
    Absent,
    Compared,
    Contribution,
    Explanation,
    Quantity,
    Reading,
    Rejection,
    Undetermined,
    Unknown,
)

_T = TypeVar("_T")

_KINDS: Mapping[str, Callable[..., Reading]] = {kind.__name__: kind for kind in (Quantity, Absent, Unknown)}


def encode(reading: Reading) -> bytes:
    """The reading as JSON."""
    return json.dumps([type(reading).__name__, asdict(reading)], default=lambda cause: cause.value).encode()


def decode(encoded: bytes | bytearray) -> Reading:
    """The reading that encode() was given. Raises ValueError if the JSON is incomplete."""
    kind, fields = json.loads(encoded)
    rejections = _each(Rejection, fields["rejections"])
    fields["rejections"] = tuple(Rejection(r.device, r.reason, _each(Compared, r.mismatches)) for r in rejections)
    if explained := fields["explanation"]:
        for part, of in (("when", Compared), ("undetermined", Undetermined), ("counted", Contribution)):
            explained[part] = _each(of, explained[part])
        explained["hints"] = tuple(explained["hints"])
        fields["explanation"] = Explanation(**explained)
    if kind == Quantity.__name__:
        fields["contributions"] = _each(Contribution, fields["contributions"])
    elif kind == Unknown.__name__:
        fields["cause"] = Cause(fields["cause"])
    return _KINDS[kind](**fields)


def _each(kind: Callable[..., _T], found: Iterable[Any]) -> tuple[_T, ...]:
    return tuple(kind(**one) for one in found)
