"""The JSON Schema of a configuration file, built from the parser's declarations: keys.py and the detectors.

It is draft-07, which taplo and Even Better TOML support (https://taplo.tamasfe.dev). Both complete only from
"properties" and "items", so these list every key, and "dependencies" contains the rules between keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from capacityd.config.keys import RESOURCE_KEYS, SETTINGS_TABLES, WHEN_KEYS, FactTable
from capacityd.config.resource import DEVICE_KEYS
from capacityd.config.tables import GROUPS, PROPERTY
from capacityd.detectors import load, names
from capacityd.model.device import Detector, DeviceDetector
from capacityd.model.quantity import NAME_SCHEMA
from capacityd.model.setting_types import Setting, SettingKind
from capacityd.model.toml_values import Schema
from capacityd.model.units import UNITS
from capacityd.model.value_types import Text


def schema() -> Schema:
    """The schema of one file."""
    resources: Schema = {"description": "what pods can request", "type": "object", "propertyNames": NAME_SCHEMA}
    settings = {
        table: _closed({key: _key(setting.about, setting.kind, setting.default) for key, setting in keys.items()})
        for table, keys in SETTINGS_TABLES.items()
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "capacityd",
        "description": "The extended resources that a machine publishes; see capacityd.toml(5)",
        **_closed({"resources": resources | {"additionalProperties": _resource()}} | settings),
    }


def _resource() -> Schema:
    detectors = [load(name) for name in names()]
    device_detectors = [d for d in detectors if isinstance(d, DeviceDetector)]
    device_keys: Schema = {name: {"description": key.about} for d in device_detectors for name, key in d.keys.items()}
    all_device_keys = device_keys | _groups()
    measures = dict.fromkeys(measure for d in device_detectors for measure in ["count", *d.measures])
    # What holds with every detector; _with_detector() adds the rules of the resource's own detector.
    dependent: dict[str, Schema] = {
        "except": {"properties": all_device_keys, "items": {"properties": all_device_keys}},
        "when": _closed({key: _fact(fact) for key, fact in WHEN_KEYS.items()}) | {"minProperties": 1},
        "measure": _measure(measures),
        "unit": {"enum": [unit for units in UNITS.values() for unit in units]},
        "fallback": {"type": ["string", "integer"]},
    }
    keys: Schema = {}
    for name, key in RESOURCE_KEYS.items():
        if isinstance(key, Setting):
            keys[name] = _key(key.about, key.kind, key.default)
        else:
            keys[name] = {"description": key.about, **dependent[name]}
    tables = {d.name: {"description": d.about, **_one_or_list(_table(d, d.name))} for d in detectors}
    return {
        **_closed(tables | keys),
        "dependencies": {d.name: _with_detector(d) for d in detectors},
        "if": {"properties": {"enabled": {"const": False}}, "required": ["enabled"]},
        "else": {"oneOf": [{"required": [d.name]} for d in detectors]},
    }


def _table(detector: Detector, key: str) -> Schema:
    """A table below the detector's name or "except"."""
    if isinstance(detector, DeviceDetector):
        is_except = key == "except"
        defaults = {} if is_except else detector.defaults
        keys = {name: _key(k.about, k.kind, defaults.get(name)) for name, k in detector.keys.items()}
        table = _closed(keys | _groups())
        if is_except:
            empty_table = _closed({group: {"maxProperties": 0} for group in GROUPS})
            return table | {"not": empty_table}
        return table | {"required": [detector.scope.key]} if detector.scope else table
    settings = {name: _key(s.about, s.kind, s.default) for name, s in detector.settings.items()}
    required = [name for name, setting in detector.settings.items() if setting.required]
    return _closed(settings) | {"required": required}


def _with_detector(detector: Detector) -> Schema:
    """The rules for a resource's other keys if it has this detector."""
    if not isinstance(detector, DeviceDetector):
        return {"properties": dict.fromkeys(DEVICE_KEYS, False)}
    measures = _measure(["count", *detector.measures])
    return {"properties": {"except": _one_or_list(_table(detector, "except")), "measure": measures}}


def _measure(known: Iterable[str]) -> Schema:
    """One of these measures, or an attribute or property of a device."""
    attribute_or_property = {"type": "string", "pattern": rf"^(attributes\..+|properties\.({PROPERTY}))$"}
    return {"anyOf": [{"enum": [*known]}, attribute_or_property]}


def _groups() -> dict[str, Schema]:
    """The tables "attributes" and "properties", which every table of devices may contain."""
    return {
        "attributes": _by_name("files below the device in /sys -> their content", {}),
        "properties": _by_name("properties of the device in udev", {"pattern": f"^({PROPERTY})$"}),
    }


def _fact(fact: Setting | FactTable) -> Schema:
    """The schema of a key of "when"."""
    if not isinstance(fact, FactTable):
        return _key(fact.about, fact.kind)
    if fact.known:
        return {"description": fact.about, **_closed({name: Text().schema() for name in fact.known})}
    contains_dots_as_folder = {"pattern": r"(^|/)\.{1,2}(/|$)"}
    return _by_name(fact.about, {"pattern": f"^({fact.pattern})$", "not": contains_dots_as_folder})


def _by_name(about: str, names_schema: Schema) -> Schema:
    """A table of texts. names_schema: the schema of the names."""
    return {
        "description": about,
        "type": "object",
        "propertyNames": names_schema,
        "additionalProperties": Text().schema(),
    }


def _key(about: str, kind: SettingKind, default: object = None) -> Schema:
    """The schema of a key. default: the value in TOML; None if there is none."""
    return {"description": about, **kind.schema()} | ({} if default is None else {"default": default})


def _closed(properties: Mapping[str, object]) -> Schema:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


def _one_or_list(table: Schema) -> Schema:
    """One table or a list of tables. "anyOf" is avoided, because editors would report only that nothing matches."""
    return table | {"type": ["object", "array"], "items": table, "minItems": 1}
