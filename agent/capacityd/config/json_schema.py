"""The JSON Schema of a configuration file, built from the parser's declarations: keys.py and the detectors.

It is draft-07, which taplo and Even Better TOML support (https://taplo.tamasfe.dev). These editors suggest only keys in
"properties" and "items", so every key is there, and "dependencies" contains the rules between keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from capacityd.config.keys import RESOURCE_KEYS, SETTINGS_TABLES, WHEN_KEYS, FactTable
from capacityd.config.resource import DEVICE_KEYS
from capacityd.config.tables import NAME_TABLES, PROPERTY
from capacityd.detectors import detector_names, load_detector
from capacityd.model.quantity import NAME_SCHEMA
from capacityd.schema.device import Detector, DeviceDetector
from capacityd.schema.setting_types import Setting, SettingKind
from capacityd.schema.toml_values import Schema
from capacityd.schema.units import UNITS
from capacityd.schema.value_types import Text


def schema() -> Schema:
    """The schema of one file."""
    tables: Schema = {
        "resources": {
            "description": "what pods can request",
            "type": "object",
            "propertyNames": NAME_SCHEMA,
            "additionalProperties": _resource(),
        }
    }
    for table, settings in SETTINGS_TABLES.items():
        tables[table] = _closed(_settings(settings))
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "capacityd",
        "description": "The extended resources that a machine publishes; see capacityd.toml(5)",
        **_closed(tables),
    }


def _resource() -> Schema:
    """The table of a resource: it has exactly one detector, unless enabled = false drops it."""
    detectors = [load_detector(name) for name in detector_names()]
    keys: Schema = {}
    for detector in detectors:
        keys[detector.name] = {"description": detector.about, **_one_or_list(_detector_table(detector))}
    device_detectors = [detector for detector in detectors if isinstance(detector, DeviceDetector)]
    dependent = _dependent_keys(device_detectors)
    for name, key in RESOURCE_KEYS.items():
        if isinstance(key, Setting):
            keys[name] = _key(key.about, key.kind, key.default)
        else:
            keys[name] = {"description": key.about, **dependent[name]}
    return {
        **_closed(keys),
        "dependencies": {detector.name: _rules_of(detector) for detector in detectors},
        "if": {"properties": {"enabled": {"const": False}}, "required": ["enabled"]},
        "else": {"oneOf": [{"required": [detector.name]} for detector in detectors]},
    }


def _dependent_keys(detectors: Sequence[DeviceDetector]) -> dict[str, Schema]:
    """The keys of a resource that depend on its detector: what they may contain with any of these detectors.

    _rules_of() adds the rules of the resource's own detector.
    """
    device_keys: Schema = {}
    measures = {"count": None}  # an ordered set; the values are not used
    for detector in detectors:
        device_keys |= {name: {"description": key.about} for name, key in detector.keys.items()}
        measures |= dict.fromkeys(detector.measures)
    device_keys |= _name_tables()
    return {
        "except": {"properties": device_keys, "items": {"properties": device_keys}},
        "when": _closed({key: _fact(fact) for key, fact in WHEN_KEYS.items()}) | {"minProperties": 1},
        "measure": _measure(measures),
        "unit": {"enum": [unit for units in UNITS.values() for unit in units]},
        "fallback": {"type": ["string", "integer"]},
    }


def _rules_of(detector: Detector) -> Schema:
    """The rules for a resource's other keys if it has this detector."""
    if not isinstance(detector, DeviceDetector):
        return {"properties": dict.fromkeys(DEVICE_KEYS, False)}  # False: the key must be absent
    measures = _measure(["count", *detector.measures])
    return {"properties": {"except": _one_or_list(_except_table(detector)), "measure": measures}}


def _detector_table(detector: Detector) -> Schema:
    """A table below the detector's name."""
    if not isinstance(detector, DeviceDetector):
        required = [name for name, setting in detector.settings.items() if setting.required]
        return _closed(_settings(detector.settings)) | {"required": required}
    table = _closed(_device_keys(detector, detector.defaults))
    if detector.required_subsystem:
        table["required"] = [detector.required_subsystem.key]
    return table


def _except_table(detector: DeviceDetector) -> Schema:
    """A table below "except". It must contain a test, because without one it would exclude every device."""
    without_test = _closed({name_table: {"maxProperties": 0} for name_table in NAME_TABLES})
    return _closed(_device_keys(detector, defaults={})) | {"not": without_test}


def _device_keys(detector: DeviceDetector, defaults: Mapping[str, object]) -> Schema:
    """The keys of a table of devices. defaults: in TOML, for some of the detector's keys."""
    keys = {name: _key(key.about, key.kind, defaults.get(name)) for name, key in detector.keys.items()}
    return keys | _name_tables()


def _settings(settings: Mapping[str, Setting]) -> Schema:
    return {name: _key(setting.about, setting.kind, setting.default) for name, setting in settings.items()}


def _measure(known: Iterable[str]) -> Schema:
    """The key "measure": one of the known measures, or an attribute or property of a device."""
    attribute_or_property = {"type": "string", "pattern": rf"^(attributes\..+|properties\.({PROPERTY}))$"}
    return {"anyOf": [{"enum": [*known]}, attribute_or_property]}


def _name_tables() -> dict[str, Schema]:
    """The tables "attributes" and "properties", which every table of devices may contain."""
    return {
        "attributes": _by_name("files and links of the device in /sys -> content", names_schema={}),  # {}: any name
        "properties": _by_name("properties of the device in udev", names_schema={"pattern": f"^({PROPERTY})$"}),
    }


def _fact(fact: Setting | FactTable) -> Schema:
    """The schema of a key of "when", whose declaration is the fact."""
    if not isinstance(fact, FactTable):
        return _key(fact.about, fact.kind)
    if fact.known:
        return {"description": fact.about, **_closed({name: Text().schema() for name in fact.known})}
    has_dots_as_folder = {"pattern": r"(^|/)\.{1,2}(/|$)"}
    return _by_name(fact.about, names_schema={"pattern": f"^({fact.pattern})$", "not": has_dots_as_folder})


def _by_name(about: str, *, names_schema: Schema) -> Schema:
    """A table: name -> text. names_schema: the schema of the names."""
    return {
        "description": about,
        "type": "object",
        "propertyNames": names_schema,
        "additionalProperties": Text().schema(),
    }


def _key(about: str, kind: SettingKind, default: object = None) -> Schema:
    """The schema of a key. default: the value in TOML; None if there is none."""
    key: Schema = {"description": about, **kind.schema()}
    if default is not None:
        key["default"] = default
    return key


def _closed(properties: Mapping[str, object]) -> Schema:
    """A table that may contain only these keys. properties: key -> the schema of its value."""
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


def _one_or_list(table: Schema) -> Schema:
    """One table or a list of tables. "anyOf" is avoided, because editors would report only that nothing matches."""
    return table | {"type": ["object", "array"], "items": table, "minItems": 1}
