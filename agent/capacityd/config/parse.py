"""Merges the files' documents and makes the configuration of them: every mistake noted, everything good kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from capacityd.config.keys import RESOURCE, TABLES
from capacityd.config.problems import Place, Problem, clean, did_you_mean, nearest
from capacityd.config.resource import resource_of
from capacityd.config.toml import toml_key
from capacityd.detectors import names
from capacityd.kinds import said
from capacityd.model import Config, Settings
from capacityd.quantity import name_problem

_EXAMPLE = '[resources."example.com/dongle"]'


@dataclass(slots=True)
class _Merged:
    """What is left after later files replaced what earlier ones say, each with its place."""

    resources: dict[str, tuple[Place, object]] = field(default_factory=dict)
    settings: dict[tuple[str, str], tuple[Place, object]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    complete: bool = True
    observe: str = ""  # the file that asks for it where it does not count


@dataclass(frozen=True, slots=True)
class Parsed:
    """config; values: what it is made of, table -> key -> as TOML has it; origins: table.key -> file."""

    config: Config
    values: Mapping[str, Mapping[str, Any]]
    origins: Mapping[str, str]


def parse(documents: Sequence[tuple[str, Mapping[str, object]]], found: list[Problem], observe: str) -> Parsed:
    """The configuration that these documents (file, content) make; later ones override. found: gets the mistakes.

    observe: a file that asks for it although it can't be parsed, "" if there is none.

    What is replaced is not looked at. A mistake in what replaces it breaks the resource: the earlier one is not what
    anybody wants any more.
    """
    merged = _Merged(observe=observe)
    for file, document in documents:
        _merge(file, document, found, merged)
    values: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}
    settings = _settings(merged, found, values, origins)
    resources = []
    for name, (place, raw) in merged.resources.items():
        before = len(found)
        resource = resource_of(name, raw, place)
        if mistakes := found[before:]:
            merged.broken[name] = _summary(mistakes)
        elif resource:
            resources.append(resource)
            values.setdefault("resources", {})[name] = raw
            origins[place.resource] = place.file
    return Parsed(Config(tuple(resources), settings, merged.broken, merged.complete), values, origins)


def _merge(file: str, document: Mapping[str, object], found: list[Problem], merged: _Merged) -> None:
    top = Place(file, found)
    for name, raw in document.items():
        if name != "resources" and name not in TABLES:
            top.wrong(name, _unknown_table(name))
            merged.complete = False  # it may be a resource in the wrong place
            merged.observe = file if _asks_to_observe(name, raw) else merged.observe
        elif not isinstance(raw, dict):
            top.wrong(name, f"must be a table, written [{name if name in TABLES else _EXAMPLE[1:-1]}], not {said(raw)}")
            merged.complete &= name in TABLES
            merged.observe = file if _asks_to_observe(name, raw) else merged.observe
        elif name in TABLES:
            merged.settings |= {(name, key): (top.below(name), value) for key, value in raw.items()}
        else:
            for key, value in raw.items():
                _merge_resource(key, value, top.below(name), merged)


def _merge_resource(name: str, raw: object, place: Place, merged: _Merged) -> None:
    if not name_problem(name):
        merged.resources[name] = (place.of_resource(name), raw)
        return
    before = len(place.found)
    nested = [path for path in _nested((name,), raw) if len(path) > 1]
    for path in nested:
        where = place
        for part in path:
            where = where.below(part)
        meant = toml_key(_meant(path))
        where.wrong("", f"each dot begins a table in a table; put the name in quotes: [resources.{meant}]")
    if not nested:
        place.wrong(name, f"the name {name_problem(name)}")
    merged.broken[clean(name)] = _summary(place.found[before:])
    merged.complete = False  # the resource that it should be may have been published


def _nested(path: tuple[str, ...], raw: object) -> Iterable[tuple[str, ...]]:
    """The paths that lead to what looks like the content of a resource. How deep it goes was checked before."""
    inner = {}
    if isinstance(raw, dict):
        inner = {k: v for k, v in raw.items() if isinstance(v, dict) and k not in RESOURCE and k not in names()}
    if not inner:
        yield path
    for key, value in inner.items():
        yield from _nested((*path, key), value)


def _meant(path: Sequence[str]) -> str:
    """The resource's name that such a path was probably meant to be."""
    name = ".".join(path)
    if "/" in name:
        return name
    return f"{'.'.join(path[:-1])}/{path[-1]}" if len(path) > 2 else f"{name}/NAME"


def _unknown_table(name: str) -> str:
    if "/" in name:
        return f"a resource stands below resources: [resources.{toml_key(name)}]"
    table = next((table for table, keys in TABLES.items() if name in keys), None)
    if table:
        return f"belongs in [{table}]: put it below that line"
    if name in RESOURCE or name in names():
        return f"belongs to a resource: put it below a line such as {_EXAMPLE}"
    known = ["resources", *TABLES]
    return f"unknown table; there are {', '.join(known[:-1])} and {known[-1]}{did_you_mean(name, known)}"


def _settings(
    merged: _Merged, found: list[Problem], values: dict[str, dict[str, Any]], origins: dict[str, str]
) -> Settings:
    good: dict[str, Any] = {}
    for (table, key), (place, raw) in merged.settings.items():
        before = len(found)
        entry = TABLES[table].get(key)
        if entry is None:
            place.wrong(key, f"unknown key; there are {', '.join(TABLES[table])}{did_you_mean(key, TABLES[table])}")
        else:
            value = place.take(key, entry.kind.parse, raw)
        if len(found) == before:
            good[key] = value
            values.setdefault(table, {})[key] = raw
            origins[f"{table}.{key}"] = place.file
        elif (key if entry else nearest(key, TABLES[table])) == "observe":
            merged.observe = place.file
    if merged.observe:
        good["observe"] = values.setdefault("kubernetes", {})["observe"] = True
        origins["kubernetes.observe"] = merged.observe
    return Settings(**good)


def _asks_to_observe(name: str, raw: object) -> bool:
    """Whether somebody wants nothing written, and does not say it in the right place. Then nothing is written."""
    tables = raw if isinstance(raw, list) else [raw]
    return name == "observe" or any(isinstance(table, dict) and "observe" in table for table in tables)


def _summary(mistakes: Sequence[Problem]) -> str:
    return f"{mistakes[0]} (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else str(mistakes[0])
