"""Merges the documents of all files into the configuration. Reports every problem and keeps everything valid."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from capacityd.config.hints import hints
from capacityd.config.keys import SETTINGS_TABLES, is_resource_key
from capacityd.config.problems import EXAMPLE, Loaded, Place, Problem, clean
from capacityd.config.resource import resource_of
from capacityd.model.quantity import name_problem
from capacityd.schema.config import Config, Settings
from capacityd.schema.toml_values import describe_toml_value, toml_key

_MEANT_TO_OBSERVE = re.compile(r"\bobs[\w-]*[\"']?\s*=(?!\s*false\b)", re.IGNORECASE)
"""The key `observe`, perhaps misspelt, with a value that is not false."""


@dataclass(slots=True)
class _Merged:
    """The values of all files, after later files have replaced values of earlier files."""

    resources: dict[str, tuple[Place, object]] = field(default_factory=dict)
    """Name -> the place of the resource's table, and the table. Each place has its own list of problems."""
    settings: dict[tuple[str, str], tuple[Place, object]] = field(default_factory=dict)
    """Table and key -> the place of the table, and the key's TOML value. Each place has its own list of problems."""
    broken: dict[str, str] = field(default_factory=dict)
    """Invalid name of a resource -> what is wrong with the name."""
    complete: bool = True
    """Whether all resources are known. If not, nothing is removed from the Node, because a key may belong to an unknown
    resource."""


def parse(
    documents: Sequence[tuple[Place, Mapping[str, object]]], *, unreadable: Sequence[Problem], texts: Mapping[str, str]
) -> Loaded:
    """Merges documents (pairs of a file's place and content) and parses the result. Later documents override earlier
    ones.

    If two documents define a resource, only the later definition is checked. If it has a problem, the resource is
    broken: the earlier definition is outdated, and not used.

    unreadable: the problems of files that could not be read or parsed. texts: the text of each file, in the order of
    merging.
    """
    merged = _Merged(complete=not unreadable)  # an unreadable file may configure resources
    problems = [*unreadable]
    for place, document in documents:
        problems += _merge(place, document, merged)
    broken = {**merged.broken}
    values: dict[str, dict[str, Any]] = {}
    origins: dict[tuple[str, str], str] = {}
    settings: dict[str, Any] = {}
    for (table, key), (place, raw) in merged.settings.items():
        setting = SETTINGS_TABLES[table].get(key)
        if setting is None:
            value = None
            place.report_unknown(key, [*SETTINGS_TABLES[table]])
        else:
            value = place.parse(key, setting.type.parse, raw)
        if place.problems:
            problems += place.problems
        else:
            settings[key] = value
            values.setdefault(table, {})[key] = raw
            origins[table, key] = place.file
    resources = []
    warnings: list[Problem] = []
    for name, (place, raw) in merged.resources.items():
        resource = resource_of(name, raw, place)
        if place.problems:
            problems += place.problems
            more = f" (and {len(place.problems) - 1} more)" if len(place.problems) > 1 else ""
            broken[name] = f"{place.problems[0].reason()}{more}"
        elif resource is not None:  # None: the resource has enabled = false
            resources.append(resource)
            warnings += hints(resource, place)
            values.setdefault("resources", {})[name] = raw
            origins["resources", name] = place.file
    observing_file = _file_meant_to_observe(problems, texts, valid_file=origins.get(("kubernetes", "observe")))
    if observing_file is not None:  # fail safe: with observe = true, nothing is written to the Node
        settings["observe"] = True
        values.setdefault("kubernetes", {})["observe"] = True
        origins["kubernetes", "observe"] = observing_file
    config = Config(
        resources=tuple(resources),
        settings=Settings(**settings),
        broken=broken,
        complete=merged.complete,
        digest=_digest(values),
    )
    return Loaded(
        config=config,
        problems=tuple(problems),
        warnings=tuple(warnings),
        files=tuple(place.file for place, _ in documents),
        values=values,
        origins=origins,
    )


def _file_meant_to_observe(
    problems: Iterable[Problem], texts: Mapping[str, str], *, valid_file: str | None
) -> str | None:
    """The last file that has a problem and may be meant to set `observe` to true.

    Returns None if there is no such file, or if valid_file is later. texts: the text of each file, in the order of
    merging. valid_file: the file whose valid `observe` is used, or None.
    """
    files_with_problems = {problem.file for problem in problems}
    last = None
    for file, text in texts.items():
        if file == valid_file:
            last = None  # this file overrides earlier files
        if clean(file) in files_with_problems and _mentions_observe(text):
            last = file
    return last


def _mentions_observe(text: str) -> bool:
    """Whether a line may be meant to set `observe` to true: misspelt, in another table, or with an invalid value."""
    return any(_MEANT_TO_OBSERVE.search(line.partition("#")[0]) for line in text.split("\n"))


def _digest(values: Mapping[str, Mapping[str, Any]]) -> str:
    """A short hash of the merged values of all files: table -> key -> value."""
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), default=str)  # str: for dates in TOML
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _merge(top: Place, document: Mapping[str, object], merged: _Merged) -> list[Problem]:
    """Adds a document to the merged values, and returns its problems. parse() checks the values later.

    top: the place of the document.
    """
    for name, raw in document.items():
        if name in SETTINGS_TABLES:
            if isinstance(raw, dict):
                _merge_settings(name, raw, place=top.below(name), merged=merged)
            else:
                top.report(name, f"must be a table such as [{name}]; got {describe_toml_value(raw)}")
        elif name == "resources":
            if isinstance(raw, dict):
                for resource_name, resource in raw.items():
                    _merge_resource(resource_name, resource, place=top.below(name), merged=merged)
            else:
                top.report(name, f"must be a table such as [{EXAMPLE}]; got {describe_toml_value(raw)}")
                merged.complete = False  # the value may be meant to configure resources
        else:
            if "/" in name:
                top.report(name, f"a resource belongs in the table resources: [resources.{toml_key(name)}]")
            else:
                top.report_unknown(name, ["resources", *SETTINGS_TABLES])
            merged.complete = False  # the key may be a misplaced resource
    return top.problems


def _merge_settings(table: str, raw: Mapping[str, object], *, place: Place, merged: _Merged) -> None:
    """Adds the settings of a table to the merged values. place: the place of the table."""
    for key, value in raw.items():
        merged.settings[table, key] = (replace(place, problems=[]), value)


def _merge_resource(name: str, raw: object, *, place: Place, merged: _Merged) -> None:
    """Adds a resource to the merged values. place: the place of the table "resources"."""
    why_invalid = name_problem(name)
    if why_invalid:
        if _contains_unknown_table(raw):
            place.report(name, f"each dot begins a new table; write the whole name in quotes: [{EXAMPLE}]")
        else:
            place.report(name, f"the name {why_invalid}")
        # Users who may not read a private file can see the names of broken resources, so this name is left out.
        shown = f"a resource of {place.file}" if place.private else name
        merged.broken[clean(shown)] = place.problems[-1].reason()
        merged.complete = False  # the resource may already be published under its right name
        return
    merged.resources[name] = (place.of_resource(name), raw)


def _contains_unknown_table(raw: object) -> bool:
    """Whether a table contains another table under a key that no resource has.

    In a name without quotes, each dot begins such a table.
    """
    if not isinstance(raw, dict):
        return False
    return any(isinstance(value, dict) and not is_resource_key(key) for key, value in raw.items())
