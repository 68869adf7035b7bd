"""The tables below a detector's name, "except" and "when": TOML -> the tests and settings of model.Table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import partial

from capacityd.config.keys import RESOURCE, WHEN, Arch, Facts, Paths
from capacityd.config.problems import Place, did_you_mean
from capacityd.detectors import names
from capacityd.kinds import Amount, Glob, Kind, Test, Text, said
from capacityd.model import DeviceDetector, Table, ValueDetector

GROUPS = ("attributes", "properties")
PROPERTY = r"[^\s=/]+"
NOT_READ = (  # files in /sys that are not for looking -> what reading them does
    ("vpd", "takes seconds, and hangs some cards"),
    ("vpd_pg*", "gives binary data"),
    ("rom", "makes the card show its firmware in place of its memory"),
    ("config", "gives binary data, and can upset the card"),
    ("resource*", "touches the card's registers"),
    ("eeprom", "takes seconds, and gives binary data"),
    ("remove", "is not possible; it is for removing the device"),
    ("delete", "is not possible; it is for removing the device"),
    ("rescan", "is not possible; it is for looking for devices anew"),
    ("bus_rescan", "is not possible; it is for looking for devices anew"),
    ("reset", "is not possible; it is for resetting the device"),
)


def device_tables(raw: object, detector: DeviceDetector, key: str, place: Place) -> tuple[Table, ...]:
    """The tables of devices at a key of a resource, its detector's name or "except". place: the resource.

    In a table, tests stand in the order of their cost, because the first no ends the matching: plain keys, measures,
    attributes, properties.
    """
    found = []
    for where, table in _tables(raw, key, place, f"{{ {detector.identity[0]} = … }}"):
        tests = [t for name in table for t in _device_tests(name, table[name], detector, where)]
        if key != "except" and detector.scope and detector.scope.key not in table:
            needed = detector.scope.key
            where.wrong(needed, f"is missing; it is needed: {detector.keys[needed].about}")
        if key != "except":
            defaults = {k: v for k, v in detector.defaults.items() if k not in table}
            tests += [t for k, v in defaults.items() for t in _device_tests(k, v, detector, where)]
        elif not any(table.values()) and not table.keys() - {*GROUPS}:
            where.wrong("", "is empty, and so would except every device; say which ones")
        found.append(Table(tests=tuple(sorted(tests, key=lambda t: _cost(t, detector)))))
    return tuple(found)


def setting_tables(raw: object, detector: ValueDetector, place: Place) -> tuple[Table, ...]:
    """The tables of settings below a detector's name. place: the resource."""
    example = ", ".join(f"{name} = …" for name, setting in detector.settings.items() if setting.required)
    return tuple(
        Table(settings=_settings(table, detector, where))
        for where, table in _tables(raw, detector.name, place, f"{{ {example} }}")
    )


def when_tests(raw: object, place: Place) -> tuple[Test, ...]:
    """The tests of a resource's "when". place: the resource."""
    if not isinstance(raw, dict):
        place.wrong("when", f'must be a table such as {{ arch = "aarch64" }}, not {said(raw)}')
        return ()
    if not raw:
        place.wrong("when", "is empty; leave it out if the resource concerns every machine")
    where = place.below("when")
    tests: list[Test | None] = []
    for key, value in raw.items():
        entry = WHEN.get(key)
        if entry is None:
            _unknown(key, WHEN, where)
        elif isinstance(entry, Facts):
            tests += _group(key, value, where, partial(_fact_problem, entry))
        else:
            tests.append(_test(key, key, entry.kind, value, where))
    return tuple(t for t in tests if t)


def _tables(raw: object, key: str, place: Place, example: str) -> list[tuple[Place, Mapping[str, object]]]:
    """One table, or each of a list of tables, with its place."""
    tables = raw if isinstance(raw, list) else [raw]
    if not tables:
        place.wrong(key, f"is an empty list; it must hold tables such as {example}")
    found: list[tuple[Place, Mapping[str, object]]] = []
    for number, table in enumerate(tables, 1):
        if isinstance(table, dict):
            found.append((place.below(key, number if len(tables) > 1 else 0), table))
        else:
            what = f"table {number} of the list" if isinstance(raw, list) else ""
            place.wrong(key, f"{what} must be a table such as {example}, not {said(table)}".lstrip())
    return found


def _device_tests(key: str, raw: object, detector: DeviceDetector, place: Place) -> list[Test]:
    found: list[Test | None]
    if key in GROUPS:
        found = _group(key, raw, place, _attribute_problem if key == "attributes" else _property_problem)
    elif key in detector.keys:
        found = [_test(key, key, detector.keys[key].kind, raw, place)]
    else:
        _unknown(key, [*detector.keys, *GROUPS], place)
        found = []
    return [t for t in found if t]


def _cost(test: Test, detector: DeviceDetector) -> int:
    group, dot, _ = test.key.partition(".")
    if dot:
        return 2 + GROUPS.index(group)
    return int(isinstance(detector.keys[test.key].kind, Amount))


def _settings(raw: Mapping[str, object], detector: ValueDetector, place: Place) -> dict[str, object]:
    for key in raw:
        if key not in detector.settings:
            _unknown(key, detector.settings, place)
    found: dict[str, object] = {}
    for key, setting in detector.settings.items():
        if key in raw:
            found[key] = place.take(key, setting.kind.parse, raw[key])
        elif setting.required:
            place.wrong(key, f"is missing; it is needed: {setting.about}")
        else:
            found[key] = setting.default
    return found


def group_problem(path: str) -> str | None:
    """What is wrong with attributes.NAME or properties.NAME, "" if nothing is; None: it is neither."""
    group, dot, name = path.partition(".")
    if not dot or group not in GROUPS:
        return None
    return _attribute_problem(name) if group == "attributes" else _property_problem(name)


def _group(group: str, raw: object, place: Place, name_problem: Callable[[str], str]) -> list[Test | None]:
    """A table of text by name."""
    if not isinstance(raw, dict):
        place.wrong(group, f'must be a table such as {{ NAME = "text" }}, not {said(raw)}')
        return []
    where = place.below(group)
    found: list[Test | None] = []
    for name, value in raw.items():
        if wrong := name_problem(name):
            where.wrong(name, f"{wrong}{_misplaced(name, place)}")
        else:
            found.append(_test(f"{group}.{name}", name, Text(), value, where))
    return found


def _test(key: str, written: str, kind: Kind | Arch | Paths, raw: object, place: Place) -> Test | None:
    """key: as model.Test has it; written: as the file has it."""
    patterns = place.take(written, kind.parse, raw)
    if patterns is None:
        return None
    if any(isinstance(p, Glob) and not p.pattern.isprintable() for p in patterns):
        place.wrong(written, 'holds a character that can\'t be printed; write what "capacityd devices" shows for it')
        return None
    asked = raw if isinstance(raw, list) else [raw]
    return Test(key, patterns, " or ".join(_asked(item, quoted=not isinstance(kind, Amount)) for item in asked))


def _asked(item: object, quoted: bool) -> str:
    if isinstance(item, bool):
        return "true" if item else "false"
    return f'"{item}"' if quoted else str(item)


def _unknown(key: str, known: Mapping[str, object] | list[str], place: Place) -> None:
    hint = _misplaced(key, place) or did_you_mean(key, known)
    place.wrong(key, f"unknown key; there are {', '.join(known)}{hint}")


def _misplaced(key: str, place: Place) -> str:
    """TOML's trap: what stands below the header of a sub-table belongs to that, not to the resource any more."""
    if key not in RESOURCE and key not in names():
        return ""
    return f"; {key} belongs to the resource: put it right below [{place.resource}], before any other [table]"


def _fact_problem(facts: Facts, name: str) -> str:
    if facts.known:
        return "" if name in facts.known else f"there is no such name{did_you_mean(name, facts.known)}"
    good = re.fullmatch(facts.pattern, name) and not {".", ".."} & {*name.split("/")}
    return "" if good else "is no name of a property of the device tree"


def _attribute_problem(name: str) -> str:
    parts = name.split("/")
    if not name.isprintable() or {"", ".", ".."} & {*parts}:
        return 'is no file below the device in /sys: it may not begin or end with "/" nor hold ".."'
    why = next((why for pattern, why in NOT_READ if fnmatchcase(parts[-1], pattern)), None)
    if why:
        return f"can't be asked for: reading it {why}"
    # Nothing in /sys has these names (a display's "enabled" is the exception), so here they are a mistake.
    return "unknown attribute" if name in RESOURCE and name != "enabled" else ""


def _property_problem(name: str) -> str:
    return "" if name.isprintable() and re.fullmatch(PROPERTY, name) else "is no name of a property of udev"
