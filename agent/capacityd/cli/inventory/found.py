"""Reads the devices of detectors, each detector in a child process: a read that hangs concerns only its detector."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from capacityd.discovery.child import MAX_RUNNING, Child, start_child, wait_for_any
from capacityd.discovery.reader import value_of
from capacityd.model.config import Resource
from capacityd.model.device import Device, DeviceDetector
from capacityd.model.errors import AmbiguousValue, HostError
from capacityd.model.host import Host, resolve_link
from capacityd.model.matchers import Value
from capacityd.model.reading import Unknown

_VENDOR, _MODEL = "ID_VENDOR_FROM_DATABASE", "ID_MODEL_FROM_DATABASE"


@dataclass(frozen=True, slots=True)
class Unread:
    """A value that could not be read."""

    reason: str
    possible: tuple[str, ...] = ()
    """The values that are possible; empty: any value."""


@dataclass(frozen=True, slots=True)
class FoundDevice:
    """A device and all that is known about it."""

    name: str
    path: str
    values: Mapping[str, Value]
    """Key -> value, without the keys that the device lacks."""
    unread: Mapping[str, Unread]
    """The keys whose values could not be read."""
    doubt: str
    """Why it is unknown whether this is a separate device; "" if it is separate."""
    vendor: str
    """The vendor's name in the hardware database, hwdb(7), or set by a rule of udev; "" if unknown."""
    model: str
    """The model's name, from the same place."""


@dataclass(frozen=True, slots=True)
class FoundDevices:
    """The devices of a detector."""

    devices: tuple[FoundDevice, ...]
    error: str
    """Why devices may be missing; "" if all were found."""


def find_all(host: Host, detectors: Sequence[DeviceDetector]) -> list[FoundDevices]:
    """The devices of each detector. If a detector does not end in time, its devices are unknown."""
    running: dict[int, Child] = {}
    found: dict[str, FoundDevices] = {}
    running_until = time.monotonic() + MAX_RUNNING
    try:
        for detector in detectors:
            resource = Resource(f"devices/{detector.name}", detector.name, ())
            child = start_child(resource, partial(find, host, detector), private=True, running_until=running_until)
            if isinstance(child, Child):
                running[child.pipe] = child
            else:
                found[detector.name] = _not_found(child)
        while running:
            for child in wait_for_any(running):
                del running[child.pipe]
                result = child.finish(FoundDevices | Unknown)
                found[child.resource.detector] = _not_found(result) if isinstance(result, Unknown) else result
    finally:
        for child in running.values():
            child.kill()
    return [found[detector.name] for detector in detectors]


def _not_found(result: Unknown) -> FoundDevices:
    return FoundDevices((), result.reason)


def find(host: Host, detector: DeviceDetector) -> FoundDevices:
    """The devices of a detector, read in this process."""
    devices, error = [], ""
    try:
        for device in detector.find(host):
            devices.append(device)  # noqa: PERF402  # devices before an error are listed
    except HostError as e:
        error = str(e)
    return FoundDevices(tuple(_found(host, detector, device) for device in devices), error)


def _found(host: Host, detector: DeviceDetector, device: Device) -> FoundDevice:
    values: dict[str, Value] = {}
    unread: dict[str, Unread] = {}
    missing: list[str] = []
    for key in detector.keys:
        try:
            value = value_of(host, detector, device, key)
        except HostError as e:
            unread[key] = Unread(str(e), e.possible if isinstance(e, AmbiguousValue) else ())
            continue
        if value in (None, "", ()):
            missing.append(key)
        else:
            values[key] = value
    doubt = device.doubt
    if missing and (gone := _why_gone(host, device)):
        doubt = gone
        unread |= dict.fromkeys(missing, Unread(gone))
    return FoundDevice(device.name, device.path, values, unread, doubt, *_names(host, detector, device))


def _why_gone(host: Host, device: Device) -> str:
    """Why the device has no values: it has disappeared, or its link is dangling; "" if it exists."""
    try:
        return "" if resolve_link(host, device.path) else "it disappeared while it was read"
    except HostError as e:
        return str(e)


def _names(host: Host, detector: DeviceDetector, device: Device) -> tuple[str, str]:
    """Vendor and model from the hardware database or, if only the machine's own rules know it, from udev."""
    names: Mapping[str, str] = {}
    if detector.modalias is not None:
        try:
            names = host.hardware_names(detector.modalias(host, device) or "")
            if _MODEL not in names:
                names = {**names, **host.properties(device.path)}
        except HostError:
            pass  # udev does not know the device (yet)
    return names.get(_VENDOR, ""), names.get(_MODEL, "")
