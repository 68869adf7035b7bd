"""One resource's reading from the machine: which devices count, for how much, and the quantity they make.

Quantity = floor(reduce(measure x slots) - reserve), at least 0, in exact whole-number arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from capacityd.detectors import load
from capacityd.errors import HostError
from capacityd.host import Host
from capacityd.kinds import Glob, Test
from capacityd.match import Verdict, holds, judge
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
    ValueDetector,
)
from capacityd.quantity import LARGEST, number_in, storable

_LOOKS = 3  # at most, when devices go away while they are looked at


def read_resource(resource: Resource, host: Host, node_name: str, explain: bool = False) -> Reading:
    """The reading of one resource. explain: also which devices did not count, and why.

    Never raises HostError: what can't be read makes the resource unknown.
    """
    try:
        reading = _concern(resource, host, node_name, explain)
        if reading is not None:
            return reading
        detector = load(resource.detector)
        if isinstance(detector, ValueDetector):
            return _read_values(resource, detector, host)
        return _read_devices(resource, detector, host, explain)
    except HostError as e:
        if not explain:
            return Unknown(str(e))
        from capacityd.explain import failed

        return failed(resource, e)


def _concern(resource: Resource, host: Host, node_name: str, explain: bool) -> Reading | None:
    """The reading of a resource that does not concern this machine, or of which that can't be told."""

    def read(key: str) -> Value:
        return _machine_value(host, node_name, resource.when, key)

    verdict = holds(resource.when, read)
    if verdict.counts:
        return None
    reading = (
        Unknown(f"when: {verdict.reason}")
        if verdict.counts is None
        else Absent(f"does not concern this machine: {verdict.reason}")
    )
    if not explain:
        return reading
    from capacityd.explain import unconcerned

    return unconcerned(resource, read, verdict, reading)


def candidates(resource: Resource, detector: DeviceDetector, host: Host) -> Iterable[Device]:
    """All devices that may count. Raises HostError."""
    scope = detector.scope
    return detector.find(host) if scope is None else scope.find(host, resource.named(scope.key))


def value_of(host: Host, detector: DeviceDetector, device: Device, key: str) -> Value:
    """What a device says under a key, attributes.NAME and properties.NAME included. Raises HostError."""
    group, _, name = key.partition(".")
    if group in ("attributes", "properties"):
        if not device.path.startswith("/sys/"):
            return None  # nothing that udev knows, such as a file system in memory
        return host.text(f"{device.path}/{name}") if group == "attributes" else host.properties(device.path).get(name)
    return detector.keys[key].read(host, device)


def _machine_value(host: Host, node_name: str, when: tuple[Test, ...], key: str) -> Value:
    """What the machine says under a key of "when"."""
    group, _, name = key.partition(".")
    if group == "dmi":
        return host.text(f"/sys/class/dmi/id/{name}")
    if group == "devicetree":
        return tuple(host.lines(f"/proc/device-tree/{name}"))
    if group == "path":
        asked = [p.pattern for test in when if test.key == key for p in test.patterns if isinstance(p, Glob)]
        return tuple(path for path in asked if host.resolve(path))
    return host.arch() if group == "arch" else node_name


def _read_values(resource: Resource, detector: ValueDetector, host: Host) -> Reading:
    found = [detector.read(host, table.settings) for table in resource.tables]
    return _quantity(resource, [(e, int(e.contributes)) for e in found])


def _read_devices(resource: Resource, detector: DeviceDetector, host: Host, explain: bool) -> Reading:
    """Looks anew when a device went away meanwhile: half of what it said is no truth, and it may have been the path
    by which a disk of several was seen."""
    for _ in range(_LOOKS):
        try:
            return _read_devices_once(resource, detector, host, explain)
        except _GoneError as e:
            gone = str(e)
    return Unknown(f"{gone} went away while it was looked at, {_LOOKS} times in a row")


class _GoneError(Exception):
    """The device of this name is no more."""


def _read_devices_once(resource: Resource, detector: DeviceDetector, host: Host, explain: bool) -> Reading:
    counted: list[tuple[Evidence, int]] = []
    looked: list[tuple[Device, Callable[[str], Value], Verdict]] = []
    doubts: list[str] = []
    seen = 0
    for device in candidates(resource, detector, host):
        seen += 1
        read = _reader(host, detector, device)
        verdict = judge(resource.tables, resource.excepts, read)
        if verdict.counts:
            verdict = _measure(host, resource, device, read, counted)
        if verdict.counts is None and host.resolve(device.path) is None:
            raise _GoneError(device.name)
        if verdict.counts is None:
            doubts.append(f"{device.name}: {verdict.reason}")
        if explain:
            looked.append((device, read, verdict))
    scope = resource.named(detector.scope.key) if detector.scope else ()
    reading = _devices_reading(resource, " ".join((detector.name, *scope)), seen, doubts, counted)
    if not explain:
        return reading
    from capacityd.explain import explained

    return explained(resource, detector, looked, [e for e, _ in counted], reading)


def _devices_reading(
    resource: Resource, name: str, seen: int, doubts: Sequence[str], counted: Sequence[tuple[Evidence, int]]
) -> Reading:
    """name: of what was looked for."""
    if doubts:
        return Unknown(doubts[0] + (f" (and {len(doubts) - 1} more)" if len(doubts) > 1 else ""))
    if counted:
        return _quantity(resource, counted)
    return Absent(f"none of {seen} {name} devices matches" if seen else f"the machine has no {name} device")


def _reader(host: Host, detector: DeviceDetector, device: Device) -> Callable[[str], Value]:
    """Reads each key at most once: several tables may ask for it, and it may change in between."""
    known: dict[str, Value] = {}

    def read(key: str) -> Value:
        if key not in known:
            known[key] = value_of(host, detector, device, key)
            if known[key] in (None, "", ()) and host.resolve(device.path) is None:
                raise _GoneError(device.name)
        return known[key]

    return read


def _measure(
    host: Host, resource: Resource, device: Device, read: Callable[[str], Value], counted: list[tuple[Evidence, int]]
) -> Verdict:
    """Adds a device that matches to those counted, or says why it can't be known for how much."""
    note, value = "", 1
    if resource.measure is not None:
        try:
            measured = read(resource.measure)
            reason = f"has no {resource.measure}"
            if isinstance(measured, str):  # an attribute or a property
                reason = f'{resource.measure} is "{measured[:60]}", not a whole number' if measured else reason
                measured = number_in(measured)
        except HostError as e:
            measured, reason = None, str(e)
        if not isinstance(measured, int):
            if resource.fallback is None or host.resolve(device.path) is None:
                return Verdict(None, error=HostError(f"{reason}; fallback says what it counts for then"))
            measured, note = resource.fallback, f"fallback: {reason}"
        value = measured
    factor = resource.unit.factor if resource.unit else 1
    share = value * resource.slots
    contributes = share // factor if share % factor == 0 else round(share / factor, 3)
    counted.append((Evidence(device.name, contributes, note), share))
    return Verdict(True)


def _quantity(resource: Resource, counted: Sequence[tuple[Evidence, int]]) -> Reading:
    shares = [share for _, share in counted]
    total = sum(shares) if resource.reduce == "sum" else min(shares) if resource.reduce == "min" else max(shares)
    factor = resource.unit.factor if resource.unit else 1
    part, whole = resource.reserve.share
    # total/factor - reserve, with the share of the total taken off first, rounded down once at the end
    value = (total * (whole - part) - resource.reserve.units * factor * whole) // (factor * whole)
    evidence = tuple(e for e, _ in counted)
    if value > LARGEST or not storable(max(0, value)):
        larger = "; take a larger unit" if resource.unit else ""
        return Unknown(f"{value} is more than Kubernetes can count{larger}")
    warning = ""
    if value <= 0:
        unit = f" {resource.unit.name}" if resource.unit else ""
        warning = f"what was found is less than 1{unit} after the reserve, so 0 is published" if total else ""
    return Quantity(max(0, value), evidence, warning=warning)
