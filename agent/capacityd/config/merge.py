"""Merges the documents of all files into the configuration. Reports every problem and keeps everything valid."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
    """What remains after later files replaced parts of earlier ones. Each value has its place."""

    resources: dict[str, tuple[Place, object]] = field(default_factory=dict)
    settings: dict[tuple[str, str], tuple[Place, object]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    complete: bool = True
    observe: str = ""
    """A file with a misplaced or invalid `observe`, "" if there is none. Fail safe: it is treated as set."""


def parse(
    documents: Sequence[tuple[str, Mapping[str, object]]], unreadable: Sequence[Problem] = (), observe: str = ""
) -> Loaded:
    """The configuration of documents (file, content); later ones override.

    unreadable: the problems of other files. observe: one of those that has a line "observe = true", "" if none has.

    A replaced resource is not checked. If its replacement has a problem the resource is broken: the earlier one is
    outdated.
    """
    found = [*unreadable]
    merged = _Merged(complete=not found, observe=observe)
    for file, document in documents:
        _merge(file, document, found, merged)
    values: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}
    settings = _settings(merged, found, values, origins)
    resources = []
    for name, (place, raw) in merged.resources.items():
        before = len(found)
        resource = resource_of(name, raw, place)
        if problems := found[before:]:
            merged.broken[name] = _summary(problems)
        elif resource:
            resources.append(resource)
            values.setdefault("resources", {})[name] = raw
            origins[place.resource] = place.file
    config = Config(tuple(resources), settings, merged.broken, merged.complete, _digest(values))
    return Loaded(
        config, tuple(found), tuple(_warnings(resources)), tuple(file for file, _ in documents), values, origins
    )


def _warnings(resources: Iterable[Resource]) -> Iterable[Problem]:
    for resource in resources:
        for key, message in hints(resource):
            steps = ("resources", resource.name, resource.detector, *([key] if key else []))
            table = ".".join(map(toml_key, steps[:3]))
            path = tuple((step, 0) for step in steps)
            yield Problem(
                clean(resource.source), clean(message), path, clean(table), clean(toml_key(key)) if key else ""
            )


def _digest(values: Mapping[str, Mapping[str, Any]]) -> str:
    """A short hash of the merged values of all files: table -> key -> value."""
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _merge(file: str, document: Mapping[str, object], found: list[Problem], merged: _Merged) -> None:
    top = Place(file, found)
    for name, raw in document.items():
        if name != "resources" and name not in TABLES:
            top.report(name, _unknown_table(name))
            merged.complete = False  # it can be a resource in the wrong place
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


def _merge_resource(name: str, raw: object, place: Place, merged: _Merged) -> None:
    if not name_problem(name):
        merged.resources[name] = (place.of_resource(name), raw)
        return
    before = len(place.problems)
    nested = [path for path in _nested((name,), raw) if len(path) > 1]
    for path in nested:
        where = place
        for part in path:
            where = where.below(part)
        meant = toml_key(_meant(path))
        where.report("", f"each dot begins a new table; write the name in quotes: [resources.{meant}]")
    if not nested:
        place.report(name, f"the name {name_problem(name)}")
    merged.broken[clean(name)] = _summary(place.problems[before:])
    merged.complete = False  # the resource with the right name may be published


def _nested(path: tuple[str, ...], raw: object) -> Iterable[tuple[str, ...]]:
    """The paths of the tables that have the shape of a resource. parse_toml has checked the depth."""
    inner = {}
    if isinstance(raw, dict):
        inner = {k: v for k, v in raw.items() if isinstance(v, dict) and k not in RESOURCE and k not in names()}
    if not inner:
        yield path
    for key, value in inner.items():
        yield from _nested((*path, key), value)


def _meant(path: Sequence[str]) -> str:
    """The resource's name that was probably meant by a path of unquoted names."""
    name = ".".join(path)
    if "/" in name:
        return name
    return f"{'.'.join(path[:-1])}/{path[-1]}" if len(path) > 2 else f"{name}/NAME"


def _unknown_table(name: str) -> str:
    if "/" in name:
        return f"a resource belongs in the table resources: [resources.{toml_key(name)}]"
    return _belongs_elsewhere(name) or f"unknown table; {expected(name, ['resources', *TABLES])}"


def _belongs_elsewhere(name: str) -> str:
    """Where a key belongs; "" if it is none of a setting nor of a resource."""
    if table := next((table for table, keys in TABLES.items() if name in keys), None):
        return f"belongs in [{table}]: move it below that header"
    if name in RESOURCE or name in names():
        return f"belongs to a resource: move it below a header such as {_EXAMPLE}"
    return ""


def _settings(
    merged: _Merged, found: list[Problem], values: dict[str, dict[str, Any]], origins: dict[str, str]
) -> Settings:
    good: dict[str, Any] = {}
    for (table, key), (place, raw) in merged.settings.items():
        before = len(found)
        entry = TABLES[table].get(key)
        if entry is None:
            place.report(key, _belongs_elsewhere(key) or f"unknown key; {expected(key, [*TABLES[table]])}")
        else:
            value = place.parse(key, entry.kind.parse, raw)
        if len(found) == before:
            good[key] = value
            values.setdefault(table, {})[key] = raw
            origins[f"{table}.{key}"] = place.file
        elif (key if entry else nearest(key, [*TABLES[table], "observe"])) == "observe":
            merged.observe = place.file
    if merged.observe:
        good["observe"] = values.setdefault("kubernetes", {})["observe"] = True
        origins["kubernetes.observe"] = merged.observe
    return Settings(**good)


def _asks_to_observe(name: str, raw: object) -> bool:
    """Detects a misplaced `observe`; fail safe by treating it as set."""
    tables = raw if isinstance(raw, list) else [raw]
    return name == "observe" or any(isinstance(table, dict) and "observe" in table for table in tables)


def _summary(problems: Sequence[Problem]) -> str:
    return f"{problems[0]} (and {len(problems) - 1} more)" if len(problems) > 1 else str(problems[0])
