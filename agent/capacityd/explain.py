"""Why a reading is what it is: by which rule each device did not count, which came nearest, what can't be read and what
to do about it. Only probe --explain asks for it; nothing here is loaded otherwise.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from fractions import Fraction
from typing import Any, TypeAlias

from capacityd.errors import HostError
from capacityd.explanation import Compared, Doubt, Explanation, Nearest, Rejection
from capacityd.kinds import UNITS, Amount, Kind, Test
from capacityd.match import Verdict, except_text, shown
from capacityd.model import (
    Absent,
    Device,
    DeviceDetector,
    Evidence,
    Quantity,
    Reading,
    Resource,
    Unknown,
    Value,
)

_UNIT = re.compile(r"[A-Za-z]+(/s)?$")
_SILENT = (errno.EIO, errno.ETIMEDOUT, errno.EREMOTEIO, errno.ENODATA, errno.EBUSY, errno.EAGAIN)
_TYPO = 2  # characters in common that make a value look like the one that was meant
_OVERSEEN = 3  # devices of which any is worth telling
_AGAIN = "the service tries again by itself"

Reader: TypeAlias = "Callable[[str], Value]"


def explained(
    resource: Resource,
    detector: DeviceDetector,
    looked: Sequence[tuple[Device, Reader, Verdict]],
    counted: Sequence[Evidence],
    reading: Reading,
) -> Reading:
    """The reading of a resource of devices, with each that did not count and the explanation."""
    rejections, doubts = [], []
    for device, _, verdict in looked:
        if verdict.counts is False:
            differs = tuple(_difference(detector, test, value) for test, value in verdict.differs)
            reason = _reason(differs) if differs else verdict.reason
            rejections.append(Rejection(device.name, reason, differs))
        elif verdict.counts is None and verdict.error is not None:
            doubts.append(Doubt(device.name, verdict.reason, _advice(resource, verdict.unread, verdict.error)))
    nothing = not (isinstance(reading, Quantity) and reading.value)
    why = Explanation(
        nearest=_nearest(resource, detector, looked) if nothing else None,
        doubts=tuple(doubts),
        counted=tuple(counted) if isinstance(reading, Unknown) else (),
    )
    return replace(reading, rejections=tuple(rejections), explanation=why if why != Explanation() else None)


def unconcerned(resource: Resource, read: Reader, verdict: Verdict, reading: Absent | Unknown) -> Reading:
    """The reading of a resource that does not concern the machine, with each test of its "when"."""
    advice = _advice(resource, f"when.{verdict.unread}", verdict.error) if verdict.error else ""
    compared = tuple(_compared(None, test, read) for test in resource.when)
    return replace(reading, explanation=Explanation(when=compared, advice=advice))


def failed(resource: Resource, error: HostError) -> Unknown:
    """The reading of a resource for which there was no looking at all."""
    return Unknown(str(error), explanation=Explanation(advice=_advice(resource, "", error)))


def packed(reading: Reading) -> list[object]:
    """What this module has added to a reading, as JSON can hold it."""
    why = reading.explanation
    return [[astuple(r) for r in reading.rejections], astuple(why) if why is not None else None]


def unpacked(reading: Reading, more: Any) -> Reading:
    """The reading with what packed() made of it."""
    rejections, why = more
    found = tuple(Rejection(d, reason, tuple(Compared(*c) for c in differs)) for d, reason, differs in rejections)
    if why is None:
        return replace(reading, rejections=found)
    when, near, doubts, counted, advice = why
    explanation = Explanation(
        tuple(Compared(*c) for c in when),
        near and Nearest(near[0], near[1], tuple(Compared(*c) for c in near[2]), near[3]),
        tuple(Doubt(*d) for d in doubts),
        tuple(Evidence(*e) for e in counted),
        advice,
    )
    return replace(reading, rejections=found, explanation=explanation)


def _reason(differs: Sequence[Compared]) -> str:
    """Several tables may ask for the same key."""
    asked: dict[tuple[str, str, bool], list[str]] = {}
    for c in differs:
        asked.setdefault((c.key, c.value, c.default), []).append(c.asked)
    return "; ".join(
        f"{key} is {value}, wanted {' or '.join(wanted)}{' by default' if default else ''}"
        for (key, value, default), wanted in asked.items()
    )


def _compared(detector: DeviceDetector | None, test: Test, read: Reader) -> Compared:
    try:
        value = read(test.key)
    except HostError as e:
        return Compared(test.key, str(e), test.text, None)
    return _difference(detector, test, value)


def _difference(detector: DeviceDetector | None, test: Test, value: Value) -> Compared:
    kind = detector.keys[test.key].kind if detector and test.key in detector.keys else None
    default = False
    if detector and kind and test.key in detector.defaults:
        default = kind.parse(detector.defaults[test.key]) == test.patterns
    return Compared(test.key, _value(test, value, kind), test.text, test.matches(value), default)


def _value(test: Test, value: Value, kind: Kind | None) -> str:
    """In the unit that was asked for, as exactly as it takes to see the difference."""
    if not isinstance(kind, Amount) or not isinstance(value, int):
        return shown(value)
    unit = _UNIT.search(test.text)
    factor = UNITS[kind.dimension].get(unit[0], 0) if unit else 0
    if not unit or not factor:
        return shown(value)
    near = round(Fraction(value, factor), 1)
    if (value and not near) or test.matches(int(near * factor)) is not test.matches(value):
        return f"{value} {next(iter(UNITS[kind.dimension]))}"
    return f"{float(near):.12g} {unit[0]}"


def _nearest(
    resource: Resource, detector: DeviceDetector, looked: Sequence[tuple[Device, Reader, Verdict]]
) -> Nearest | None:
    """The device with most of the keys that were asked for, across the tables; None if none has anything in common."""
    best: tuple[tuple[int, ...], Nearest] | None = None
    for device, read, verdict in looked:
        if verdict.counts:
            continue
        for number, table in enumerate(resource.tables, 1):
            compared = tuple(_compared(detector, test, read) for test in table.tests)
            asked = sum(c.holds is True and not c.default for c in compared)
            wrong = [c for c in compared if c.holds is False]
            alike = sum(_common(c.value.strip('"'), c.asked.strip('"')) for c in wrong)
            if not asked and (len(wrong) > 1 or (alike < _TYPO and len(looked) > _OVERSEEN)):
                continue
            rank = (asked, -len(wrong), alike)
            if best is None or rank > best[0]:
                excepted = except_text(verdict.excepted) if verdict.excepted is not None and not wrong else ""
                best = rank, Nearest(device.name, number if len(resource.tables) > 1 else 0, compared, excepted)
    return best[1] if best else None


def _common(one: str, other: str) -> int:
    """How many characters both begin with."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _advice(resource: Resource, key: str, error: HostError) -> str:
    """What to do about something that can't be read."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return "run it as root, as the service does"
    if error.errno in _SILENT:
        return f"the device or its driver does not answer; dmesg may say more, and {_AGAIN}"
    if key.startswith("when."):
        return f"until it can be read nobody knows whether the resource concerns this machine; {_AGAIN}"
    if resource.detector in ("file", "exec", "static") or not key:
        return _value_advice(resource, error)
    if key == "system":
        return f'name the devices by another key than "system"; if it is a matter of time, {_AGAIN}'
    return f'ask for a further key that rules the device out, or for another one than "{key}"; {_AGAIN}'


def _value_advice(resource: Resource, error: HostError) -> str:
    if resource.measure is not None and "fallback" in str(error):
        return f"give it a fallback: what a device counts for whose {resource.measure} can't be had"
    if resource.detector == "file":
        return f"see to it that what writes the file runs; {_AGAIN} once the file changes"
    if resource.detector == "exec":
        return f"run the program by hand and see what it says; {_AGAIN}"
    return f"see what the message names; {_AGAIN}"
