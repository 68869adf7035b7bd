"""The JSON Schema of a configuration file, built from the parser's declarations: keys.py and the detectors.

It is draft-07, which taplo and Even Better TOML support (https://taplo.tamasfe.dev). Both complete only from
"properties" and "items", so these list every key, and "dependencies" contains the rules between keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from capacityd.config.keys import RESOURCE, TABLES, WHEN, FactTable
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
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "capacityd",
        "description": "The extended resources that a machine publishes; see capacityd.toml(5)",
        **_closed(
            {"resources": resources | {"additionalProperties": _resource()}}
            | {
                name: _closed({key: _key(e.about, e.kind, e.default) for key, e in keys.items()})
                for name, keys in TABLES.items()
            }
        ),
    }


def _resource() -> Schema:
    detectors = [load(name) for name in names()]
    devices = [d for d in detectors if isinstance(d, DeviceDetector)]
    # The resource's detector adds more rules for these keys.
    all_keys: Schema = {key: {"description": k.about} for d in devices for key, k in d.keys.items()} | _groups()
    dependent: dict[str, Schema] = {
        "except": {"properties": all_keys, "items": {"properties": all_keys}},
        "when": _closed({key: _fact(fact) for key, fact in WHEN.items()}) | {"minProperties": 1},
        "measure": _measure(dict.fromkeys(m for d in devices for m in ["count", *d.measures])),
        "unit": {"enum": [unit for units in UNITS.values() for unit in units]},
        "fallback": {"type": ["string", "integer"]},
    }
    keys = {
        key: _key(e.about, e.kind, e.default) if isinstance(e, Setting) else {"description": e.about, **dependent[key]}
        for key, e in RESOURCE.items()
    }
    return {
        **_closed({d.name: {"description": d.about, **_tables(_table(d, d.name))} for d in detectors} | keys),
        "dependencies": {d.name: _with_detector(d) for d in detectors},
        "if": {"properties": {"enabled": {"const": False}}, "required": ["enabled"]},
        "else": {"oneOf": [{"required": [d.name]} for d in detectors]},
    }


def _table(detector: Detector, key: str) -> Schema:
    """A table below the detector's name or "except"."""
    if isinstance(detector, DeviceDetector):
        defaults = detector.defaults if key != "except" else {}
        table = _closed(
            {name: _key(k.about, k.kind, defaults.get(name)) for name, k in detector.keys.items()} | _groups()
        )
        if detector.scope and key != "except":
            table |= {"required": [detector.scope.key]}
        empty = _closed({group: {"maxProperties": 0} for group in GROUPS})
        return table if key != "except" else table | {"not": empty}
    return _closed({name: _key(s.about, s.kind, s.default) for name, s in detector.settings.items()}) | {
        "required": [name for name, s in detector.settings.items() if s.required]
    }


def _with_detector(detector: Detector) -> Schema:
    """The rules for a resource's other keys if it has this detector."""
    if not isinstance(detector, DeviceDetector):
        return {"properties": dict.fromkeys(DEVICE_KEYS, False)}
    measures = _measure(["count", *detector.measures])
    return {"properties": {"except": _tables(_table(detector, "except")), "measure": measures}}


def _measure(known: Iterable[str]) -> Schema:
    """One of these measures, or an attribute or property of a device."""
    return {
        "anyOf": [{"enum": [*known]}, {"type": "string", "pattern": rf"^(attributes\..+|properties\.({PROPERTY}))$"}]
    }


def _groups() -> dict[str, Schema]:
    """The tables attributes and properties, which every table of devices may contain."""
    return {
        "attributes": _by_name("files below the device in /sys -> their content", {}),
        "properties": _by_name("properties of the device in udev", {"pattern": f"^({PROPERTY})$"}),
    }


def _fact(fact: Setting | FactTable) -> Schema:
    if not isinstance(fact, FactTable):
        return _key(fact.about, fact.kind)
    if fact.known:
        return {"description": fact.about, **_closed({name: Text().schema() for name in fact.known})}
    return _by_name(fact.about, {"pattern": f"^({fact.pattern})$", "not": {"pattern": r"(^|/)\.{1,2}(/|$)"}})


def _by_name(about: str, named: Schema) -> Schema:
    return {"description": about, "type": "object", "propertyNames": named, "additionalProperties": Text().schema()}


def _key(about: str, kind: SettingKind, default: object = None) -> Schema:
    """The schema of a key. default: the value in TOML; None if there is none."""
    return {"description": about, **kind.schema()} | ({} if default is None else {"default": default})


def _closed(properties: Mapping[str, object]) -> Schema:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


def _tables(table: Schema) -> Schema:
    """One table or a list of tables. "anyOf" is avoided, because editors would report only that nothing matches."""
    return table | {"type": ["object", "array"], "items": table, "minItems": 1}
