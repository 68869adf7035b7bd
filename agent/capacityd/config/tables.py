"""The tables of a detector, "except" and "when": from TOML to the tests and settings of model.config.Table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import partial

from capacityd.config.keys import RESOURCE, WHEN, FactTable
from capacityd.config.problems import Place, expected
from capacityd.model.config import Table
from capacityd.model.device import DeviceDetector, ValueDetector
from capacityd.model.matchers import GlobMatcher, KeyMatcher
from capacityd.model.setting_types import SettingKind
from capacityd.model.toml_values import describe_toml_value
from capacityd.model.value_types import Amount, Text

PROPERTY = r"[^\s=/]+"
"""A regular expression for the name of a udev property."""
UNSAFE_ATTRIBUTES = (
    *("vpd", "vpd_pg*", "rom", "config", "resource*", "eeprom"),
    *("remove", "delete", "rescan", "bus_rescan", "reset"),
)
"""Files in /sys that no table may match: reading them takes seconds, hangs or disturbs some devices, returns binary
data or is not possible."""


def _attribute_problem(name: str) -> str:
    parts = name.split("/")
    if not name.isprintable() or {"", ".", ".."} & {*parts}:
        return 'must be a path below the device in /sys, without "/" at its ends and without ".."'
    if any(fnmatchcase(parts[-1], pattern) for pattern in UNSAFE_ATTRIBUTES):
        return "cannot be matched: reading it may take seconds, disturb the device or return binary data"
    # These names are misplaced keys of a resource: no file in /sys has such a name, except a display's "enabled".
    return "is not an attribute" if name in RESOURCE and name != "enabled" else ""


def _property_problem(name: str) -> str:
    return "" if name.isprintable() and re.fullmatch(PROPERTY, name) else "is not the name of a udev property"


GROUPS = {"attributes": _attribute_problem, "properties": _property_problem}
"""Tables (name -> text) that every table of devices may contain -> the function that returns the error in a name."""


def device_tables(raw: object, detector: DeviceDetector, key: str, place: Place) -> tuple[Table, ...]:
    """The tables of devices at a resource's key: the detector's name or "except". place: the resource.

    A table's tests are sorted by cost, because the first mismatch ends the matching: plain keys, measures, attributes,
    properties.
    """
    tables = []
    for table_place, table in _tables(raw, key, place, f"{{ {(*detector.identity, *detector.keys)[0]} = … }}"):
        tests = [t for name in table for t in _device_tests(name, table[name], detector, table_place)]
        if key != "except" and detector.scope and detector.scope.key not in table:
            needed = detector.scope.key
            table_place.report(needed, f"is required ({detector.keys[needed].about})")
        if key != "except":
            defaults = {k: v for k, v in detector.defaults.items() if k not in table}
            tests += [t for k, v in defaults.items() for t in _device_tests(k, v, detector, table_place)]
        elif not any(table.values()) and not table.keys() - {*GROUPS}:
            table_place.report("", "must not be empty: an empty table would exclude every device")
        tables.append(Table(tests=tuple(sorted(tests, key=lambda t: _cost(t, detector)))))
    return tuple(tables)


def setting_tables(raw: object, detector: ValueDetector, place: Place) -> tuple[Table, ...]:
    """The tables of settings below the detector's name. place: the resource."""
    example = ", ".join(f"{name} = …" for name, setting in detector.settings.items() if setting.required)
    return tuple(
        Table(settings=_settings(table, detector, table_place))
        for table_place, table in _tables(raw, detector.name, place, f"{{ {example} }}")
    )


def when_tests(raw: object, place: Place) -> tuple[KeyMatcher, ...]:
    """The tests in a resource's "when". place: the resource."""
    if not isinstance(raw, dict):
        place.report("when", f'must be a table such as {{ arch = "aarch64" }}; got {describe_toml_value(raw)}')
        return ()
    if not raw:
        place.report("when", "must not be empty; leave it out if the resource applies to every machine")
    when = place.below("when")
    tests: list[KeyMatcher | None] = []
    for key, value in raw.items():
        entry = WHEN.get(key)
        if entry is None:
            when.report_unknown(key, [*WHEN])
        elif isinstance(entry, FactTable):
            tests += _group(key, value, when, partial(_fact_problem, entry))
        else:
            tests.append(_test(key, key, entry.kind, value, when))
    return tuple(t for t in tests if t)


def _tables(raw: object, key: str, place: Place, example: str) -> list[tuple[Place, Mapping[str, object]]]:
    """The place and content of a single table, or of each table in a list."""
    tables = raw if isinstance(raw, list) else [raw]
    if not tables:
        place.report(key, f"must not be an empty list; write a table such as {example}")
    places: list[tuple[Place, Mapping[str, object]]] = []
    for number, table in enumerate(tables, 1):
        if isinstance(table, dict):
            places.append((place.below(key, number if len(tables) > 1 else 0), table))
        else:
            subject = f"table {number} of the list " if isinstance(raw, list) else ""
            place.report(key, f"{subject}must be a table such as {example}; got {describe_toml_value(table)}")
    return places


def _device_tests(key: str, raw: object, detector: DeviceDetector, place: Place) -> list[KeyMatcher]:
    tests: list[KeyMatcher | None] = []
    if key in GROUPS:
        tests = _group(key, raw, place, GROUPS[key])
    elif key in detector.keys:
        tests = [_test(key, key, detector.keys[key].kind, raw, place)]
    else:
        place.report_unknown(key, [*detector.keys, *GROUPS])
    return [t for t in tests if t]


def _cost(test: KeyMatcher, detector: DeviceDetector) -> int:
    group, dot, _ = test.key.partition(".")
    if dot:
        return 2 + [*GROUPS].index(group)
    return int(isinstance(detector.keys[test.key].kind, Amount))


def _settings(raw: Mapping[str, object], detector: ValueDetector, place: Place) -> dict[str, object]:
    for key in raw:
        if key not in detector.settings:
            place.report_unknown(key, [*detector.settings])
    settings: dict[str, object] = {}
    for key, setting in detector.settings.items():
        value = raw.get(key, setting.default)
        if setting.required and key not in raw:
            place.report(key, f"is required ({setting.about})")
        else:
            settings[key] = None if value is None else place.parse(key, setting.kind.parse, value)
    return settings


def _group(group: str, raw: object, place: Place, name_problem: Callable[[str], str]) -> list[KeyMatcher | None]:
    """The tests of a table of names and texts. name_problem: returns the error in a name, "" if there is none."""
    if not isinstance(raw, dict):
        place.report(group, f'must be a table such as {{ NAME = "text" }}; got {describe_toml_value(raw)}')
        return []
    table = place.below(group)
    tests: list[KeyMatcher | None] = []
    for name, value in raw.items():
        if error := name_problem(name):
            table.report(name, place.belongs_elsewhere(name) or error)
        else:
            tests.append(_test(f"{group}.{name}", name, Text(), value, table))
    return tests


def _test(key: str, written: str, kind: SettingKind, raw: object, place: Place) -> KeyMatcher | None:
    """The test of a key; None if its value is invalid. key: as in KeyMatcher. written: the key as written in the
    file."""
    patterns = place.parse(written, kind.parse, raw)
    if patterns is None:
        return None
    if any(isinstance(p, GlobMatcher) and not p.pattern.isprintable() for p in patterns):
        place.report(written, 'contains an unprintable character; write "*" for it')
        return None
    items = raw if isinstance(raw, list) else [raw]
    shown = str if isinstance(kind, Amount) else describe_toml_value
    return KeyMatcher(key, patterns, " or ".join(map(shown, items)))


def _fact_problem(facts: FactTable, name: str) -> str:
    if facts.known:
        return "" if name in facts.known else f"unknown key; {expected(name, facts.known)}"
    is_valid = re.fullmatch(facts.pattern, name) and not {".", ".."} & {*name.split("/")}
    return "" if is_valid else "is not the name of a device tree property"
