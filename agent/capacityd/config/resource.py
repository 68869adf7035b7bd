"""One resource: TOML -> model.Resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from capacityd.config.keys import RESOURCE_KEYS
from capacityd.config.problems import Place, expected
from capacityd.config.tables import GROUPS, device_tables, setting_tables, when_tests
from capacityd.detectors import load, names
from capacityd.model.config import Resource
from capacityd.model.device import Detector, DeviceDetector, ValueDetector
from capacityd.model.label import may_label
from capacityd.model.quantity import countable
from capacityd.model.setting_types import Setting
from capacityd.model.toml_values import describe_toml_value
from capacityd.model.units import UNITS, Unit, expected_unit
from capacityd.model.value_types import Amount

DEVICE_KEYS = ("except", "slots", "measure", "unit", "fallback")
"""The keys of a resource that only a DeviceDetector supports."""

_OTHER_NAMES = {
    **dict.fromkeys(("gpu", "accelerator", "npu", "tpu", "fpga"), "pci"),
    **dict.fromkeys(("net", "network", "ethernet", "eth"), "nic"),
    **dict.fromkeys(("nvme", "ssd", "hdd", "storage"), "disk"),
    **dict.fromkeys(("tty", "serial"), "udev"),
    **dict.fromkeys(("ram", "mem"), "memory"),
    **dict.fromkeys(("count", "number", "value"), "static"),
    **dict.fromkeys(("script", "program"), "exec"),
}
"""A word that a user may take for a detector -> the detector."""


def resource_of(name: str, raw: object, place: Place) -> Resource | None:
    """The resource; None if it is disabled or has a problem. place: the resource's table, which collects the
    problems."""
    if isinstance(raw, list) and raw and all(isinstance(item, dict) for item in raw):
        place.report("", "must be one table: write the header in single brackets")
        return None
    if not isinstance(raw, dict):
        place.report("", f"must be a table; got {describe_toml_value(raw)}")
        return None
    if raw.get("enabled") is False:
        return None
    fields: dict[str, Any] = {}
    detectors = [load(key) for key in raw if key in names()]
    _check_detectors(raw, detectors, place)
    if len(detectors) == 1:
        fields |= _with_detector(raw, detectors[0], place)
    for key, value in raw.items():
        declared = RESOURCE_KEYS.get(key)
        if key == "when":
            fields["when"] = when_tests(value, place)
        elif isinstance(declared, Setting):
            fields[key] = place.parse(key, declared.kind.parse, value)
    fields.pop("enabled", None)  # parsed only to report an invalid value
    if fields.get("label") and not may_label(name):
        place.report(
            "label", "a kubelet may not set labels in the domains of Kubernetes; leave it out, or use your domain"
        )
    if place.problems:
        return None
    resource = Resource(name=name, detector=detectors[0].name, source=place.file, **fields)
    return resource if _check_countable(resource, detectors[0], place) else None


def _check_countable(resource: Resource, detector: Detector, place: Place) -> bool:
    """If the configuration alone decides the quantity: whether Kubernetes can count it. Reports a problem if not."""
    if not isinstance(detector, ValueDetector) or detector.computed is None:
        return True  # only a reading can show it
    quantity = resource.quantity_of([detector.computed(table.settings) for table in resource.tables])
    if not countable(quantity):
        place.report(detector.name, f"the quantity is {quantity}, more than Kubernetes can count; write a smaller one")
        return False
    return True


def _check_detectors(raw: Mapping[str, object], detectors: Sequence[Detector], place: Place) -> None:
    """Reports unknown keys, and any number of detectors other than one."""
    unknown = [key for key in raw if key not in RESOURCE_KEYS and key not in names()]
    for key in unknown:
        owners = [detector.name for detector in detectors if key in _keys(detector)]
        if owners:
            place.report(key, f"belongs to {owners[0]}: {owners[0]} = {{ {key} = … }}")
        elif meant := _OTHER_NAMES.get(key.lower()):
            place.report(key, f'unknown key; did you mean "{meant}"?')
        else:
            place.report_unknown(key, [*names(), *RESOURCE_KEYS])
    # An unknown key with a table was probably meant as the detector. It has been reported above.
    may_be_misspelt = any(isinstance(raw[key], dict | list) for key in unknown)
    if len(detectors) > 1:
        several = " and ".join(detector.name for detector in detectors)
        place.report("", f"must have one detector; got {several}; write a resource for each")
    elif not detectors and not may_be_misspelt:
        place.report("", f"must have a detector, which is one of {', '.join(names())}")


def _keys(detector: Detector) -> Mapping[str, object]:
    """The keys that a table below the detector's name may contain."""
    return detector.keys if isinstance(detector, DeviceDetector) else detector.settings


def _with_detector(raw: Mapping[str, object], detector: Detector, place: Place) -> dict[str, object]:
    """The fields of Resource that depend on the detector."""
    if isinstance(detector, ValueDetector):
        for key in DEVICE_KEYS:
            if key in raw:
                place.report(key, f"applies to devices only, and {detector.name} reads a number; leave it out")
        return {"tables": setting_tables(raw[detector.name], detector, place)}
    fields: dict[str, object] = {
        "tables": device_tables(raw[detector.name], detector, key=detector.name, place=place),
    }
    if "except" in raw:
        fields["excepts"] = device_tables(raw["except"], detector, key="except", place=place)
    measure = raw.get("measure", "count")
    if measure == "count":
        for key in ("unit", "fallback"):
            if key in raw:
                place.report(key, f"a count has no {key}; leave it out, or set measure")
    elif measure_type := _measure_type(measure, detector, place):
        fields["measure"] = measure
        fields["unit"] = _unit(raw, measure=str(measure), measure_type=measure_type, place=place)
        if "fallback" in raw:
            fields["fallback"] = place.parse("fallback", measure_type.amount, raw["fallback"])
    return fields


def _measure_type(measure: object, detector: DeviceDetector, place: Place) -> Amount | None:
    """The type of a measure: one of the detector's keys, or an attribute or property. If the measure is invalid,
    reports a problem and returns None."""
    group, dot, name = str(measure).partition(".")
    if not isinstance(measure, str):
        place.report("measure", f"must be text in quotes; got {describe_toml_value(measure)}")
    elif measure in detector.measures:
        return detector.measures[measure]
    elif group not in GROUPS or not dot:
        valid = ["count", *detector.measures]
        if detector.scope:  # the detector udev, which has no measures of its own
            valid += ["attributes.NAME", "properties.NAME"]
        place.report("measure", f'unknown measure "{measure}"; {expected(measure, valid)}')
    elif error := GROUPS[group](name):
        place.report("measure", f'"{measure}" {error}')
    else:
        return Amount("number")
    return None


def _unit(raw: Mapping[str, object], *, measure: str, measure_type: Amount, place: Place) -> Unit | None:
    """The unit of the quantity; None for a plain number or, with a reported problem, an invalid unit."""
    units = UNITS[measure_type.dimension]
    if not units:
        if "unit" in raw:
            place.report("unit", f"{measure} is a plain number without a unit; leave it out")
        return None
    unit = raw.get("unit")
    if unit is None:
        place.report("unit", f"is required; {measure} is in one of {', '.join(units)}")
    elif not isinstance(unit, str):
        place.report("unit", f"must be text in quotes; got {describe_toml_value(unit)}")
    elif unit not in units:
        place.report("unit", f'unknown unit "{unit}"; {expected_unit(unit, units)}')
    else:
        return Unit(unit, factor=units[unit])
    return None
