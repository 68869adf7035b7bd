"""Reads one resource from the machine: which devices count, how much each counts, and the total quantity.

Quantity = floor(reduce(measure x slots) - reserve), at least 0, in exact integer arithmetic.
measure, slots, reduce and reserve are settings of the resource.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from capacityd.detectors import load_detector
from capacityd.discovery.explain import explain_devices, explain_error
from capacityd.discovery.matcher import Candidate, MatchResult, match_device, unknown_if_uncertain
from capacityd.discovery.when import check_when
from capacityd.model.errors import Cause, HostError
from capacityd.model.host import Host, resolve_link, whole_number_in
from capacityd.model.quantity import is_countable
from capacityd.model.quoting import explain_hint
from capacityd.model.reading import Absent, Contribution, Explanation, Quantity, Reading, Unknown
from capacityd.schema.config import Resource
from capacityd.schema.device import SUBSYSTEM, Device, DeviceDetector, ValueDetector
from capacityd.schema.matchers import Value

_MAX_ATTEMPTS = 3
"""How many times a resource's devices are read at most, if some of them disappear in the meantime each time."""


def read_resource(resource: Resource, host: Host, node_name: str | None, *, explain: bool = False) -> Reading:
    """The reading of one resource. Never raises HostError: unreadable data makes the resource unknown.

    node_name: the Node's name, or None if it is unknown. explain: whether to add uncounted devices and an explanation.
    """
    try:
        reading = _read(resource, host, node_name, explain=explain)
    except HostError as e:
        reading = explain_error(resource, e)
    return reading if explain else _without_quotes(reading)


def _read(resource: Resource, host: Host, node_name: str | None, *, explain: bool) -> Reading:
    """The reading of one resource, which may quote what was read. Raises HostError."""
    reading = check_when(resource, host, node_name, explain=explain)
    if reading is not None:  # Absent: it does not apply to this machine. Unknown: it may apply
        return reading
    detector = load_detector(resource.detector)
    if isinstance(detector, ValueDetector):
        return _read_numbers(resource, detector, host)
    return _read_devices(resource, detector, host, explain=explain)


def _without_quotes(reading: Reading) -> Reading:
    """The part of a reading that every user may see: without quotes of what was read on the machine."""
    if isinstance(reading, Quantity):
        contributions = tuple(replace(contribution, detail="") for contribution in reading.contributions)
        return replace(reading, contributions=contributions)
    if isinstance(reading, Unknown) and reading.explanation is not None:
        hint = explain_hint(reading.explanation.detail)  # how to see the removed text; "" if there is none
        return replace(reading, reason=f"{reading.reason}{hint}", explanation=None)
    return reading


def _read_numbers(resource: Resource, detector: ValueDetector, host: Host) -> Reading:
    """The reading of a resource whose tables each name one number, such as one in a file. Raises HostError.

    Absent if the machine has none of these numbers.
    """
    numbers = [detector.read(host, table.settings) for table in resource.tables]
    contributions = [number for number in numbers if isinstance(number, Contribution)]
    absent = [number for number in numbers if isinstance(number, Absent)]
    if not contributions:
        return absent[0]
    shares = [int(contribution.amount) for contribution in contributions]  # a ValueDetector reads whole numbers
    return _quantity(resource, contributions, shares)


def value_of(host: Host, detector: DeviceDetector, device: Device, key: str) -> Value:
    """A device's value for a key, which may be attributes.NAME or properties.NAME. Raises HostError."""
    group, dot, name = key.partition(".")
    if not dot:
        return detector.keys[key].read(host, device)
    if not device.path.startswith("/sys/"):
        return None  # not a udev device, for example a file system in memory
    if group == "attributes":
        return _attribute(host, f"{device.path}/{name}")
    return host.property(device.path, name)


def _attribute(host: Host, path: str) -> str | None:
    """An attribute in /sys: the text of a file, or the name at the end of a link, such as driver or iommu_group.

    Returns None if the attribute is missing. Raises HostError, also for a folder.
    """
    text = host.text(path)
    if text is not None:
        return text
    folder = host.resolve(os.path.dirname(path))
    if folder is None:  # the device has disappeared
        return None
    target = resolve_link(host, path)
    if target is None:
        return None
    is_link = target != f"{folder}/{os.path.basename(path)}"
    if not is_link:
        raise HostError(f"{path} is a folder, or the device does not respond")
    return os.path.basename(target)


def _read_devices(resource: Resource, detector: DeviceDetector, host: Host, *, explain: bool) -> Reading:
    """The quantity of the devices that match. Raises HostError if the list of devices may be incomplete."""
    subsystems = resource.texts_for(SUBSYSTEM)
    find_in_subsystems = detector.find_in_subsystems
    for _ in range(_MAX_ATTEMPTS):
        devices = find_in_subsystems(host, subsystems) if find_in_subsystems else detector.find(host)
        candidates = [_candidate(host, resource, detector, device) for device in devices]
        undetermined = [candidate for candidate in candidates if candidate.match.matches is None]
        # If one path of a disk has disappeared, another path may count, so all devices are read again.
        still_exist = all(host.resolve(candidate.device.path) for candidate in undetermined)
        if still_exist:
            break
    contributions = [candidate.contribution for candidate in candidates if candidate.contribution]
    reading: Reading
    if undetermined:
        reading = _unknown_reading(undetermined)
    elif contributions:
        shares = [candidate.share for candidate in candidates if candidate.contribution]
        reading = _quantity(resource, contributions, shares)
    else:
        reading = Absent(_why_none_counts(detector, host, subsystems=subsystems, total=len(candidates)))
    return explain_devices(host, resource, detector, candidates, reading) if explain else reading


def _unknown_reading(undetermined: Sequence[Candidate]) -> Unknown:
    """The reading of a resource for which it is unknown whether these devices count."""
    first = undetermined[0]
    match = first.match
    more = f" (and {len(undetermined) - 1} more)" if len(undetermined) > 1 else ""
    return Unknown(f"{first.device.name}: {match.reason}{more}", match.cause, explanation=Explanation(match.detail))


def _why_none_counts(detector: DeviceDetector, host: Host, *, subsystems: Sequence[str], total: int) -> str:
    """Why no device counts.

    subsystems: those whose devices were enumerated; empty if the detector has no subsystems. total: the number of
    candidates.
    """
    searched = " ".join((detector.name, *subsystems))
    if total:
        return f"none of {total} {searched} devices matches"
    return f"the machine has no {searched} device{detector.hint_if_none(host, subsystems)}"


def _candidate(host: Host, resource: Resource, detector: DeviceDetector, device: Device) -> Candidate:
    """Whether a device counts for a resource, and how much."""
    read = _cached_reader(host, detector, device)
    match = match_device(resource.tables, excepts=resource.excepts, read=read)
    match = unknown_if_uncertain(match, device.uncertain_because)
    if not match.matches:
        return Candidate(device, match)
    try:
        return _counted_candidate(host, resource, device, match=match, read=read)
    except HostError as e:
        return Candidate(device, MatchResult(matches=None, error=e))


def _cached_reader(host: Host, detector: DeviceDetector, device: Device) -> Callable[[str], Value]:
    """Returns a function that reads each key at most once, so that all tables test the same value.

    That function raises HostError if the device has disappeared.
    """
    cache: dict[str, Value] = {}

    def read(key: str) -> Value:
        if key not in cache:
            value = value_of(host, detector, device, key)
            # A device that has disappeared has no files, so its values are missing, False or 0.
            may_have_disappeared = not value and key not in device.cached_values
            if may_have_disappeared and resolve_link(host, device.path) is None:  # HostError for a dangling link
                raise HostError(f"it disappeared during each of {_MAX_ATTEMPTS} attempts to read it")
            cache[key] = value
        return cache[key]

    return read


def _counted_candidate(
    host: Host, resource: Resource, device: Device, *, match: MatchResult, read: Callable[[str], Value]
) -> Candidate:
    """A device that matches, with its contribution.

    If the device has no value for the measure, uses the fallback. Raises HostError if there is no fallback, or if the
    device has disappeared.
    """
    measured = 1  # without a measure, each device counts as one
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
    is_whole = share % factor == 0
    amount = share // factor if is_whole else round(share / factor, 3)
    contribution = Contribution(device.name, amount, note=note, detail=detail)
    return Candidate(device, match, contribution, share)


def _whole_number(measure: str, value: Value) -> int:
    """A device's value for a measure, in base units. Raises HostError if the value is missing or not a whole number."""
    if isinstance(value, str) and value:  # an attribute or a property
        return whole_number_in(value, measure)
    if not isinstance(value, int):
        raise HostError(f"has no {measure}")
    return value


def _quantity(resource: Resource, contributions: Sequence[Contribution], shares: Sequence[int]) -> Reading:
    """The reading of a resource with these contributions.

    shares: the exact amount of each contribution in base units. Contribution.amount may be rounded.
    """
    value = resource.quantity_of(shares)
    if not is_countable(value):
        advice = "; use a larger unit" if resource.unit else ""
        return Unknown(f"{value} is more than Kubernetes can count{advice}", Cause.TOO_LARGE)
    warning = ""
    before_reserve = resource.reduced(shares)
    if value <= 0 and before_reserve != 0:
        unit = f" {resource.unit}" if resource.unit else ""
        warning = f"less than 1{unit} remains after the reserve, so 0 is published"
    valid_for = [contribution.valid_for for contribution in contributions if contribution.valid_for is not None]
    return Quantity(max(0, value), tuple(contributions), warning=warning, valid_for=min(valid_for, default=None))
