"""The declaration of a detector: the devices that it finds, the keys that match them, and the measures."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from capacityd.model.host import Host, SystemDevices, link_name
from capacityd.model.reading import Absent, Contribution
from capacityd.model.reasons import KernelEvents
from capacityd.schema.matchers import Value
from capacityd.schema.setting_types import Setting
from capacityd.schema.value_types import Amount, Kind


@dataclass(frozen=True, slots=True)
class Device:
    """Something that a detector can count."""

    path: str
    """The device's location on the machine: usually a folder in /sys."""
    name: str
    """The device's name in messages."""
    read_system_devices: Callable[[], SystemDevices] | None = field(default=None, compare=False, repr=False)
    """Reads which devices of this kind the operating system depends on. Called only if the key `system` is needed,
    because the call reads every mount or route. All devices that find() yields share the result of one call. None: the
    device has no value of `system`."""
    cached_values: Mapping[str, Value] = field(default_factory=dict, compare=False, repr=False)
    """Values that the detector's find() has already read, by the names of their keys."""
    detector_data: object = field(default=None, compare=False, repr=False)
    """Data from find() for the functions that read the device's keys. Each detector has its own type of data."""
    uncertain_because: str = field(default="", compare=False)
    """Why find() may have yielded the same device before, with another path. It is then unknown whether this device
    counts. "": this is certainly a separate device."""


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """A device's value that the configuration can match."""

    kind: Kind
    """The type of the value."""
    read: Callable[[Host, Device], Value]
    """Reads the value. If the function raises HostError, it is unknown whether the device matches."""
    about: str
    """A description for the documentation and for messages, in lower case and without a full stop."""


def cached_key(name: str, kind: Kind, about: str) -> DeviceKey:
    """A key whose value find() has already stored in Device.cached_values under this name."""
    return DeviceKey(kind, lambda _, device: device.cached_values[name], about)


def read_name(_: Host, device: Device) -> Value:
    """Reads the device's name."""
    return device.name


def read_driver(host: Host, device: Device) -> Value:
    """Reads the name of the device's driver in /sys; None if the device has no driver."""
    return link_name(host, f"{device.path}/driver")


def is_system(_: Host, device: Device) -> Value:
    """Reads whether the operating system depends on the device; None if the device has no such value.

    Only for devices that SystemDevices lists by the names of their folders in /sys.
    """
    if device.read_system_devices is None:
        return None
    return device.read_system_devices().has(os.path.basename(device.path))


SUBSYSTEM = "subsystem"
"""The key with the exact names of udev subsystems. If a detector has the key, every table must contain it."""


@dataclass(frozen=True, slots=True)
class DeviceDetector:
    """A detector that enumerates devices. A configuration selects some of them by their keys."""

    name: str
    about: str
    find: Callable[[Host], Iterable[Device]]
    """Yields every candidate. Raises HostError at the end if candidates may be missing."""
    keys: Mapping[str, DeviceKey]
    """Key name -> key. A key of type Amount is also a measure."""
    identifying_keys: tuple[str, ...]
    """Keys that distinguish a device from all others. To match only that device, `devices` uses as few of these keys as
    possible, in this order. Empty: the detector's only device is the machine."""
    model_keys: tuple[str, ...]
    """Keys that have the same values for all devices of one model. `devices` uses them to match all these devices."""
    defaults: Mapping[str, object] = field(default_factory=dict)
    """Key -> its default, a TOML value, for each table below the detector's name that lacks the key."""
    attributes: tuple[str, ...] = ()
    """Names of files in the devices' folders in /sys that `record` saves for this detector, in addition to the files
    for all detectors (host/recording/contents.py). Reading these files does not block, access hardware or change
    anything."""
    udev_subsystems: tuple[str, ...] = ()
    """The subsystems whose udev events start a reconcile pass."""
    kernel_events: frozenset[KernelEvents] = frozenset()
    """Events of the kernel, other than udev's, that start a reconcile pass."""
    system_events: frozenset[KernelEvents] = frozenset()
    """Further such events, which start a reconcile pass only if a resource tests the key `system`."""
    find_in_subsystems: Callable[[Host, Collection[str]], Iterable[Device]] | None = None
    """Yields the candidates in these subsystems, which the key SUBSYSTEM names. Only events of these subsystems start a
    reconcile pass. None: the detector always enumerates all devices, and has no key SUBSYSTEM."""
    hint_if_none: Callable[[Host, Collection[str]], str] = lambda _host, _subsystems: ""
    """Takes subsystems without a device. Returns the end of a message that says what may be wrong; "" if there is
    no hint."""
    vendor_name_key: str | None = None
    """The key with the vendor's name, for `devices`. None: only udev's hardware database has a name."""
    model_name_key: str | None = None
    """The key with the model's name, for `devices`. None: only udev's hardware database has a name."""
    suggestion_filter: Mapping[str, object] = field(default_factory=dict)
    """Key -> TOML value of a test. `devices --toml` suggests a resource only for devices that pass all these tests."""
    shown_by_default: bool = True
    """Whether `devices` lists the detector's devices if no detector is given."""

    @property
    def measures(self) -> dict[str, Amount]:
        """The type of each measure."""
        return {name: key.kind for name, key in self.keys.items() if isinstance(key.kind, Amount)}


@dataclass(frozen=True, slots=True)
class ValueDetector:
    """A detector that reads one whole number, as its settings specify."""

    name: str
    about: str
    settings: Mapping[str, Setting]
    read: Callable[[Host, Mapping[str, object]], Contribution | Absent]
    """Takes the settings of a table. Returns the number and its source, or Absent if this machine has no such number.
    If the function raises HostError, the resource is unknown."""
    computed: Callable[[Mapping[str, object]], int] | None = None
    """Takes the settings of a table. Returns the number without reading the machine, for the check of the
    configuration. None: the number depends on the machine."""
    watched: str | None = None
    """The setting with the path of a file whose change starts a reconcile pass. None: there is no such file."""


Detector: TypeAlias = DeviceDetector | ValueDetector
