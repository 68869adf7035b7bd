"""Explains a reading for probe --explain: which rule excludes each device, and what to fix."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from capacityd.discovery.child import MAX_MEMORY
from capacityd.discovery.matcher import MatchResult, describe_value
from capacityd.model.config import Resource
from capacityd.model.device import Device, DeviceDetector
from capacityd.model.errors import Cause, HostError, NotRecorded
from capacityd.model.host import Host
from capacityd.model.matchers import GlobMatcher, KeyMatcher, Value
from capacityd.model.reading import (
    Absent,
    Compared,
    Contribution,
    Explanation,
    Reading,
    Rejection,
    Undetermined,
    Unknown,
)
from capacityd.model.units import UNITS
from capacityd.model.value_types import Amount, Kind

_UNIT = re.compile(r"[A-Za-z]+(/s)?$")
"""The unit at the end of an amount."""
_NOT_RESPONDING = (errno.EIO, errno.ETIMEDOUT, errno.EREMOTEIO, errno.ENODATA, errno.EBUSY, errno.EAGAIN)
_RETRIES = "the service retries by itself"

Reader: TypeAlias = "Callable[[str], Value]"
"""Takes a key, returns the value of a device or of the machine."""
Matched: TypeAlias = tuple[Device, MatchResult]


def explain_devices(
    resource: Resource,
    detector: DeviceDetector,
    devices: Sequence[Matched],
    counted: Sequence[Contribution],
    reading: Reading,
) -> Reading:
    """The reading of a resource of devices, with rejections and an explanation."""
    rejections, undetermined = [], []
    for device, result in devices:
        if result.matches is False:
            mismatches = tuple(_compare(detector, test, value) for test, value in result.mismatches)
            reason = _reason(mismatches) or result.reason
            rejections.append(Rejection(device.name, reason, mismatches))
        elif result.error is not None:
            advice = _advice(resource, result.unreadable_key, result.error)
            undetermined.append(
                Undetermined(device.name, reason=result.reason, advice=advice, detail=result.detail),
            )
    hints = _hints(resource, devices, counted)
    explanation = Explanation(hints=hints) if hints else None
    if isinstance(reading, Unknown):
        explanation = Explanation(undetermined=tuple(undetermined), counted=tuple(counted), hints=hints)
    return replace(reading, rejections=tuple(rejections), explanation=explanation)


def not_applicable(resource: Resource, read: Reader, result: MatchResult, reading: Absent | Unknown) -> Reading:
    """The reading of a resource that does not, or may not, apply to this machine, with each test of its `when`."""
    compared = []
    for test in resource.when:
        try:
            compared.append(_compare(None, test, read(test.key)))
        except HostError as e:
            error = f"{e}; {e.detail.text}" if e.detail else str(e)
            compared.append(Compared(test.key, value=error, wanted=test.text, matches=None))
    advice = ""
    if result.error:
        advice = _errno_advice(result.error) or f'test another key in "when" if this lasts; {_RETRIES}'
    near_misses = [_near_miss(test, value) for test, value in result.mismatches]
    hints = tuple(hint for hint in near_misses if hint)
    return replace(reading, explanation=Explanation(when=tuple(compared), advice=advice, hints=hints))


def explain_error(resource: Resource, error: HostError) -> Unknown:
    """The reading of a resource whose whole detector failed."""
    explanation = Explanation(error.detail, advice=_advice(resource, unreadable_key="", error=error))
    return Unknown(str(error), error.cause, explanation=explanation)


def _hints(resource: Resource, devices: Sequence[Matched], counted: Sequence[Contribution]) -> tuple[str, ...]:
    """Possible mistakes: an "except" that excludes nothing or, if no device matches, text that nearly matches."""
    if counted:
        excludes_nothing = resource.excepts and all(result.excepted is None for _, result in devices)
        return ("except excludes none of the devices that match",) if excludes_nothing else ()
    near_misses = [_near_miss(test, value) for _, result in devices for test, value in result.mismatches]
    return _unique(hint for hint in near_misses if hint)


def _unique(hints: Iterable[str]) -> tuple[str, ...]:
    """The different hints, in their order."""
    return tuple(dict.fromkeys(hints))


def with_other_names(host: Host, devices: Sequence[Matched], reading: Reading) -> Reading:
    """The reading; if no device matches for no known reason, with hints about text that is another name of a device.

    udev knows several names of an interface, for example ID_NET_NAME_PATH. The kernel takes them as alternative names.
    """
    if not isinstance(reading, Absent) or reading.explanation is not None:
        return reading
    hints: list[str] = []
    for device, result in devices:
        for test, name in result.mismatches:
            if test.key in ("name", "interface") and device.path.startswith("/sys/"):
                hints += _other_name_hints(host, device.path, test=test, kernel_name=name)
    return replace(reading, explanation=Explanation(hints=_unique(hints))) if hints else reading


def _other_name_hints(host: Host, path: str, *, test: KeyMatcher, kernel_name: Value) -> Iterator[str]:
    """Yields a hint for each property of the device that is the configured name."""
    configured = {matcher.pattern for matcher in test.matchers if isinstance(matcher, GlobMatcher)}
    try:
        properties = host.properties(path)
    except HostError:
        return  # a hint is not worth an error
    for key, text in properties.items():
        if text and text in configured:
            table = f'properties = {{ {key} = "{text}" }}'
            yield f'{test.key}: "{text}" is another name of "{kernel_name}"; write "{kernel_name}", or {table}'


def _near_miss(test: KeyMatcher, value: Value) -> str:
    """A hint about text that differs from the configured text only in case, or begins with it; "" for any other
    text. The text does not match, so a glob that matches without regard to case differs in case."""
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, tuple):
        return ""
    patterns = [matcher.pattern for matcher in test.matchers if isinstance(matcher, GlobMatcher) and matcher.pattern]
    for text in texts:
        for pattern in patterns:
            if text.lower() == pattern.lower() or GlobMatcher(pattern.lower(), fold=True).matches(text):
                return f'{test.key}: "{pattern}" differs from "{text}" in upper and lower case'
            if text.lower().startswith(pattern.lower()):
                glob = f"{text[: len(pattern)]}*"
                return f'{test.key}: "{pattern}" is only the beginning of "{text}"; "{glob}" would match'
    return ""


def _reason(mismatches: Sequence[Compared]) -> str:
    """The reason for a rejection. Lists each key once, although several tables may test it."""
    wanted: dict[tuple[str, str, bool], list[str]] = {}
    for mismatch in mismatches:
        wanted.setdefault((mismatch.key, mismatch.value, mismatch.default), []).append(mismatch.wanted)
    return "; ".join(
        f"{key} is {value}, wanted {' or '.join(texts)}{' by default' if default else ''}"
        for (key, value, default), texts in wanted.items()
    )


def _compare(detector: DeviceDetector | None, test: KeyMatcher, value: Value) -> Compared:
    """The comparison of a value with a test. detector: None for a test of `when`."""
    kind = detector.keys[test.key].kind if detector and test.key in detector.keys else None
    is_default = False
    if detector and kind and test.key in detector.defaults:
        is_default = kind.parse(detector.defaults[test.key]) == test.matchers
    return Compared(
        test.key,
        value=_in_unit(test, value, kind),
        wanted=test.text,
        matches=test.matches(value),
        default=is_default,
    )


def _in_unit(test: KeyMatcher, value: Value, kind: Kind | None) -> str:
    """The value in the test's unit; in base units if rounding to a tenth would hide the difference.

    kind: the type of the key; None if it is always text.
    """
    if not isinstance(kind, Amount) or not isinstance(value, int):
        return describe_value(value)
    units = UNITS[kind.dimension]
    found = _UNIT.search(test.text)
    if found is None or found[0] not in units:
        return describe_value(value)
    unit = found[0]
    factor = units[unit]
    tenths = (20 * value + factor) // (2 * factor)  # 10 * value / factor, rounded to the nearest whole number
    rounds_to_zero = value != 0 and tenths == 0
    rounded = tenths * factor // 10
    if rounds_to_zero or test.matches(rounded) is not test.matches(value):
        base_unit = next(iter(units))
        return f"{value} {base_unit}"
    return f"{tenths / 10:.12g} {unit}"


def _advice(resource: Resource, unreadable_key: str, error: HostError) -> str:
    """How to fix an error. unreadable_key: "" if the detector or the measure failed."""
    if advice := _errno_advice(error):
        return advice
    if error.cause is Cause.NOT_TRUSTED:
        return f"do what the message says at its end; {_RETRIES}"
    if error.cause is Cause.NO_MEASURE:
        return f"set fallback: the {resource.measure} to assume for a device that does not report it"
    if resource.detector == "file":
        return f"check the program that writes the file; {_RETRIES} when the file changes"
    if resource.detector == "exec":
        most = f"here it may use {MAX_MEMORY >> 20} MiB of memory"
        return f"run the program by hand and read its output; {most}; {_RETRIES}"
    if not unreadable_key:
        return f"check what the message names; {_RETRIES}"
    return f'add a key that excludes the device, or match by another key than "{unreadable_key}"; {_RETRIES}'


def _errno_advice(error: HostError) -> str:
    if isinstance(error, NotRecorded):
        return "run it on the recorded machine: a recording contains only the files that detectors read"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "run it as root, as the service does"
    if error.errno in _NOT_RESPONDING:
        return f"the device or its driver does not respond; dmesg may say more, and {_RETRIES}"
    return ""
