"""One resource: TOML -> model.Resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from capacityd.config.keys import RESOURCE, Entry
from capacityd.config.problems import Place, did_you_mean
from capacityd.config.tables import device_tables, group_problem, setting_tables, when_tests
from capacityd.detectors import load, names
from capacityd.kinds import UNITS, Amount, Unit, said
from capacityd.model import Detector, DeviceDetector, Resource, ValueDetector

OF_DEVICES = ("except", "slots", "measure", "unit", "fallback")  # these mean nothing for a number that is read


def resource_of(name: str, raw: object, place: Place) -> Resource | None:
    """The resource, None if it is dropped or has a mistake. place: its table; it gets all mistakes."""
    if not isinstance(raw, dict):
        single = isinstance(raw, list) and bool(raw) and all(isinstance(item, dict) for item in raw)
        place.wrong("", f"must be a table, not {said(raw)}" + ("; write it in single brackets" if single else ""))
        return None
    if raw.get("enabled") is False:
        return None
    before = len(place.found)
    made: dict[str, Any] = {}
    detectors = [load(key) for key in raw if key in names()]
    _check_detectors(raw, detectors, place)
    for key, value in raw.items():
        if key in names():
            made["tables"] = _tables(value, load(key), place)
        elif key == "when":
            made["when"] = when_tests(value, place)
        elif isinstance(entry := RESOURCE.get(key), Entry):
            made[key] = place.take(key, entry.kind.parse, value)
    if len(detectors) == 1:
        made |= _with_detector(raw, detectors[0], place)
    made.pop("enabled", None)
    if len(place.found) > before:
        return None
    return Resource(name=name, detector=detectors[0].name, source=place.file, **made)


def _check_detectors(raw: Mapping[str, object], detectors: Sequence[Detector], place: Place) -> None:
    """Exactly one detector, and no key that is none."""
    unknown = [key for key in raw if key not in RESOURCE and key not in names()]
    for key in unknown:
        owner = next((d.name for d in detectors if key in _keys(d)), None)
        if owner:
            place.wrong(key, f"belongs to {owner}: {owner} = {{ {key} = … }}")
        else:
            hint = did_you_mean(key, [*names(), *RESOURCE])
            place.wrong(key, f"no detector ({', '.join(names())}) and no other key ({', '.join(RESOURCE)}){hint}")
    if len(detectors) > 1:
        several = " and ".join(d.name for d in detectors)
        place.wrong("", f"has {len(detectors)} detectors, {several}; make a resource for each")
    elif not detectors and not any(isinstance(raw[key], dict | list) for key in unknown):
        place.wrong("", f"has no detector; one of {', '.join(names())} must say what is counted")


def _keys(detector: Detector) -> Mapping[str, object]:
    return detector.keys if isinstance(detector, DeviceDetector) else detector.settings


def _tables(raw: object, detector: Detector, place: Place) -> object:
    if isinstance(detector, ValueDetector):
        return setting_tables(raw, detector, place)
    return device_tables(raw, detector, detector.name, place)


def _with_detector(raw: Mapping[str, object], detector: Detector, place: Place) -> dict[str, object]:
    """What only the detector gives a meaning."""
    if isinstance(detector, ValueDetector):
        for key in OF_DEVICES:
            if key in raw:
                place.wrong(
                    key, f"is for devices; {detector.name} reads a number, which is taken as it is: leave it out"
                )
        return {}
    made: dict[str, object] = {}
    if "except" in raw:
        made["excepts"] = device_tables(raw["except"], detector, "except", place)
    measure = raw.get("measure", "count")
    if measure == "count":
        _check_count(raw, place)
    elif kind := _measured(measure, detector, place):
        made["measure"] = measure
        made["unit"] = _unit(raw, str(measure), kind, place)
        if "fallback" in raw:
            made["fallback"] = place.take("fallback", kind.amount, raw["fallback"])
    return made


def _measured(measure: object, detector: DeviceDetector, place: Place) -> Amount | None:
    """What a measure holds, which is one of the detector's keys, or the name of an attribute or a property."""
    measures = {key: k.kind for key, k in detector.keys.items() if isinstance(k.kind, Amount)}
    if not isinstance(measure, str):
        place.wrong("measure", f"must be text in quotes, not {said(measure)}")
    elif measure in measures:
        return measures[measure]
    elif (wrong := group_problem(measure)) is None:
        known = ["count", *measures]
        what = f'"{measure}" is nothing that {detector.name} measures'
        known += ["attributes.NAME", "properties.NAME"] if detector.scope else []
        place.wrong("measure", f"{what}; it has {', '.join(known)}{did_you_mean(measure, known)}")
    elif wrong:
        place.wrong("measure", f'"{measure}" {wrong}')
    else:
        return Amount("number")
    return None


def _check_count(raw: Mapping[str, object], place: Place) -> None:
    if "unit" in raw:
        place.wrong("unit", "devices are counted, which has no unit; leave it out, or say what to measure")
    if "fallback" in raw:
        place.wrong("fallback", "devices are counted, which never fails; leave it out, or say what to measure")


def _unit(raw: Mapping[str, object], measure: str, kind: Amount, place: Place) -> Unit | None:
    units = UNITS[kind.dimension]
    if not units:
        if "unit" in raw:
            place.wrong("unit", f"{measure} is a plain number, which has no unit; leave it out")
        return None
    unit = raw.get("unit")
    if unit is None:
        place.wrong("unit", f"is missing; {measure} is a {kind.dimension}: one of {', '.join(units)}")
    elif not isinstance(unit, str):
        place.wrong("unit", f"must be text in quotes, not {said(unit)}")
    elif unit not in units:
        hint = did_you_mean(unit, units, 0.5)
        place.wrong("unit", f'"{unit}" is no unit of {kind.dimension}; there are {", ".join(units)}{hint}')
    else:
        return Unit(unit, units[unit])
    return None
