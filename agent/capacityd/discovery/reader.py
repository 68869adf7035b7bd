"""Reads one resource from the machine: which devices count, how much each counts, and the total quantity.

Quantity = floor(reduce(measure x slots) - reserve), at least 0, in exact integer arithmetic.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from capacityd.detectors import load_detector
from capacityd.discovery.explain import Match, explain_devices, explain_error, with_other_names
from capacityd.discovery.matcher import MatchResult, match_device, unknown_if_uncertain
from capacityd.discovery.when import reading_of_when
from capacityd.model.errors import Cause, HostError
from capacityd.model.host import Host, resolve_link, whole_number_in
from capacityd.model.quantity import countable
from capacityd.model.quoting import how_to_see
from capacityd.model.reading import Absent, Contribution, Quantity, Reading, Unknown
from capacityd.schema.config import Resource
from capacityd.schema.device import SUBSYSTEM, Device, DeviceDetector, ValueDetector
from capacityd.schema.matchers import Value, is_missing

_MAX_ATTEMPTS = 3
"""Attempts to read a resource if devices disappear in the meantime."""


def read_resource(resource: Resource, host: Host, node_name: str | None, *, explain: bool = False) -> Reading:
    """The reading of one resource. explain: whether to add the uncounted devices and the explanation.

    Never raises HostError: unreadable data makes the resource unknown.
    """
    try:
        not_applying = reading_of_when(resource, host, node_name, explain=explain)
        if not_applying is not None:
            return not_applying
        detector = load_detector(resource.detector)
        if isinstance(detector, ValueDetector):
            return _read_values(resource, detector, host, explain=explain)
        return _read_devices(resource, detector, host, explain=explain)
    except HostError as e:
        return explain_error(resource, e) if explain else Unknown(f"{e}{how_to_see(e.detail)}", e.cause)


def _read_values(resource: Resource, detector: ValueDetector, host: Host, *, explain: bool) -> Reading:
    """The quantity of the numbers that the tables name; Absent if the machine lacks all numbers. Raises HostError."""
    numbers = [detector.read(host, table.settings) for table in resource.tables]
    contributions = [number for number in numbers if isinstance(number, Contribution)]
    if not contributions:
        return next(number for number in numbers if isinstance(number, Absent))
    shares = [int(contribution.amount) for contribution in contributions]  # a ValueDetector reads whole numbers
    return _quantity(resource, contributions, shares=shares, explain=explain)


def value_of(host: Host, detector: DeviceDetector, device: Device, key: str) -> Value:
    """A device's value for a key, which may be attributes.NAME or properties.NAME. Raises HostError."""
    group, dot, name = key.partition(".")
    if not dot:
        return detector.keys[key].read(host, device)
    if not device.path.startswith("/sys/"):
        return None  # not a udev device, for example a file system in memory
    return _attribute(host, f"{device.path}/{name}") if group == "attributes" else host.property(device.path, name)


def _attribute(host: Host, path: str) -> str | None:
    """An attribute in /sys: the text of a file, or the name at the end of a link, such as driver or iommu_group.

    Returns None if the attribute is missing. Raises HostError, also for a folder.
    """
    text = host.text(path)
    if text is not None:
        return text
    name = os.path.basename(path)
    folder = host.resolve(os.path.dirname(path))
    target = resolve_link(host, path) if folder else None  # no folder: the device has disappeared
    if target is None:
        return None
    is_link = target != f"{folder}/{name}"
    if not is_link:
        raise HostError(f"{path} is a folder")
    return os.path.basename(target)


def _read_devices(resource: Resource, detector: DeviceDetector, host: Host, *, explain: bool) -> Reading:
    """Reads the devices. If a device disappears in the meantime, reads all devices again.

    If the device was one path of a disk with several paths, another path counts. If a device disappears in every
    attempt, only the values that find() has read are known, such as its name.
    """
    for _ in range(_MAX_ATTEMPTS - 1):
        with suppress(_DisappearedError):
            return _read_devices_once(resource, detector, host, is_last_attempt=False, explain=explain)
    return _read_devices_once(resource, detector, host, is_last_attempt=True, explain=explain)


class _DisappearedError(Exception):
    """A device no longer exists, so all devices must be read again."""


def _read_devices_once(
    resource: Resource, detector: DeviceDetector, host: Host, *, is_last_attempt: bool, explain: bool
) -> Reading:
    """Reads the devices in one attempt. Raises _DisappearedError, except in the last attempt."""
    subsystems = resource.texts_for(SUBSYSTEM) if detector.find_in else ()
    candidates = detector.find_in(host, subsystems) if detector.find_in else detector.find(host)
    contributions: list[Contribution] = []
    shares: list[int] = []  # of the devices in contributions, in base units
    matches: list[Match] = []  # only for the explanation
    unknown: list[Unknown] = []
    total = 0
    for device in candidates:
        total += 1
        read = _cached_reader(host, detector, device, is_last_attempt=is_last_attempt)
        match = match_device(resource.tables, excepts=resource.excepts, read=read)
        result = unknown_if_uncertain(match, device.uncertain_because)
        if result.matches:
            try:
                contribution, share = _contribution(host, resource, device, read=read)
                contributions.append(contribution)
                shares.append(share)
            except HostError as e:
                result = MatchResult(matches=None, error=e)
        if result.matches is None:
            if not is_last_attempt and host.resolve(device.path) is None:
                raise _DisappearedError
            where = "" if explain else how_to_see(result.detail)
            unknown.append(Unknown(f"{device.name}: {result.reason}{where}", result.cause))
        if explain:
            matches.append((device, result))
    if unknown:
        reading: Reading = _unknown_reading(unknown)
    elif contributions:
        reading = _quantity(resource, contributions, shares=shares, explain=explain)
    else:
        reading = Absent(_why_none(detector, host, subsystems=subsystems, total=total))
    if not explain:
        return reading
    reading = explain_devices(resource, detector, matches=matches, counted=contributions, reading=reading)
    return with_other_names(host, matches, reading)


def _unknown_reading(unknown: Sequence[Unknown]) -> Unknown:
    """The reading if it is unknown whether some devices count. unknown: the reason for each of these devices."""
    first = unknown[0]
    more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
    return Unknown(f"{first.reason}{more}", first.cause)


def _why_none(detector: DeviceDetector, host: Host, *, subsystems: Sequence[str], total: int) -> str:
    """Why no device counts. subsystems: the subsystems that were searched; empty if the detector searches everywhere.
    total: the number of candidates."""
    searched = " ".join((detector.name, *subsystems))
    if total:
        return f"none of {total} {searched} devices matches"
    return f"the machine has no {searched} device{detector.hint_if_none(host, subsystems)}"


def _cached_reader(
    host: Host, detector: DeviceDetector, device: Device, *, is_last_attempt: bool
) -> Callable[[str], Value]:
    """Returns a function that reads each key at most once, so that all tables test the same value.

    If the device has disappeared, that function raises _DisappearedError or, in the last attempt, HostError.
    """
    cache: dict[str, Value] = {}

    def read(key: str) -> Value:
        if key not in cache:
            value = value_of(host, detector, device, key)
            if is_missing(value) and resolve_link(host, device.path) is None:  # raises HostError for a dangling link
                if not is_last_attempt:
                    raise _DisappearedError
                raise HostError(f"it disappeared during each of {_MAX_ATTEMPTS} attempts to read it")
            cache[key] = value  # only now: a device that has disappeared has unknown values, not missing ones
        return cache[key]

    return read


def _contribution(
    host: Host, resource: Resource, device: Device, *, read: Callable[[str], Value]
) -> tuple[Contribution, int]:
    """The contribution of a matching device in the resource's unit, and the same amount in base units.

    Raises HostError if the device has no value for the measure. The fallback counts only if the device still exists.
    """
    measured = 1
    note = ""
    detail = ""
    if resource.measure is not None:
        try:
            measured = _whole_number(resource.measure, read(resource.measure))
        except HostError as e:
            detail = e.detail
            has_disappeared = host.resolve(device.path) is None
            if has_disappeared:
                raise
            if resource.fallback is None:
                why = f"{e}; fallback sets a value for such devices"
                raise HostError(why, cause=Cause.NO_MEASURE, detail=detail) from e
            measured = resource.fallback
            note = f"fallback: {e}"
    share = measured * resource.slots
    factor = resource.base_units
    amount = share // factor if share % factor == 0 else round(share / factor, 3)
    return Contribution(device.name, amount, note=note, detail=detail), share


def _whole_number(measure: str, value: Value) -> int:
    """A device's value for a measure, in base units. Raises HostError if the value is missing or not a whole number."""
    if isinstance(value, str) and value:  # an attribute or a property
        return whole_number_in(value, measure)
    if not isinstance(value, int):
        raise HostError(f"has no {measure}")
    return value


def _quantity(
    resource: Resource, contributions: Sequence[Contribution], *, shares: Sequence[int], explain: bool
) -> Reading:
    """The reading of a resource with these contributions.

    shares: the contributions in base units. explain: whether to keep the contributions' details.
    """
    value = resource.quantity_of(shares)
    if not countable(value):
        advice = "; use a larger unit" if resource.unit else ""
        return Unknown(f"{value} is more than Kubernetes can count{advice}", Cause.TOO_LARGE)
    warning = ""
    if value <= 0 and resource.reduced(shares) != 0:  # the sum of the devices does not exceed the reserve
        unit = f" {resource.unit}" if resource.unit else ""
        warning = f"less than 1{unit} remains after the reserve, so 0 is published"
    seconds = [contribution.valid_for for contribution in contributions if contribution.valid_for is not None]
    shown = contributions if explain else [replace(contribution, detail="") for contribution in contributions]
    return Quantity(max(0, value), tuple(shown), warning=warning, valid_for=min(seconds, default=None))
