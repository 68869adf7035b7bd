"""Explains a reading for probe --explain: the rule that excluded each device, the nearest device, and what to fix."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from capacityd.discovery.matcher import MatchResult, describe_except, describe_value
from capacityd.model.config import Resource
from capacityd.model.device import Device, DeviceDetector
from capacityd.model.errors import Cause, HostError
from capacityd.model.matchers import KeyMatcher, Value
from capacityd.model.reading import (
    Absent,
    Compared,
    Contribution,
    Explanation,
    Nearest,
    Quantity,
    Reading,
    Rejection,
    Undetermined,
    Unknown,
)
from capacityd.model.value_types import UNITS, Amount, Kind

_UNIT = re.compile(r"[A-Za-z]+(/s)?$")
_NOT_RESPONDING = (errno.EIO, errno.ETIMEDOUT, errno.EREMOTEIO, errno.ENODATA, errno.EBUSY, errno.EAGAIN)
_TYPO_PREFIX = 2
"""Leading characters that two values share if one may be a typo of the other."""
_ALWAYS_NEAREST = 3
"""On a machine with at most this many devices, any of them may be the nearest."""
_RETRIES = "the service retries by itself"

Reader: TypeAlias = "Callable[[str], Value]"
Matched: TypeAlias = tuple[Device, Reader, MatchResult]


def explain_devices(
    resource: Resource,
    detector: DeviceDetector,
    devices: Sequence[Matched],
    counted: Sequence[Contribution],
    reading: Reading,
) -> Reading:
    """The reading of a resource of devices, with its rejections and explanation."""
    rejections, undetermined = [], []
    for device, _, result in devices:
        if result.matches is False:
            mismatches = tuple(_compare_value(detector, test, value) for test, value in result.mismatches)
            reason = _reason(mismatches) if mismatches else result.reason
            rejections.append(Rejection(device.name, reason, mismatches))
        elif result.error is not None:
            advice = _advice(resource, result.unreadable_key, result.error)
            undetermined.append(Undetermined(device.name, result.reason, advice))
    nothing = not (isinstance(reading, Quantity) and reading.value)
    explanation = Explanation(
        nearest=_nearest(resource, detector, devices) if nothing else None,
        undetermined=tuple(undetermined),
        counted=tuple(counted) if isinstance(reading, Unknown) else (),
    )
    return replace(
        reading,
        rejections=tuple(rejections),
        explanation=explanation if explanation != Explanation() else None,
    )


def not_applicable(resource: Resource, read: Reader, result: MatchResult, reading: Absent | Unknown) -> Reading:
    """The reading of a resource that does not or may not apply to this machine, with each test of its `when`."""
    compared = tuple(_compare(None, test, read) for test in resource.when)
    advice = _when_advice(result.error) if result.error else ""
    return replace(reading, explanation=Explanation(when=compared, advice=advice))


def explain_error(resource: Resource, error: HostError) -> Unknown:
    """The reading of a resource whose detector failed as a whole."""
    return Unknown(str(error), error.cause, explanation=Explanation(advice=_advice(resource, "", error)))


def _reason(mismatches: Sequence[Compared]) -> str:
    """Names each key once, although several tables may test it."""
    wanted: dict[tuple[str, str, bool], list[str]] = {}
    for c in mismatches:
        wanted.setdefault((c.key, c.value, c.default), []).append(c.wanted)
    return "; ".join(
        f"{key} is {value}, wanted {' or '.join(texts)}{' by default' if default else ''}"
        for (key, value, default), texts in wanted.items()
    )


def _compare(detector: DeviceDetector | None, test: KeyMatcher, read: Reader) -> Compared:
    try:
        value = read(test.key)
    except HostError as e:
        return Compared(test.key, str(e), test.text, None)
    return _compare_value(detector, test, value)


def _compare_value(detector: DeviceDetector | None, test: KeyMatcher, value: Value) -> Compared:
    kind = detector.keys[test.key].kind if detector and test.key in detector.keys else None
    default = False
    if detector and kind and test.key in detector.defaults:
        default = kind.parse(detector.defaults[test.key]) == test.matchers
    return Compared(test.key, _in_unit(test, value, kind), test.text, test.matches(value), default)


def _in_unit(test: KeyMatcher, value: Value, kind: Kind | None) -> str:
    """The value in the unit of the test; in base units if rounding to a tenth would hide the difference."""
    if not isinstance(kind, Amount) or not isinstance(value, int):
        return describe_value(value)
    unit = _UNIT.search(test.text)
    factor = UNITS[kind.dimension].get(unit[0], 0) if unit else 0
    if not unit or not factor:
        return describe_value(value)
    tenths = (20 * value + factor) // (2 * factor)
    if (value and not tenths) or test.matches(tenths * factor // 10) is not test.matches(value):
        return f"{value} {next(iter(UNITS[kind.dimension]))}"
    return f"{tenths / 10:.12g} {unit[0]}"


def _nearest(resource: Resource, detector: DeviceDetector, devices: Sequence[Matched]) -> Nearest | None:
    """The device that matches the most configured keys of any table; None if no device comes near."""
    best: tuple[tuple[int, ...], Nearest] | None = None
    for device, read, result in devices:
        if result.matches:
            continue
        for number, table in enumerate(resource.tables, 1):
            compared = tuple(_compare(detector, test, read) for test in table.tests)
            matching = sum(c.matches is True and not c.default for c in compared)
            different = [c for c in compared if c.matches is False]
            alike = sum(_shared_prefix(c.value.strip('"'), c.wanted.strip('"')) for c in different)
            if not matching and (len(different) > 1 or (alike < _TYPO_PREFIX and len(devices) > _ALWAYS_NEAREST)):
                continue
            rank = (matching, -len(different), alike)
            if best is None or rank > best[0]:
                excepted = describe_except(result.excepted) if result.excepted is not None and not different else ""
                best = rank, Nearest(device.name, number if len(resource.tables) > 1 else 0, compared, excepted)
    return best[1] if best else None


def _shared_prefix(one: str, other: str) -> int:
    """How many characters both begin with."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _when_advice(error: HostError) -> str:
    return _errno_advice(error) or f'test another key in "when" if this lasts; {_RETRIES}'


def _advice(resource: Resource, key: str, error: HostError) -> str:
    """How to fix an error. key: that of the device's that could not be read; "": the detector or the measure failed."""
    if advice := _errno_advice(error):
        return advice
    if error.cause is Cause.NO_MEASURE:
        return f"set fallback: the {resource.measure} to assume for a device that does not report it"
    if resource.detector == "file":
        return f"check the program that writes the file; {_RETRIES} when the file changes"
    if resource.detector == "exec":
        return f"run the program by hand and read its output; {_RETRIES}"
    if not key:
        return f"check what the message names; {_RETRIES}"
    if key == "system":
        return f'match the devices by another key than "system"; if this is temporary, {_RETRIES}'
    return f'add a key that excludes the device, or match by another key than "{key}"; {_RETRIES}'


def _errno_advice(error: HostError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM):
        return "run it as root, as the service does"
    if error.errno in _NOT_RESPONDING:
        return f"the device or its driver does not respond; dmesg may say more, and {_RETRIES}"
    return ""
