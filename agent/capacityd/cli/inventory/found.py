"""Reads the devices of each detector in a child process, so that a read that hangs affects only one detector."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from capacityd.discovery.child import MAX_BUSY, Child, start_child, wait_for_any
from capacityd.discovery.reader import value_of
from capacityd.model.errors import HostError
from capacityd.model.host import Host, resolve_link
from capacityd.model.reading import Unknown
from capacityd.schema.config import Resource
from capacityd.schema.device import Device, DeviceDetector
from capacityd.schema.matchers import Value, is_missing

_VENDOR_PROPERTY = "ID_VENDOR_FROM_DATABASE"  # set by udev, see hwdb(7)
_MODEL_PROPERTY = "ID_MODEL_FROM_DATABASE"


@dataclass(frozen=True, slots=True)
class FoundDevice:
    """A device that a detector has found, with its values and names."""

    name: str
    path: str
    values: Mapping[str, Value]
    """Key -> value, without the keys that the device lacks."""
    unread: Mapping[str, str]
    """Each key whose value could not be read -> why."""
    uncertain_because: str
    """Why the device may not count: it has disappeared, or may be another path to a listed device. "" if it counts."""
    vendor: str
    """The vendor's name for people, from the hardware database, hwdb(7), or the device itself; "" if unknown."""
    model: str
    """The model's name for people, from the same sources; "" if unknown."""

    @property
    def title(self) -> str:
        """Vendor and model, or only the model if it begins with the vendor's name. "" if both are unknown."""
        vendors_first_word = self.vendor.partition(" ")[0].rstrip(",")
        model_names_vendor = self.model.lower().startswith(vendors_first_word.lower())
        if self.vendor and model_names_vendor:
            return self.model
        return f"{self.vendor} {self.model}".strip()

    def get(self, key: str) -> Value:
        """The value; None if the device lacks the key, or if the value could not be read."""
        return self.values.get(key)

    def read(self, key: str) -> Value:
        """The value; None if the device lacks the key. Raises HostError if the value could not be read."""
        if key in self.unread:
            raise HostError(self.unread[key])
        return self.values.get(key)


@dataclass(frozen=True, slots=True)
class FoundDevices:
    """The devices of a detector."""

    devices: tuple[FoundDevice, ...]
    error: str
    """Why devices may be missing; "" if all were found."""


def find_all(host: Host, detectors: Sequence[DeviceDetector]) -> dict[str, FoundDevices]:
    """Name of each detector -> its devices. If a detector does not end in time, it has an error and no devices."""
    found: dict[str, FoundDevices] = {}
    running: dict[int, Child] = {}  # file descriptor of the child's pipe -> child, as wait_for_any() requires
    # Limit for a child that is busy. A child that is blocked is killed after some seconds.
    busy_until = time.monotonic() + MAX_BUSY
    try:
        for detector in detectors:
            # start_child() needs a resource. This resource only names the detector.
            resource = Resource(f"devices/{detector.name}", detector=detector.name, tables=())
            read = partial(find, host, detector)
            started = start_child(resource, read, explain=True, busy_until=busy_until)
            if isinstance(started, Unknown):
                found[detector.name] = _not_found(started)
            else:
                running[started.pipe] = started
        while running:
            for child in wait_for_any(running):
                del running[child.pipe]
                result = child.finish(FoundDevices | Unknown)
                if isinstance(result, Unknown):
                    result = _not_found(result)
                found[child.resource.detector] = result
    finally:
        for child in running.values():
            child.kill()
    return found


def _not_found(unknown: Unknown) -> FoundDevices:
    return FoundDevices(devices=(), error=unknown.reason)


def find(host: Host, detector: DeviceDetector) -> FoundDevices:
    """The devices of a detector, read in this process."""
    devices: list[Device] = []
    error = ""
    try:
        for device in detector.find(host):
            devices.append(device)  # noqa: PERF402  # list(…) would lose the devices that come before an error
    except HostError as e:
        error = str(e)
    return FoundDevices(tuple(_read_device(host, detector, device) for device in devices), error=error)


def _read_device(host: Host, detector: DeviceDetector, device: Device) -> FoundDevice:
    values: dict[str, Value] = {}
    unread: dict[str, str] = {}
    lacking: list[str] = []  # keys without a value
    for key in detector.keys:
        try:
            value = value_of(host, detector, device, key)
        except HostError as e:
            unread[key] = str(e)
            continue
        if is_missing(value):  # None or empty; False and 0 are values
            lacking.append(key)
        else:
            values[key] = value
    uncertain_because = device.uncertain_because
    if lacking:
        # A device that disappears while it is read looks as if it lacked keys.
        gone_because = _why_gone(host, device)
        if gone_because:
            uncertain_because = gone_because
            unread |= dict.fromkeys(lacking, gone_because)
    vendor, model = _vendor_and_model(host, detector, device, values)
    return FoundDevice(
        name=device.name,
        path=device.path,
        values=values,
        unread=unread,
        uncertain_because=uncertain_because,
        vendor=vendor,
        model=model,
    )


def _why_gone(host: Host, device: Device) -> str:
    """Why the device can't be read: it has disappeared, or its link is dangling. "" if it exists."""
    try:
        exists = resolve_link(host, device.path)
    except HostError as e:
        return str(e)
    return "" if exists else "it disappeared while it was read"


def _vendor_and_model(
    host: Host, detector: DeviceDetector, device: Device, values: Mapping[str, Value]
) -> tuple[str, str]:
    """Vendor and model from udev's hardware database, hwdb(7), or else from the device itself; "" if unknown."""
    in_database: Mapping[str, str] = {}
    if "vendor" in detector.model_keys:
        with suppress(HostError):  # udev does not know the device (yet)
            in_database = host.properties(device.path)
    vendor = in_database.get(_VENDOR_PROPERTY) or _text_in(values, detector.vendor_name_key)
    model = in_database.get(_MODEL_PROPERTY) or _text_in(values, detector.model_name_key)
    return vendor, model


def _text_in(values: Mapping[str, Value], key: str | None) -> str:
    """The text of a key; "" if the key has no text. key: None if the detector declares no such key."""
    text = None if key is None else values.get(key)
    return text if isinstance(text, str) else ""
