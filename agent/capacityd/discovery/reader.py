"""Reads one resource from the machine: which devices count, how much each counts, and the total quantity.

Quantity = floor(reduce(measure x slots) - reserve), at least 0, in exact integer arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from capacityd.detectors import load
from capacityd.discovery.explain import explain_devices, explain_error, not_applicable, with_other_names
from capacityd.discovery.matcher import MatchResult, match_all, match_device, with_doubt
from capacityd.model.config import Resource
from capacityd.model.device import Device, DeviceDetector, ValueDetector
from capacityd.model.errors import Cause, HostError
from capacityd.model.host import Host, resolve_link
from capacityd.model.matchers import GlobMatcher, KeyMatcher, Value
from capacityd.model.private import Private, extent, how_to_see, quoted
from capacityd.model.quantity import countable, number_in
from capacityd.model.reading import Absent, Contribution, Quantity, Reading, Unknown
from capacityd.model.text import has_escapes, strip_control

_MAX_ATTEMPTS = 3
"""Attempts to read a resource if devices disappear in the meantime."""


def read_resource(resource: Resource, host: Host, node_name: str, *, explain: bool = False) -> Reading:
    """The reading of one resource. explain: whether to add the uncounted devices and the explanation.

    Never raises HostError: unreadable data makes the resource unknown.
    """
    try:
        if (reading := _reading_of_when(resource, host, node_name, explain=explain)) is not None:
            return reading
        detector = load(resource.detector)
        if isinstance(detector, ValueDetector):
            contributions = [detector.read(host, table.settings) for table in resource.tables]
            return _quantity(resource, [(c, int(c.amount)) for c in contributions])
        return _read_devices(resource, detector, host, explain=explain)
    except HostError as e:
        return explain_error(resource, e) if explain else Unknown(str(e) + how_to_see(e.detail), e.cause)


def _reading_of_when(resource: Resource, host: Host, node_name: str, *, explain: bool) -> Reading | None:
    """The reading of a resource whose `when` excludes, or may exclude, this machine; None if the resource applies."""

    def read(key: str) -> Value:
        return _machine_value(host, node_name, resource.when, key)

    result = match_all(resource.when, read)
    if result.matches:
        return None
    reading = (
        Unknown(f"when: {result.reason}{'' if explain else how_to_see(result.detail)}", result.cause)
        if result.matches is None
        else Absent(f"does not apply to this machine: {result.reason}", applies=False)
    )
    return not_applicable(resource, read, result, reading) if explain else reading


def candidates(resource: Resource, detector: DeviceDetector, host: Host) -> Iterable[Device]:
    """Yields every device that may count. Raises HostError."""
    scope = detector.scope
    return detector.find(host) if scope is None else scope.find(host, resource.literals(scope.key))


def value_of(host: Host, detector: DeviceDetector, device: Device, key: str) -> Value:
    """A device's value for a key, which may be attributes.NAME or properties.NAME. Raises HostError."""
    group, _, name = key.partition(".")
    if group in ("attributes", "properties"):
        if not device.path.startswith("/sys/"):
            return None  # not a udev device, for example a file system in memory
        return host.text(f"{device.path}/{name}") if group == "attributes" else host.property(device.path, name)
    return detector.keys[key].read(host, device)


def _machine_value(host: Host, node_name: str, when: tuple[KeyMatcher, ...], key: str) -> Value:
    """The machine's value for a key of `when`."""
    group, _, name = key.partition(".")
    if group == "dmi":
        return _dmi_value(host, f"/sys/class/dmi/id/{name}")
    if group == "devicetree":
        return tuple(host.lines(f"/proc/device-tree/{name}"))
    if group == "path":
        wanted = [p.pattern for test in when if test.key == key for p in test.matchers if isinstance(p, GlobMatcher)]
        return _existing(host, wanted)
    return host.arch() if group == "arch" else node_name


def _existing(host: Host, paths: Iterable[str]) -> tuple[str, ...]:
    """The paths that exist. Raises HostError if none is known to exist and at least one could not be checked."""
    existing, error = [], None
    for path in paths:
        try:
            if host.exists(path):
                existing.append(path)
            elif hidden := host.sandbox_advice([path]):
                raise HostError(f"{path} may exist{hidden}")
        except HostError as e:
            error = error or e
    if error and not existing:
        raise error
    return tuple(existing)


def _dmi_value(host: Host, path: str) -> str | None:
    """A DMI text. Vendors leave fields unset in many ways, so control characters at both ends are ignored.

    Raises HostError if the text is not printable: it may be garbage, which must not decide anything. Also if the
    link to the folder is dangling.
    """
    text = host.text(path)
    if text is None:
        resolve_link(host, path.rpartition("/")[0])
    text = strip_control(text or "")
    if has_escapes(text):
        raise HostError(
            f"{path} contains unprintable characters ({extent(text)}); test another key: "
            '"capacityd probe --explain" shows the values of all keys of "when"',
            detail=f"it contains {quoted(text)}",
        )
    return text or None


def _read_devices(resource: Resource, detector: DeviceDetector, host: Host, *, explain: bool) -> Reading:
    """Reads the devices; reads all of them again if one disappears in the meantime.

    Partial data must not be used, and the device may have been one of several paths to a disk. If a device disappears
    in every attempt, the known values decide, such as its name.
    """
    for _ in range(_MAX_ATTEMPTS - 1):
        with suppress(_DisappearedError):
            return _read_devices_once(resource, detector, host, _DisappearedError, explain=explain)
    return _read_devices_once(resource, detector, host, HostError, explain=explain)


class _DisappearedError(Exception):
    """A device no longer exists, so all devices must be read again."""


def _read_devices_once(
    resource: Resource, detector: DeviceDetector, host: Host, disappeared_error: type[Exception], *, explain: bool
) -> Reading:
    """Reads the devices in one attempt.

    disappeared_error: the exception to raise for a value of a device that no longer exists. HostError makes the value
    unknown.
    """
    counted: list[tuple[Contribution, int]] = []
    devices: list[tuple[Device, MatchResult]] = []
    unknown: list[Unknown] = []
    total = 0
    for device in candidates(resource, detector, host):
        total += 1
        read = _cached_reader(host, detector, device, disappeared_error)
        result = with_doubt(match_device(resource.tables, resource.excepts, read), device.may_be_duplicate)
        if result.matches:
            try:
                counted.append(_measure(host, resource, device, read))
            except _NoMeasureError as e:
                result = MatchResult(matches=None, error=e)
        if result.matches is None:
            if disappeared_error is _DisappearedError and host.resolve(device.path) is None:
                raise _DisappearedError
            where = "" if explain else how_to_see(result.detail)
            unknown.append(Unknown(f"{device.name}: {result.reason}{where}", result.cause))
        if explain:
            devices.append((device, result))
    scope = resource.literals(detector.scope.key) if detector.scope else ()
    kind = " ".join((detector.name, *scope))
    elsewhere = detector.scope.elsewhere(host, scope) if detector.scope and not total else ""
    why_none = f"none of {total} {kind} devices matches" if total else f"the machine has no {kind} device{elsewhere}"
    reading = _devices_reading(resource, why_none, unknown, counted)
    if not explain:
        return reading
    reading = explain_devices(resource, detector, devices, [c for c, _ in counted], reading)
    return with_other_names(host, devices, reading)


def _devices_reading(
    resource: Resource, why_none: str, unknown: Sequence[Unknown], counted: Sequence[tuple[Contribution, int]]
) -> Reading:
    """The reading of the devices. why_none: if none counts. unknown: one for each undetermined device."""
    if unknown:
        more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
        return Unknown(unknown[0].reason + more, unknown[0].cause)
    if counted:
        return _quantity(resource, counted)
    return Absent(why_none)


def _cached_reader(
    host: Host, detector: DeviceDetector, device: Device, disappeared_error: type[Exception]
) -> Callable[[str], Value]:
    """A reader that reads each key at most once: several tables may test a key, and its value may change in between."""
    cache: dict[str, Value] = {}

    def read(key: str) -> Value:
        if key not in cache:
            cache[key] = value_of(host, detector, device, key)
            if cache[key] in (None, "", ()) and resolve_link(host, device.path) is None:
                raise disappeared_error(f"it disappeared during each of {_MAX_ATTEMPTS} attempts to read it")
        return cache[key]

    return read


class _NoMeasureError(HostError):
    """A device does not report the measure, and there is no fallback."""


def _measure(host: Host, resource: Resource, device: Device, read: Callable[[str], Value]) -> tuple[Contribution, int]:
    """The contribution of a matching device, and its share in base units. Raises _NoMeasureError."""
    note, value, detail = "", 1, ""
    if resource.measure is not None:
        try:
            measured = read(resource.measure)
            reason = f"has no {resource.measure}"
            if isinstance(measured, str):  # an attribute or a property
                if measured:
                    reason = f"{resource.measure} is not a whole number ({extent(measured)})"
                    detail = f"it is {quoted(measured)}"
                measured = number_in(measured)
        except HostError as e:
            measured, reason, detail = None, str(e), e.detail.text
        if not isinstance(measured, int):
            if resource.fallback is None or host.resolve(device.path) is None:
                why = f"{reason}; fallback sets a value for such devices"
                raise _NoMeasureError(why, cause=Cause.NO_MEASURE, detail=detail)
            measured, note = resource.fallback, f"fallback: {reason}"
        value = measured
    factor = resource.unit.factor if resource.unit else 1
    share = value * resource.slots
    amount = share // factor if share % factor == 0 else round(share / factor, 3)
    return Contribution(device.name, amount, note, Private(detail if note else "")), share


def _quantity(resource: Resource, counted: Sequence[tuple[Contribution, int]]) -> Reading:
    shares = [share for _, share in counted]
    value = resource.quantity_of(shares)
    contributions = tuple(c for c, _ in counted)
    if not countable(value):
        larger = "; use a larger unit" if resource.unit else ""
        return Unknown(f"{value} is more than Kubernetes can count{larger}", Cause.TOO_LARGE)
    warning = ""
    if value <= 0:
        unit = f" {resource.unit.name}" if resource.unit else ""
        warning = f"less than 1{unit} remains after the reserve, so 0 is published" if resource.reduced(shares) else ""
    limits = [c.valid_for for c in contributions if c.valid_for is not None]
    return Quantity(max(0, value), contributions, warning=warning, valid_for=min(limits, default=None))
