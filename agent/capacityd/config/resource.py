"""Parses one resource from TOML into a schema.config.Resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from capacityd.config.keys import RESOURCE_KEYS, is_resource_key
from capacityd.config.problems import Place, expected
from capacityd.config.tables import NAME_TABLES, detector_tables, except_tables, setting_tables, when_tests
from capacityd.detectors import detector_names, load_detector
from capacityd.model.key import may_label
from capacityd.model.quantity import countable
from capacityd.schema.config import Resource
from capacityd.schema.device import Detector, DeviceDetector, ValueDetector
from capacityd.schema.toml_values import describe_toml_value
from capacityd.schema.units import UNITS, expected_unit
from capacityd.schema.value_types import Amount

_DEVICE_KEYS = ("except", "slots", "measure", "unit", "fallback")
"""The keys of a resource that only a DeviceDetector supports."""
_PARSED_BELOW = ("except", "when", "measure", "unit", "fallback")
"""The keys whose values _detector_fields() and when_tests() parse."""

_OTHER_NAMES = {
    **dict.fromkeys(("gpu", "accelerator", "npu", "tpu", "fpga"), "pci"),
    **dict.fromkeys(("net", "network", "ethernet", "eth"), "nic"),
    **dict.fromkeys(("nvme", "ssd", "hdd", "storage"), "disk"),
    **dict.fromkeys(("tty", "serial"), "udev"),
    **dict.fromkeys(("ram", "mem"), "memory"),
    **dict.fromkeys(("count", "number", "value"), "static"),
    **dict.fromkeys(("script", "program"), "exec"),
}
"""A word that a user may write for a detector -> the detector's name."""


def resource_of(name: str, raw: object, place: Place) -> Resource | None:
    """Parses a resource. Returns None if it is disabled or has a problem.

    place: the resource's table, which collects the problems.
    """
    if isinstance(raw, list) and raw and all(isinstance(item, dict) for item in raw):
        place.report("", "must be one table: write the header in single brackets")
        return None
    if not isinstance(raw, dict):
        place.report("", f"must be a table; got {describe_toml_value(raw)}")
        return None
    if raw.get("enabled") is False:  # drops the resource, so its other keys are not checked
        return None
    fields: dict[str, Any] = {}
    detectors = [load_detector(key) for key in raw if key in detector_names()]
    _check_keys(raw, detectors, place)
    detector = detectors[0] if len(detectors) == 1 else None
    if detector is None:
        _report_detectors(raw, detectors, place)
    else:
        fields |= _detector_fields(raw, detector, place)
    for key, value in raw.items():
        if key == "when":
            fields["when"] = when_tests(value, place)
        elif key in RESOURCE_KEYS and key not in _PARSED_BELOW:
            fields[key] = place.parse(key, RESOURCE_KEYS[key].type.parse, value)
    fields.pop("enabled", None)  # parsed only to report an invalid value
    if fields.get("label") and not may_label(name):
        place.report(
            "label", "a kubelet may not set labels in the domains of Kubernetes; leave it out, or use your domain"
        )
    if detector is None or place.problems:
        return None
    resource = Resource(name=name, detector=detector.name, source=place.file, **fields)
    _check_countable(resource, detector, place)
    return None if place.problems else resource


def _check_countable(resource: Resource, detector: Detector, place: Place) -> None:
    """Reports a quantity that Kubernetes can't count, if the configuration alone decides the quantity."""
    if not isinstance(detector, ValueDetector) or detector.computed is None:
        return
    quantity = resource.quantity_of([detector.computed(table.settings) for table in resource.tables])
    if not countable(quantity):
        place.report(detector.name, f"the quantity is {quantity}, more than Kubernetes can count; write a smaller one")


def _check_keys(raw: Mapping[str, object], detectors: Sequence[Detector], place: Place) -> None:
    """Reports unknown keys. detectors: the detectors that the resource's table names."""
    for key in raw:
        if is_resource_key(key):
            continue
        owners = [detector.name for detector in detectors if key in _keys_below(detector)]
        if owners:
            place.report(key, f"belongs to {owners[0]}: {owners[0]} = {{ {key} = … }}")
        elif meant := _OTHER_NAMES.get(key.lower()):
            place.report(key, f'unknown key; did you mean "{meant}"?')
        else:
            place.report_unknown(key, [*detector_names(), *RESOURCE_KEYS])


def _keys_below(detector: Detector) -> Mapping[str, object]:
    """The keys that a table below the detector's name may contain."""
    return detector.keys if isinstance(detector, DeviceDetector) else detector.settings


def _report_detectors(raw: Mapping[str, object], detectors: Sequence[Detector], place: Place) -> None:
    """Reports that a resource has no detector, or more than one."""
    if detectors:
        several = " and ".join(detector.name for detector in detectors)
        place.report("", f"must have one detector; got {several}; write a resource for each")
        return
    # An unknown key with a table was probably meant as the detector. _check_keys() has reported that key.
    is_misspelt = any(isinstance(value, dict | list) and not is_resource_key(key) for key, value in raw.items())
    if not is_misspelt:
        place.report("", f"must have a detector, which is one of {', '.join(detector_names())}")


def _detector_fields(raw: Mapping[str, object], detector: Detector, place: Place) -> dict[str, object]:
    """The fields of Resource that depend on the detector."""
    if isinstance(detector, ValueDetector):
        for key in _DEVICE_KEYS:
            if key in raw:
                place.report(key, f"applies to devices only, and {detector.name} reads a number; leave it out")
        return {"tables": setting_tables(raw[detector.name], detector, place)}
    fields: dict[str, object] = {"tables": detector_tables(raw[detector.name], detector, place)}
    if "except" in raw:
        fields["excepts"] = except_tables(raw["except"], detector, place)
    measure = raw.get("measure", "count")
    if measure == "count":
        for key in ("unit", "fallback"):
            if key in raw:
                place.report(key, f"a count has no {key}; leave it out, or set measure")
    elif measure_type := _measure_type(measure, detector, place):
        fields["measure"] = measure
        fields["unit"] = _unit(raw, measure_type=measure_type, place=place)
        if "fallback" in raw:
            fields["fallback"] = place.parse("fallback", measure_type.amount, raw["fallback"])
    return fields


def _measure_type(measure: object, detector: DeviceDetector, place: Place) -> Amount | None:
    """The type of a measure: one of the detector's keys, or an attribute or property. If the measure is invalid,
    reports a problem and returns None."""
    if not isinstance(measure, str):
        place.report("measure", f"must be text in quotes; got {describe_toml_value(measure)}")
        return None
    if measure in detector.measures:
        return detector.measures[measure]
    table, dot, name = measure.partition(".")  # attributes.NAME or properties.NAME
    if not dot or table not in NAME_TABLES:
        valid = ["count", *detector.measures]
        if detector.find_in:  # the detector udev, which declares no measures
            valid += ["attributes.NAME", "properties.NAME"]
        place.report("measure", f'unknown measure "{measure}"; {expected(measure, valid)}')
        return None
    name_problem = NAME_TABLES[table]
    if error := name_problem(name):
        place.report("measure", f'"{measure}" {error}')
        return None
    return Amount("number")


def _unit(raw: Mapping[str, object], *, measure_type: Amount, place: Place) -> str | None:
    """The unit of the quantity; None for a plain number. Reports a missing or invalid unit, and returns None."""
    measure = raw["measure"]
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
        return unit
    return None
