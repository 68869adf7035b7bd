"""Explains a reading for probe --explain: which rule excludes each device, and what to fix."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product

from capacityd.discovery.child import MAX_MEMORY
from capacityd.discovery.matcher import Candidate, MatchResult, describe_value
from capacityd.model.errors import Cause, HostError, NotRecorded
from capacityd.model.host import Host
from capacityd.model.reading import Absent, Comparison, Explanation, Reading, Rejection, Undetermined, Unknown
from capacityd.schema.config import Resource
from capacityd.schema.device import DeviceDetector
from capacityd.schema.matchers import GlobMatcher, KeyMatcher, Value
from capacityd.schema.units import UNITS
from capacityd.schema.value_types import Amount

_UNIT = re.compile(r"[A-Za-z]+(/s)?$")
"""The unit at the end of an amount."""
_NOT_RESPONDING = (errno.EIO, errno.ETIMEDOUT, errno.EREMOTEIO, errno.ENODATA, errno.EBUSY, errno.EAGAIN)
"""What drivers return for a file in /sys if the device does not respond."""
_SERVICE_RETRIES = "the service retries by itself"


def explain_devices(
    host: Host, resource: Resource, detector: DeviceDetector, candidates: Sequence[Candidate], reading: Reading
) -> Reading:
    """Adds to the reading why candidates do not count, why this is unknown for others, and what to fix."""
    rejections = []
    undetermined = []
    for candidate in candidates:
        name = candidate.device.name
        match = candidate.match
        if match.matches is False:  # not None, which means unknown
            mismatches = tuple(_compare(test, value, detector) for test, value in match.mismatches)
            # A mismatch shows the device's value, match.reason does not. No mismatch: an `except` table excludes it.
            reason = "; ".join(map(str, mismatches)) if mismatches else match.reason
            rejections.append(Rejection(name, reason, mismatches))
        elif match.error is not None:
            advice = _advice(resource, match.error, unreadable_key=match.unreadable_key)
            undetermined.append(Undetermined(name, match.reason, advice, match.detail))
    hints = tuple(dict.fromkeys(_hints(host, resource, candidates)))  # without duplicates
    explanation = Explanation(hints=hints) if hints else None
    if isinstance(reading, Unknown):
        counted = tuple(candidate.contribution for candidate in candidates if candidate.contribution)
        explanation = Explanation(undetermined=tuple(undetermined), counted=counted, hints=hints)
    return replace(reading, rejections=tuple(rejections), explanation=explanation)


def explain_when(
    resource: Resource, reading: Absent | Unknown, *, result: MatchResult, read: Callable[[str], Value]
) -> Reading:
    """Adds the result of each test of `when` to the reading.

    reading: Absent if the resource does not apply to this machine, Unknown if it may apply. result: that of all tests
    together. read: returns the machine's value for a key.
    """
    compared = []
    for test in resource.when:  # all tests, because the result contains only the test that decided
        try:
            compared.append(_compare(test, read(test.key), detector=None))
        except HostError as e:
            error = f"{e}; {e.detail}" if e.detail else str(e)
            compared.append(Comparison(test.key, value=error, wanted=test.text, matches=None))  # None: unknown
    advice = ""
    if result.error:
        advice = _errno_advice(result.error) or f'test another key in "when" if this lasts; {_SERVICE_RETRIES}'
    hints = tuple(hint for test, value in result.mismatches for hint in _near_misses(test, value))
    return replace(reading, explanation=Explanation(when=tuple(compared), advice=advice, hints=hints))


def explain_error(resource: Resource, error: HostError) -> Unknown:
    """The reading of a resource whose detector could not read the machine."""
    explanation = Explanation(error.detail, advice=_advice(resource, error, unreadable_key=""))
    return Unknown(str(error), error.cause, explanation=explanation)


def _hints(host: Host, resource: Resource, candidates: Sequence[Candidate]) -> Iterator[str]:
    """Yields hints at probable mistakes in the configuration.

    If a device counts, the mistake is an `except` table that excludes nothing. If no device counts, the mistake is a
    pattern that is similar to a device's value.
    """
    if any(candidate.contribution for candidate in candidates):
        matches = [candidate.match for candidate in candidates]
        may_exclude = any(match.except_tests or match.matches is None for match in matches)
        if resource.excepts and not may_exclude:
            yield "except excludes none of the devices that match"
        return
    for candidate in candidates:
        for test, value in candidate.match.mismatches:
            yield from _near_misses(test, value)
            if test.key in ("name", "interface"):
                yield from _other_names(host, candidate.device.path, test=test, kernel_name=value)


def _other_names(host: Host, path: str, *, test: KeyMatcher, kernel_name: Value) -> Iterator[str]:
    """Yields a hint for each of a device's udev properties whose value is the configured name.

    udev knows several names of an interface, for example ID_NET_NAME_PATH, and the kernel accepts them as alternative
    names. Yields nothing if udev does not know the device.
    """
    properties: Mapping[str, str] = {}
    if path.startswith("/sys/"):  # udev has no properties of other devices
        with suppress(HostError):
            properties = host.properties(path)
    for key, text in properties.items():
        if text and text in test.patterns:
            advice = f'write "{kernel_name}", or properties = {{ {key} = "{text}" }}'
            yield f'{test.key}: "{text}" is another name of "{kernel_name}"; {advice}'


def _near_misses(test: KeyMatcher, value: Value) -> Iterator[str]:
    """Yields a hint for each text of a value that nearly matches the test: the text differs from the pattern only in
    case, begins with the pattern, or would match if the pattern were a regular expression.

    value: a value that the test does not match.
    """
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, tuple):  # a number or a flag, or missing
        return
    for text, pattern in product(texts, test.patterns):
        in_any_case = GlobMatcher(pattern.lower(), ignore_case=True)
        regex_as_glob = pattern.replace(".*", "*")
        if in_any_case.matches(text):
            yield f'{test.key}: "{pattern}" differs from "{text}" in upper and lower case'
        elif pattern and text.lower().startswith(pattern.lower()):
            glob = f"{text[: len(pattern)]}*"
            yield f'{test.key}: "{pattern}" is only the beginning of "{text}"; "{glob}" would match'
        elif ".*" in pattern and GlobMatcher(regex_as_glob).matches(text):
            would_match = f'"{regex_as_glob}" would match "{text}"'
            yield f'{test.key}: "{pattern}" is not a regular expression, so "." is a dot; {would_match}'


def _compare(test: KeyMatcher, value: Value, detector: DeviceDetector | None) -> Comparison:
    """The comparison of a value with a test. detector: None for a test of `when`."""
    value_text = describe_value(value)
    is_default = False
    if detector is not None and test.key in detector.keys:  # attributes.NAME is a text without a default
        kind = detector.keys[test.key].kind
        if isinstance(kind, Amount) and isinstance(value, int):
            value_text = _in_unit(test, value, units=UNITS[kind.dimension])
        if test.key in detector.defaults:
            default_matchers = kind.parse(detector.defaults[test.key])
            is_default = test.matchers == default_matchers
    return Comparison(test.key, value=value_text, wanted=test.text, matches=test.matches(value), default=is_default)


def _in_unit(test: KeyMatcher, value: int, *, units: Mapping[str, int]) -> str:
    """An amount in the test's unit. If the amount is rounded, adds the exact amount in base units.

    units: name of a unit -> its size in base units. The first unit is the base unit.
    """
    unit_match = _UNIT.search(test.text)
    if unit_match is None or unit_match[0] not in units:
        return describe_value(value)
    unit = unit_match[0]
    factor = units[unit]
    if value % factor == 0:
        return f"{value // factor} {unit}"
    base_unit = next(iter(units))
    return f"{value / factor:.4g} {unit} ({value} {base_unit})"


def _advice(resource: Resource, error: HostError, *, unreadable_key: str) -> str:
    """How to fix an error. unreadable_key: the key that could not be read; "" if the detector or the measure failed."""
    advice = _errno_advice(error)
    if advice:
        return advice
    if error.cause is Cause.NOT_TRUSTED:
        return f"do what the message says at its end; {_SERVICE_RETRIES}"
    if error.cause is Cause.NO_MEASURE:
        return f"set fallback: the {resource.measure} to assume for a device that does not report it"
    if resource.detector == "file":
        return f"check what writes the file; {_SERVICE_RETRIES}"
    if resource.detector == "exec":
        limit = f"here it may use {MAX_MEMORY >> 20} MiB of memory"
        return f"run the program by hand and read its output; {limit}; {_SERVICE_RETRIES}"
    if not unreadable_key:
        return f"check what the message names; {_SERVICE_RETRIES}"
    return f'add a key that excludes the device, or match by another key than "{unreadable_key}"; {_SERVICE_RETRIES}'


def _errno_advice(error: HostError) -> str:
    """What to do about the error's number; "" if the number suggests nothing."""
    if isinstance(error, NotRecorded):
        return "run it on the recorded machine: a recording contains only the files that detectors read"
    if error.errno in (errno.EACCES, errno.EPERM) and os.geteuid() != 0:
        return "run it as root, as the service does"
    if error.errno in _NOT_RESPONDING:
        return f"the device or its driver does not respond; dmesg may say more, and {_SERVICE_RETRIES}"
    return ""
