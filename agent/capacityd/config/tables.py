"""Parses the tables in a resource: the tables below a detector's name, in "except" and in "when".

All functions collect problems in the table that they parse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from capacityd.config.keys import NAME_CHECKS, WHEN_KEYS, fits_resource
from capacityd.config.problems import WHOLE_TABLE, TomlTable
from capacityd.schema.config import Table
from capacityd.schema.device import SUBSYSTEM, DeviceDetector, ValueDetector
from capacityd.schema.matchers import OR, KeyMatcher
from capacityd.schema.setting_types import SettingValue
from capacityd.schema.toml_values import describe_toml_value
from capacityd.schema.value_types import Amount, Kind, Text


def detector_tables(resource: TomlTable, detector: DeviceDetector) -> tuple[Table, ...]:
    """The tables of devices below the detector's name."""
    tables = []
    for table in resource.tables_below(detector.name, _example(detector)):
        content_with_defaults = {**detector.defaults, **table.content}
        tables.append(_device_table(replace(table, content=content_with_defaults), detector))
        if SUBSYSTEM in detector.keys and SUBSYSTEM not in table.content:
            table.report(SUBSYSTEM, f"is required ({detector.keys[SUBSYSTEM].about})")
    return tuple(tables)


def except_tables(resource: TomlTable, detector: DeviceDetector) -> tuple[Table, ...]:
    """The tables of devices below "except"."""
    tables = []
    for table in resource.tables_below("except", _example(detector)):
        tables.append(_device_table(table, detector))
        has_test = any(value != {} for value in table.content.values())  # attributes = {} contains no test
        if not has_test:
            table.report(WHOLE_TABLE, "must not be empty: an empty table would exclude every device")
    return tuple(tables)


def setting_tables(resource: TomlTable, detector: ValueDetector) -> tuple[Table, ...]:
    """The tables of settings below the detector's name."""
    required_names = [name for name, setting in detector.settings.items() if setting.required]
    assignments = ", ".join(f"{name} = …" for name in required_names)
    example = f"{{ {assignments} }}"  # such as { path = … }
    tables = resource.tables_below(detector.name, example)
    return tuple(Table(settings=_settings(table, detector)) for table in tables)


def when_tests(resource: TomlTable) -> tuple[KeyMatcher, ...]:
    """The tests in a resource's "when"."""
    when = resource.table_below("when", example='{ arch = "aarch64" }')
    if when is None:
        return ()
    if not when.content:
        resource.report("when", "must not be empty; leave it out if the resource applies to every machine")
    tests: list[KeyMatcher] = []
    for key in when.content:
        when_key = WHEN_KEYS.get(key)
        if when_key is None:
            when.report_unknown(key, [*WHEN_KEYS])
        elif when_key.is_text:
            tests += _parse_tests(when, key, when_key.text)
        else:
            tests += _tests_by_name(when, key, when_key.name_problem)
    return tuple(tests)


def _example(detector: DeviceDetector) -> str:
    """An example of a table of devices, such as { vendor = … }, for messages."""
    first_key = next(iter(detector.keys))
    return f"{{ {first_key} = … }}"


def _device_table(table: TomlTable, detector: DeviceDetector) -> Table:
    """Parses a table of devices. Keeps the order of the keys, because matching ends at the first mismatch."""
    tests: list[KeyMatcher] = []
    for key in table.content:
        if key in NAME_CHECKS:
            tests += _tests_by_name(table, key, NAME_CHECKS[key])
        elif key in detector.keys:
            tests += _parse_tests(table, key, detector.keys[key].kind)
        else:
            table.report_unknown(key, [*detector.keys, *NAME_CHECKS])
    return Table(tests=tuple(tests))


def _settings(table: TomlTable, detector: ValueDetector) -> dict[str, SettingValue]:
    """The values of all settings of the detector. Missing settings have their defaults."""
    for key in table.content:
        if key not in detector.settings:
            table.report_unknown(key, [*detector.settings])
    settings: dict[str, SettingValue] = {}
    for key, setting in detector.settings.items():
        if key in table.content:
            settings[key] = table.parse(key, setting.type.parse)
        elif setting.required:
            table.report(key, f"is required ({setting.about})")
        elif setting.default is None:
            settings[key] = None
        else:
            settings[key] = setting.type.parse(setting.default)
    return settings


def _tests_by_name(table: TomlTable, key: str, name_problem: Callable[[str], str]) -> list[KeyMatcher]:
    """The tests of a key whose value is a table of names and texts.

    name_problem: takes a name and returns what is wrong with it; "" if the name is valid.
    """
    name_table = table.table_below(key, example='{ NAME = "text" }')
    if name_table is None:
        return []
    tests: list[KeyMatcher] = []
    for name, value in name_table.content.items():
        problem = name_problem(name)
        # An attribute may have the name of a resource's setting: label = "card0" is an attribute, label = true is not.
        if problem or fits_resource(name, value):
            name_table.report(name, name_table.where_it_belongs(name) or problem)
        else:
            tests += _parse_tests(name_table, name, Text(), prefix=f"{key}.")
    return tests


def _parse_tests(table: TomlTable, key: str, kind: Kind, *, prefix: str = "") -> list[KeyMatcher]:
    """Parses a key's value into a list with one test. If the value is invalid, the list is empty.

    prefix: what precedes the key in KeyMatcher.key, such as "attributes.".
    """
    matchers = table.parse(key, kind.parse)
    if matchers is None:
        return []
    value = table.content[key]
    items = value if isinstance(value, list) else [value]
    texts = [_value_text(item, kind) for item in items]
    return [KeyMatcher(f"{prefix}{key}", matchers, text=OR.join(texts))]


def _value_text(item: object, kind: Kind) -> str:
    """A configured value in the form that messages use. An amount has no quotes."""
    return str(item) if isinstance(kind, Amount) else describe_toml_value(item)
