"""Parses one resource from TOML into a schema.config.Resource."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from capacityd.config.keys import NAME_CHECKS, RESOURCE_KEYS, is_resource_key
from capacityd.config.problems import EXAMPLE_HEADER, WHOLE_TABLE, TomlTable
from capacityd.config.tables import detector_tables, except_tables, setting_tables, when_tests
from capacityd.detectors import detector_names, load_detector
from capacityd.model.key import may_label
from capacityd.model.quantity import is_countable
from capacityd.schema.config import Resource
from capacityd.schema.device import SUBSYSTEM, Detector, DeviceDetector, ValueDetector
from capacityd.schema.spelling import suggest_unit, suggest_word
from capacityd.schema.toml_values import describe_toml_value
from capacityd.schema.units import UNITS
from capacityd.schema.value_types import Amount

_DEVICE_KEYS = ("except", "slots", "measure", "unit", "fallback")
"""The keys of a resource that only a DeviceDetector supports."""
_UNPARSED_KEYS = ("except", "when", "measure", "unit", "fallback")
"""The keys without a parser in RESOURCE_KEYS. _detector_fields() and when_tests() parse their values."""

_OTHER_NAMES = {
    "gpu": "pci", "accelerator": "pci", "npu": "pci", "tpu": "pci", "fpga": "pci",
    "net": "nic", "network": "nic", "ethernet": "nic", "eth": "nic",
    "nvme": "disk", "ssd": "disk", "hdd": "disk", "storage": "disk",
    "tty": "udev", "serial": "udev",
    "ram": "memory", "mem": "memory",
    "count": "static", "number": "static", "value": "static",
    "script": "exec", "program": "exec",
}  # fmt: skip
"""A word that a user may write for a detector -> the detector's name."""


def resource_of(name: str, resources: TomlTable) -> Resource | None:
    """Parses a resource in the table "resources". Returns None if the resource is disabled or has a problem."""
    table = resources.table_below(name, example=f"[{EXAMPLE_HEADER}]")
    if table is None:
        return None
    is_disabled = table.content.get("enabled") is False
    if is_disabled:  # the other keys of a disabled resource are not checked
        return None
    detectors = [load_detector(key) for key in table.content if key in detector_names()]
    _check_keys(table, detectors)
    fields: dict[str, Any] = {}
    if len(detectors) == 1:
        fields |= _detector_fields(table, detectors[0])
    else:
        _report_detector_count(table, detectors)
    if "when" in table.content:
        fields["when"] = when_tests(table)
    for key in table.content:
        if key in RESOURCE_KEYS and key not in _UNPARSED_KEYS:
            fields[key] = table.parse(key, RESOURCE_KEYS[key].type.parse)
    fields.pop("enabled", None)  # parsed only to report an invalid value
    if fields.get("label") and not may_label(name):
        why = "a kubelet may not set labels in the domains of Kubernetes; leave it out, or use your domain"
        table.report("label", why)
    if table.problems:
        return None
    detector = detectors[0]  # the only detector, because _report_detector_count() has reported any other number
    resource = Resource(name=name, detector=detector.name, source=table.file, **fields)
    _check_countable(resource, detector, table)
    return None if table.problems else resource


def _check_countable(resource: Resource, detector: Detector, table: TomlTable) -> None:
    """Reports a quantity that Kubernetes can't count, if the configuration alone decides the quantity."""
    if isinstance(detector, DeviceDetector) or detector.computed is None:
        return
    numbers = [detector.computed(value_table.settings) for value_table in resource.tables]
    quantity = resource.quantity_of(numbers)
    if not is_countable(quantity):
        why = f"the quantity is {quantity}, more than Kubernetes can count; write a smaller one"
        table.report(detector.name, why)


def _check_keys(table: TomlTable, detectors: Sequence[Detector]) -> None:
    """Reports unknown keys. detectors: the detectors that the resource's table names."""
    detector_of_key: dict[str, str] = {}  # key below a detector's name -> the detector's name
    for detector in detectors:
        keys = detector.keys if isinstance(detector, DeviceDetector) else detector.settings
        detector_of_key |= dict.fromkeys(keys, detector.name)
    for key in table.content:
        if is_resource_key(key):
            continue
        if key in detector_of_key:
            name = detector_of_key[key]
            table.report(key, f"belongs to {name}: {name} = {{ {key} = … }}")
        elif key.lower() in _OTHER_NAMES:
            table.report(key, f'unknown key; did you mean "{_OTHER_NAMES[key.lower()]}"?')
        else:
            table.report_unknown(key, [*detector_names(), *RESOURCE_KEYS])


def _report_detector_count(table: TomlTable, detectors: Sequence[Detector]) -> None:
    """Reports that a resource has no detector, or more than one."""
    if detectors:
        names = " and ".join(detector.name for detector in detectors)
        table.report(WHOLE_TABLE, f"must have one detector; got {names}; write a resource for each")
    elif not table.problems:  # if _check_keys() has reported an unknown key, that key may be meant as the detector
        table.report(WHOLE_TABLE, f"must have a detector, which is one of {', '.join(detector_names())}")


def _detector_fields(table: TomlTable, detector: Detector) -> dict[str, object]:
    """The fields of Resource that depend on the detector."""
    if isinstance(detector, ValueDetector):
        for key in _DEVICE_KEYS:
            if key in table.content:
                table.report(key, f"applies to devices only, and {detector.name} reads a number; leave it out")
        return {"tables": setting_tables(table, detector)}
    fields: dict[str, object] = {"tables": detector_tables(table, detector)}
    if "except" in table.content:
        fields["excepts"] = except_tables(table, detector)
    measure = table.content.get("measure", "count")
    if measure == "count":
        for key in ("unit", "fallback"):
            if key in table.content:
                table.report(key, f"a count has no {key}; leave it out, or set measure")
        return fields
    measure_type = _measure_type(table, detector)
    if measure_type is not None:
        fields["measure"] = measure
        fields["unit"] = _unit(table, measure_type)
        if "fallback" in table.content:
            fields["fallback"] = table.parse("fallback", measure_type.amount)
    return fields


def _measure_type(table: TomlTable, detector: DeviceDetector) -> Amount | None:
    """The type of the resource's measure: one of the detector's keys, or an attribute or property.

    For an invalid measure, reports a problem and returns None.
    """
    measure = table.content["measure"]
    if not isinstance(measure, str):
        table.report("measure", f"must be text in quotes; got {describe_toml_value(measure)}")
        return None
    if measure in detector.measures:
        return detector.measures[measure]
    group, dot, name = measure.partition(".")  # attributes.NAME or properties.NAME
    if not dot or group not in NAME_CHECKS:
        valid = ["count", *detector.measures]
        if SUBSYSTEM in detector.keys:  # the detector udev, whose devices have no other measures
            valid += ["attributes.NAME", "properties.NAME"]
        table.report("measure", f'unknown measure "{measure}"; {suggest_word(measure, valid)}')
        return None
    problem = NAME_CHECKS[group](name)
    if problem:
        table.report("measure", f'"{measure}" {problem}')
        return None
    return Amount("number")


def _unit(table: TomlTable, measure_type: Amount) -> str | None:
    """The unit of the quantity; None for a plain number. For a missing or invalid unit, reports it and returns None."""
    measure = table.content["measure"]
    units = UNITS[measure_type.dimension]
    if not units:  # the measure is a plain number
        if "unit" in table.content:
            table.report("unit", f"{measure} is a plain number without a unit; leave it out")
        return None
    unit = table.content.get("unit")
    if isinstance(unit, str) and unit in units:
        return unit
    if unit is None:
        problem = f"is required; {measure} is in one of {', '.join(units)}"
    elif isinstance(unit, str):
        problem = f'unknown unit "{unit}"; {suggest_unit(unit, units)}'
    else:
        problem = f"must be text in quotes; got {describe_toml_value(unit)}"
    table.report("unit", problem)
    return None
