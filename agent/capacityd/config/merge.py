"""Merges the documents of all files into the configuration. Reports every problem and keeps everything valid."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from capacityd.config.hints import hints
from capacityd.config.keys import RESOURCE, TABLES
from capacityd.config.problems import Loaded, Place, Problem, clean, expected, nearest
from capacityd.config.resource import resource_of
from capacityd.config.toml import toml_key
from capacityd.detectors import names
from capacityd.model.config import Config, Resource, Settings
from capacityd.model.quantity import name_problem
from capacityd.model.toml_values import describe_toml_value

_EXAMPLE = '[resources."example.com/dongle"]'


@dataclass(slots=True)
class _Merged:
    """The remaining values after later files have replaced parts of earlier ones. Each value knows its place."""

    resources: dict[str, tuple[Place, object]] = field(default_factory=dict)
    settings: dict[tuple[str, str], tuple[Place, object]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    complete: bool = True
    observe: str = ""
    """The path of a file with a misplaced or invalid `observe`, "" if there is none. Fail safe: `observe` counts as
    true."""


@dataclass(slots=True)
class _Valid:
    """The valid settings and their origins."""

    settings: Settings = field(default_factory=Settings)
    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    """origins and values are as in Loaded."""


def parse(
    documents: Sequence[tuple[str, Mapping[str, object]]], unreadable: Sequence[Problem] = (), observe: str = ""
) -> Loaded:
    """The configuration of documents (file, content). Later documents override earlier ones.

    unreadable: the problems of other files. observe: one of these files with a line "observe = true", "" if none.

    A replaced resource is not checked. If its replacement has a problem, the resource is broken, because the earlier
    definition is outdated.
    """
    merged = _Merged(complete=not unreadable, observe=observe)
    problems = [*unreadable]
    for file, document in documents:
        problems += _merge(file, document, merged)
    valid, setting_problems = _settings(merged)
    problems += setting_problems
    resources = []
    for name, (place, raw) in merged.resources.items():
        resource = resource_of(name, raw, place)
        problems += place.problems
        if place.problems:
            merged.broken[name] = _summary(place.problems)
        elif resource:
            resources.append(resource)
            valid.values.setdefault("resources", {})[name] = raw
            valid.origins[place.resource] = place.file
    config = Config(tuple(resources), valid.settings, merged.broken, merged.complete, _digest(valid.values))
    files = tuple(file for file, _ in documents)
    return Loaded(config, tuple(problems), tuple(_warnings(resources)), files, valid.values, valid.origins)


def _warnings(resources: Iterable[Resource]) -> Iterable[Problem]:
    for resource in resources:
        for hint in hints(resource):
            place = Place(resource.source).below("resources").below(resource.name)
            for step in hint.path[:1]:
                place = place.below(step)
            place.report("".join(hint.path[1:]), hint.text)
            yield from place.problems


def _digest(values: Mapping[str, Mapping[str, Any]]) -> str:
    """A short hash of the merged values of all files: table -> key -> value."""
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _merge(file: str, document: Mapping[str, object], merged: _Merged) -> list[Problem]:
    """Adds a document. Returns its problems, except for those in the resources and settings that it adds."""
    top = Place(file)
    for name, raw in document.items():
        if name != "resources" and name not in TABLES:
            top.report(name, _unknown_table(name))
            merged.complete = False  # the key may be a misplaced resource
            merged.observe = file if _asks_to_observe(name, raw) else merged.observe
        elif not isinstance(raw, dict):
            example = f"[{name}]" if name in TABLES else _EXAMPLE
            top.report(name, f"must be a table such as {example}; got {describe_toml_value(raw)}")
            merged.complete &= name in TABLES
            merged.observe = file if _asks_to_observe(name, raw) else merged.observe
        elif name in TABLES:
            merged.settings |= {(name, key): (top.below(name), value) for key, value in raw.items()}
        else:
            for key, value in raw.items():
                _merge_resource(key, value, top.below(name), merged)
                merged.observe = file if _asks_to_observe(key, value) else merged.observe
    return top.problems


def _merge_resource(name: str, raw: object, place: Place, merged: _Merged) -> None:
    if not name_problem(name):
        merged.resources[name] = (place.of_resource(name), raw)
        return
    earlier = len(place.problems)
    nested = [path for path in _nested((name,), raw) if len(path) > 1]
    for path in nested:
        table = place
        for part in path:
            table = table.below(part)
        meant = toml_key(_intended_name(path))
        table.report("", f"each dot begins a new table; write the name in quotes: [resources.{meant}]")
    if not nested:
        place.report(name, f"the name {name_problem(name)}")
    merged.broken[clean(name)] = _summary(place.problems[earlier:])
    merged.complete = False  # the resource may already be published under its right name


def _nested(path: tuple[str, ...], raw: object) -> Iterable[tuple[str, ...]]:
    """Yields the paths of the tables that look like resources. parse_toml() has limited the depth."""
    inner = {}
    if isinstance(raw, dict):
        inner = {k: v for k, v in raw.items() if isinstance(v, dict) and k not in RESOURCE and k not in names()}
    if not inner:
        yield path
    for key, value in inner.items():
        yield from _nested((*path, key), value)


def _intended_name(path: Sequence[str]) -> str:
    """The name that a table's path was probably meant to be: example.com/dongle for [resources.example.com.dongle]."""
    name = ".".join(path)
    if "/" in name:
        return name
    return f"{'.'.join(path[:-1])}/{path[-1]}" if len(path) > 2 else f"{name}/NAME"


def _unknown_table(name: str) -> str:
    if "/" in name:
        return f"a resource belongs in the table resources: [resources.{toml_key(name)}]"
    return _belongs_elsewhere(name) or f"unknown table; {expected(name, ['resources', *TABLES])}"


def _belongs_elsewhere(name: str) -> str:
    """The place where a key belongs; "" if it is neither a setting nor a key of a resource."""
    if table := next((table for table, keys in TABLES.items() if name in keys), None):
        return f"belongs in [{table}]: move it below that header"
    if name in RESOURCE or name in names():
        return f"belongs to a resource: move it below a header such as {_EXAMPLE}"
    return ""


def _settings(merged: _Merged) -> tuple[_Valid, list[Problem]]:
    """The settings, and their problems."""
    parsed: dict[str, Any] = {}
    problems: list[Problem] = []
    valid = _Valid()
    for (table, key), (place, raw) in merged.settings.items():
        own = replace(place, problems=[])
        entry = TABLES[table].get(key)
        if entry is None:
            own.report(key, _belongs_elsewhere(key) or f"unknown key; {expected(key, [*TABLES[table]])}")
        else:
            value = own.parse(key, entry.kind.parse, raw)
        problems += own.problems
        if not own.problems:
            parsed[key] = value
            valid.values.setdefault(table, {})[key] = raw
            valid.origins[f"{table}.{key}"] = place.file
        elif (key if entry else nearest(key, [*TABLES[table], "observe"])) == "observe":
            merged.observe = place.file
    if merged.observe:
        parsed["observe"] = valid.values.setdefault("kubernetes", {})["observe"] = True
        valid.origins["kubernetes.observe"] = merged.observe
    valid.settings = Settings(**parsed)
    return valid, problems


def _asks_to_observe(name: str, raw: object) -> bool:
    """Whether a misplaced key or table may be meant to set `observe`. Fail safe: in this case, `observe` counts as
    true."""
    tables = raw if isinstance(raw, list) else [raw]
    return name == "observe" or any(isinstance(table, dict) and "observe" in table for table in tables)


def _summary(problems: Sequence[Problem]) -> str:
    return f"{problems[0]} (and {len(problems) - 1} more)" if len(problems) > 1 else str(problems[0])
