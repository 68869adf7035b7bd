"""Explains a reading for probe --explain: which rule excludes each device, and what to fix."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from capacityd.discovery.child import MAX_MEMORY
from capacityd.discovery.matcher import MatchResult, describe_value
from capacityd.model.errors import Cause, HostError, NotRecorded
from capacityd.model.host import Host
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
from capacityd.schema.config import Resource
from capacityd.schema.device import Device, DeviceDetector
from capacityd.schema.matchers import GlobMatcher, KeyMatcher, Value
from capacityd.schema.units import UNITS
from capacityd.schema.value_types import Amount

_UNIT = re.compile(r"[A-Za-z]+(/s)?$")
"""The unit at the end of an amount."""
_NOT_RESPONDING = (errno.EIO, errno.ETIMEDOUT, errno.EREMOTEIO, errno.ENODATA, errno.EBUSY, errno.EAGAIN)
_SERVICE_RETRIES = "the service retries by itself"

Match: TypeAlias = tuple[Device, MatchResult]
"""A device, and whether it matches."""


def explain_devices(
    resource: Resource,
    detector: DeviceDetector,
    *,
    matches: Sequence[Match],
    counted: Sequence[Contribution],
    reading: Reading,
) -> Reading:
    """Adds rejections and an explanation to the reading of a resource that counts devices.

    matches: all candidates. counted: the contributions of the devices that match.
    """
    rejections, undetermined = [], []
    for device, result in matches:
        if result.matches is False:
            mismatches = tuple(_compare(test, value, detector) for test, value in result.mismatches)
            reason = _reason(mismatches) if mismatches else result.reason
            rejections.append(Rejection(device.name, reason=reason, mismatches=mismatches))
        elif result.error is not None:
            advice = _advice(resource, result.error, unreadable_key=result.unreadable_key)
            undetermined.append(
                Undetermined(device.name, reason=result.reason, advice=advice, detail=result.detail),
            )
    hints = _hints(resource, matches, counted)
    explanation = None
    if isinstance(reading, Unknown):
        explanation = Explanation(undetermined=tuple(undetermined), counted=tuple(counted), hints=hints)
    elif hints:
        explanation = Explanation(hints=hints)
    return replace(reading, rejections=tuple(rejections), explanation=explanation)


def explain_when(
    resource: Resource, reading: Absent | Unknown, *, result: MatchResult, read: Callable[[str], Value]
) -> Reading:
    """Adds each test of `when` to the reading of a resource that does not, or may not, apply to this machine.

    result: the result of all tests. read: returns the machine's value for a key.
    """
    compared = []
    for test in resource.when:  # all tests, because the result contains only the test that decided
        try:
            compared.append(_compare(test, read(test.key), detector=None))
        except HostError as e:
            error = f"{e}; {e.detail}" if e.detail else str(e)
            compared.append(Compared(test.key, value=error, wanted=test.text, matches=None))
    advice = ""
    if result.error:
        advice = _errno_advice(result.error) or f'test another key in "when" if this lasts; {_SERVICE_RETRIES}'
    near_misses = [_near_miss(test, value) for test, value in result.mismatches]
    hints = tuple(hint for hint in near_misses if hint)
    return replace(reading, explanation=Explanation(when=tuple(compared), advice=advice, hints=hints))


def explain_error(resource: Resource, error: HostError) -> Unknown:
    """The reading of a resource whose whole detector failed."""
    explanation = Explanation(error.detail, advice=_advice(resource, error, unreadable_key=""))
    return Unknown(str(error), error.cause, explanation=explanation)


def _hints(resource: Resource, matches: Sequence[Match], counted: Sequence[Contribution]) -> tuple[str, ...]:
    """Hints at probable mistakes. If no device counts: texts that nearly match. Otherwise: an unused "except"."""
    if not counted:
        near_misses = [_near_miss(test, value) for _, result in matches for test, value in result.mismatches]
        return _unique(hint for hint in near_misses if hint)
    excludes_one = any(result.excepted is not None for _, result in matches)
    if resource.excepts and not excludes_one:
        return ("except excludes none of the devices that match",)
    return ()


def _unique(hints: Iterable[str]) -> tuple[str, ...]:
    """The hints in the same order, without duplicates."""
    return tuple(dict.fromkeys(hints))


def with_other_names(host: Host, matches: Sequence[Match], reading: Reading) -> Reading:
    """Adds a hint to the reading for each configured name that is an alternative name of a device.

    Adds hints only if no device matches and the reading has no explanation yet. udev knows several names of an
    interface, for example ID_NET_NAME_PATH, and the kernel accepts them as alternative names.
    """
    if not isinstance(reading, Absent) or reading.explanation is not None:
        return reading
    hints: list[str] = []
    for device, result in matches:
        for test, name in result.mismatches:
            is_kernel_name = test.key in ("name", "interface")
            if is_kernel_name and device.path.startswith("/sys/"):  # other devices have no properties of udev
                hints += _other_name_hints(host, device.path, test=test, kernel_name=name)
    return replace(reading, explanation=Explanation(hints=_unique(hints))) if hints else reading


def _other_name_hints(host: Host, path: str, *, test: KeyMatcher, kernel_name: Value) -> Iterator[str]:
    """Yields a hint for each property of the device whose value is the configured name."""
    configured = {matcher.pattern for matcher in test.matchers if isinstance(matcher, GlobMatcher)}
    try:
        properties = host.properties(path)
    except HostError:
        return  # without udev's properties, there is no hint
    for key, text in properties.items():
        if text and text in configured:
            table = f'properties = {{ {key} = "{text}" }}'
            yield f'{test.key}: "{text}" is another name of "{kernel_name}"; write "{kernel_name}", or {table}'


def _near_miss(test: KeyMatcher, value: Value) -> str:
    """A hint if a text differs from the configured text only in case, or begins with the configured text; or else "".

    value: one or several texts that the test does not match.
    """
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, tuple):
        return ""
    globs = [matcher for matcher in test.matchers if isinstance(matcher, GlobMatcher)]
    patterns = [glob.pattern for glob in globs if glob.pattern]
    for text in texts:
        for pattern in patterns:
            matches_in_any_case = GlobMatcher(pattern.lower(), ignore_case=True).matches(text)  # lowers only text
            if matches_in_any_case:
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
    reasons = []
    for (key, value, is_default), texts in wanted.items():
        by_default = " by default" if is_default else ""
        reasons.append(f"{key} is {value}, wanted {' or '.join(texts)}{by_default}")
    return "; ".join(reasons)


def _compare(test: KeyMatcher, value: Value, detector: DeviceDetector | None) -> Compared:
    """The comparison of a value with a test. detector: None for a test of `when`."""
    shown = describe_value(value)
    is_default = False
    if detector is not None and test.key in detector.keys:  # attributes.NAME is a text without a default
        kind = detector.keys[test.key].kind
        if isinstance(kind, Amount) and isinstance(value, int):
            shown = _in_unit(test, value, units=UNITS[kind.dimension])
        if test.key in detector.defaults:
            default_matchers = kind.parse(detector.defaults[test.key])
            is_default = test.matchers == default_matchers
    return Compared(test.key, value=shown, wanted=test.text, matches=test.matches(value), default=is_default)


def _in_unit(test: KeyMatcher, value: int, *, units: Mapping[str, int]) -> str:
    """An amount in the test's unit, rounded to a tenth; in base units if the rounding would hide the difference.

    units: name -> factor. The first unit is the base unit.
    """
    found = _UNIT.search(test.text)
    if found is None or found[0] not in units:
        return describe_value(value)
    unit = found[0]
    factor = units[unit]
    tenths = _rounded_ratio(10 * value, factor)
    rounds_to_zero = value != 0 and tenths == 0
    rounded = tenths * factor // 10  # the rounded amount in base units
    rounding_changes_match = test.matches(rounded) != test.matches(value)
    if rounds_to_zero or rounding_changes_match:
        base_unit = next(iter(units))
        return f"{value} {base_unit}"
    return f"{tenths / 10:.12g} {unit}"  # g: 4 instead of 4.0


def _rounded_ratio(dividend: int, divisor: int) -> int:
    """dividend / divisor, rounded to the nearest whole number."""
    return (dividend + divisor // 2) // divisor


def _advice(resource: Resource, error: HostError, *, unreadable_key: str) -> str:
    """How to fix an error. unreadable_key: the key that failed; "" if the detector or the measure failed."""
    if advice := _errno_advice(error):
        return advice
    if error.cause is Cause.NOT_TRUSTED:
        return f"do what the message says at its end; {_SERVICE_RETRIES}"
    if error.cause is Cause.NO_MEASURE:
        return f"set fallback: the {resource.measure} to assume for a device that does not report it"
    if resource.detector == "file":
        return f"check the program that writes the file; {_SERVICE_RETRIES} when the file changes"
    if resource.detector == "exec":
        limit = f"here it may use {MAX_MEMORY >> 20} MiB of memory"
        return f"run the program by hand and read its output; {limit}; {_SERVICE_RETRIES}"
    if not unreadable_key:
        return f"check what the message names; {_SERVICE_RETRIES}"
    return f'add a key that excludes the device, or match by another key than "{unreadable_key}"; {_SERVICE_RETRIES}'


def _errno_advice(error: HostError) -> str:
    if isinstance(error, NotRecorded):
        return "run it on the recorded machine: a recording contains only the files that detectors read"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "run it as root, as the service does"
    if error.errno in _NOT_RESPONDING:
        return f"the device or its driver does not respond; dmesg may say more, and {_SERVICE_RETRIES}"
    return ""
