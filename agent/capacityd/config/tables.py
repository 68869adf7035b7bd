"""Parses the tables in a resource: the tables below a detector's name, in "except" and in "when"."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import partial

from capacityd.config.keys import RESOURCE_KEYS, WHEN_KEYS, Fact
from capacityd.config.problems import Place, expected
from capacityd.schema.config import Table
from capacityd.schema.device import SUBSYSTEM, DeviceDetector, ValueDetector
from capacityd.schema.matchers import OR, GlobMatcher, KeyMatcher
from capacityd.schema.setting_types import SettingValue
from capacityd.schema.toml_values import describe_toml_value
from capacityd.schema.value_types import Amount, Kind, Text

_PROPERTY = re.compile(r"[^\s=/]+")
"""The name of a udev property."""
UNSAFE_ATTRIBUTES = (
    "vpd", "vpd_pg*", "rom", "config", "resource*", "eeprom", "remove", "delete", "rescan", "bus_rescan", "reset",
)  # fmt: skip
"""Globs of files in /sys that a configuration may not name. Reading such a file may take seconds, hang, disturb the
device or return binary data. Some of the files can only be written."""


def _attribute_problem(name: str) -> str:
    """What is wrong with the name of a file below a device in /sys; "" if the name is valid."""
    parts = name.split("/")
    is_relative_path = {"", ".", ".."}.isdisjoint(parts)
    if not name.isprintable() or not is_relative_path:
        return 'must be a path below the device in /sys, without "/" at its ends and without ".."'
    if any(fnmatchcase(parts[-1], unsafe) for unsafe in UNSAFE_ATTRIBUTES):
        return "cannot be matched: reading it may take seconds, disturb the device or return binary data"
    # No file in /sys has the name of a resource's key, except "enabled" of a display.
    is_misplaced_key = name in RESOURCE_KEYS and name != "enabled"
    return "is not an attribute" if is_misplaced_key else ""


def _property_problem(name: str) -> str:
    """What is wrong with the name of a udev property; "" if the name is valid."""
    return "" if name.isprintable() and _PROPERTY.fullmatch(name) else "is not the name of a udev property"


NAME_TABLES = {"attributes": _attribute_problem, "properties": _property_problem}
"""Table of names that every table of devices may contain -> function that returns what is wrong with a name, or ""."""


def detector_tables(raw: object, detector: DeviceDetector, place: Place) -> tuple[Table, ...]:
    """The tables of devices below the detector's name. place: the table of the resource."""
    tables = []
    for table_place, table in _tables(raw, detector.name, place=place, example=_example(detector)):
        defaults = {key: default for key, default in detector.defaults.items() if key not in table}
        tables.append(_device_table({**defaults, **table}, detector, table_place))
        if detector.find_in and SUBSYSTEM not in table:
            table_place.report(SUBSYSTEM, f"is required ({detector.keys[SUBSYSTEM].about})")
    return tuple(tables)


def except_tables(raw: object, detector: DeviceDetector, place: Place) -> tuple[Table, ...]:
    """The tables of devices below "except". place: the table of the resource."""
    tables = []
    for table_place, table in _tables(raw, "except", place=place, example=_example(detector)):
        tables.append(_device_table(table, detector, table_place))
        if not _has_test(table):
            table_place.report("", "must not be empty: an empty table would exclude every device")
    return tuple(tables)


def _example(detector: DeviceDetector) -> str:
    """An example of a table of devices, for messages."""
    first_key, *_ = (*detector.identifying_keys, *detector.keys)  # cpu and memory have no identifying keys
    return f"{{ {first_key} = … }}"


def _device_table(raw: Mapping[str, object], detector: DeviceDetector, place: Place) -> Table:
    """Parses a table of devices. The tests keep the order of the keys, because matching ends at the first mismatch."""
    tests: list[KeyMatcher] = []
    for key, value in raw.items():
        tests += _device_tests(key, value, detector=detector, place=place)
    return Table(tests=tuple(tests))


def _has_test(table: Mapping[str, object]) -> bool:
    """Whether a table of devices contains a test. An empty "attributes" or "properties" contains no test."""
    return any(key not in NAME_TABLES or value for key, value in table.items())


def setting_tables(raw: object, detector: ValueDetector, place: Place) -> tuple[Table, ...]:
    """The tables of settings below the detector's name. place: the table of the resource."""
    required = ", ".join(f"{name} = …" for name, setting in detector.settings.items() if setting.required)
    tables = _tables(raw, detector.name, place=place, example=f"{{ {required} }}")
    return tuple(Table(settings=_settings(table, detector, table_place)) for table_place, table in tables)


def when_tests(raw: object, place: Place) -> tuple[KeyMatcher, ...]:
    """The tests in a resource's "when". place: the table of the resource."""
    if not isinstance(raw, dict):
        place.report("when", f'must be a table such as {{ arch = "aarch64" }}; got {describe_toml_value(raw)}')
        return ()
    if not raw:
        place.report("when", "must not be empty; leave it out if the resource applies to every machine")
    when = place.below("when")
    tests: list[KeyMatcher] = []
    for key, value in raw.items():
        fact = WHEN_KEYS.get(key)
        if fact is None:
            when.report_unknown(key, [*WHEN_KEYS])
        elif fact.is_table:
            tests += _tests_by_name(key, value, place=when, name_problem=partial(_fact_problem, fact))
        else:
            tests += _test(key, written_key=key, kind=fact.text, raw=value, place=when)
    return tuple(tests)


def _tables(raw: object, key: str, *, place: Place, example: str) -> list[tuple[Place, Mapping[str, object]]]:
    """The place and content of each table below a key. The key's value is one table, or a list of tables.

    place: the table that contains the key. example: a valid table, for messages.
    """
    tables = raw if isinstance(raw, list) else [raw]
    if not tables:
        place.report(key, f"must not be an empty list; write a table such as {example}")
    places: list[tuple[Place, Mapping[str, object]]] = []
    for number, table in enumerate(tables, 1):
        if isinstance(table, dict):
            number_in_list = number if len(tables) > 1 else 0  # a list of one table is shown as a single table
            places.append((place.below(key, number_in_list), table))
        else:
            subject = f"table {number} of the list " if isinstance(raw, list) else ""
            place.report(key, f"{subject}must be a table such as {example}; got {describe_toml_value(table)}")
    return places


def _device_tests(key: str, raw: object, *, detector: DeviceDetector, place: Place) -> list[KeyMatcher]:
    """The tests of a key in a table of devices. A key in NAME_TABLES has a test for each name in its table.

    place: the table of devices.
    """
    if key in NAME_TABLES:
        return _tests_by_name(key, raw, place=place, name_problem=NAME_TABLES[key])
    if key in detector.keys:
        return _test(key, written_key=key, kind=detector.keys[key].kind, raw=raw, place=place)
    place.report_unknown(key, [*detector.keys, *NAME_TABLES])
    return []


def _settings(raw: Mapping[str, object], detector: ValueDetector, place: Place) -> dict[str, SettingValue]:
    """The values of all settings of the detector. Missing settings have their defaults.

    place: the table with the settings.
    """
    for key in raw:
        if key not in detector.settings:
            place.report_unknown(key, [*detector.settings])
    settings: dict[str, SettingValue] = {}
    for key, setting in detector.settings.items():
        value = raw.get(key, setting.default)
        if setting.required and key not in raw:
            place.report(key, f"is required ({setting.about})")
        else:
            settings[key] = None if value is None else place.parse(key, setting.type.parse, value)
    return settings


def _tests_by_name(key: str, raw: object, *, place: Place, name_problem: Callable[[str], str]) -> list[KeyMatcher]:
    """The tests of a key whose value is a table of names and texts.

    place: the table that contains the key. name_problem: returns what is wrong with a name, or "".
    """
    if not isinstance(raw, dict):
        place.report(key, f'must be a table such as {{ NAME = "text" }}; got {describe_toml_value(raw)}')
        return []
    table = place.below(key)
    tests: list[KeyMatcher] = []
    for name, value in raw.items():
        if error := name_problem(name):
            table.report(name, place.where_it_belongs(name) or error)
        else:
            tests += _test(f"{key}.{name}", written_key=name, kind=Text(), raw=value, place=table)
    return tests


def _test(key: str, *, written_key: str, kind: Kind, raw: object, place: Place) -> list[KeyMatcher]:
    """Parses a key's value into a list with one test. Reports an invalid value, and returns an empty list.

    key: the full key, such as attributes.NAME. written_key: the key in the file, such as NAME. place: the table that
    contains written_key.
    """
    matchers = place.parse(written_key, kind.parse, raw)
    if matchers is None:  # place.parse() has reported the problem
        return []
    globs = [matcher for matcher in matchers if isinstance(matcher, GlobMatcher)]
    if not all(glob.pattern.isprintable() for glob in globs):
        place.report(written_key, 'contains an unprintable character; write "*" for it')
        return []
    items = raw if isinstance(raw, list) else [raw]
    to_text = str if isinstance(kind, Amount) else describe_toml_value  # an amount is shown without quotes
    return [KeyMatcher(key, matchers, text=OR.join(map(to_text, items)))]


def _fact_problem(fact: Fact, name: str) -> str:
    """What is wrong with a name in a table of "when", such as "dmi"; "" if the name is valid."""
    if fact.names:
        return "" if name in fact.names else f"unknown key; {expected(name, fact.names)}"
    is_valid = re.fullmatch(fact.pattern, name) and {".", ".."}.isdisjoint(name.split("/"))
    return "" if is_valid else "is not the name of a device tree property"
