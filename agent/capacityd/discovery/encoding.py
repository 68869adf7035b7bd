"""Readings as JSON, for the pipe from a child to the runner."""

from __future__ import annotations

import json
from dataclasses import astuple
from typing import Any

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


def encode(reading: Reading) -> bytes:
    """The reading as JSON."""
    rejections = [astuple(r) for r in reading.rejections]
    explanation = astuple(reading.explanation) if reading.explanation is not None else None
    if isinstance(reading, Quantity):
        contributions = [astuple(c) for c in reading.contributions]
        fields: list[object] = ["quantity", reading.value, contributions, reading.warning]
    elif isinstance(reading, Absent):
        fields = ["absent", reading.reason, reading.applies]
    else:
        fields = ["unknown", reading.reason, reading.cause.value]
    return json.dumps([rejections, explanation, *fields]).encode()


def decode(encoded: bytes | bytearray) -> Reading:
    """The reading that encode() was given. Raises ValueError or TypeError if the JSON is incomplete."""
    rejected, explained, outcome, value, *rest = json.loads(encoded)
    rejections = tuple(Rejection(d, reason, _compared(mismatches)) for d, reason, mismatches in rejected)
    explanation = _explanation(*explained) if explained is not None else None
    if outcome == "quantity":
        return Quantity(value, _contributions(rest[0]), rejections, rest[1], explanation)
    if outcome == "absent":
        return Absent(value, rejections, explanation, rest[0])
    return Unknown(value, Cause(rest[0]), rejections, explanation)


def _explanation(when: Any, undetermined: Any, counted: Any, advice: str) -> Explanation:
    return Explanation(
        _compared(when),
        tuple(Undetermined(*u) for u in undetermined),
        _contributions(counted),
        advice,
    )


def _compared(found: Any) -> tuple[Compared, ...]:
    return tuple(Compared(*c) for c in found)


def _contributions(found: Any) -> tuple[Contribution, ...]:
    return tuple(Contribution(*c) for c in found)
