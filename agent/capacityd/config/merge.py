"""Merges the documents of all files into the configuration. Reports every problem and keeps everything valid."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from capacityd.config.hints import hints
from capacityd.config.keys import RESOURCE, TABLES
from capacityd.config.problems import EXAMPLE, Loaded, Place, Problem, clean
from capacityd.config.resource import resource_of
from capacityd.config.toml import toml_key
from capacityd.detectors import names
from capacityd.model.config import Config, Resource, Settings
from capacityd.model.quantity import name_problem
from capacityd.model.toml_values import describe_toml_value

_NOT_FALSE = re.compile(r"\b([\w-]{1,80})[\"']?\s*=(?!\s*false\b)")
"""A key whose value is not false."""


@dataclass(slots=True)
class _Merged:
    """The remaining values after later files have replaced parts of earlier ones. Each value knows its place."""

    resources: dict[str, tuple[Place, object]] = field(default_factory=dict)
    settings: dict[tuple[str, str], tuple[Place, object]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    complete: bool = True
    notes: list[Problem] = field(default_factory=list)
    """Which values replace those of earlier files."""

    def note(self, place: Place, key: str, text: str) -> None:
        """Adds a note about a key of a table or, if the key is "", about the whole table."""
        noted = replace(place, problems=self.notes)
        noted.report(key, text)


def parse(
    documents: Sequence[tuple[str, Mapping[str, object]]],
    unreadable: Sequence[Problem],
    texts: Mapping[str, str],
    private: Collection[str] = (),
) -> Loaded:
    """The configuration of documents (file, content). Later documents override earlier ones.

    unreadable: the problems of other files. texts: the text of each file, in order. private: the files that some users
    may not read.

    A replaced resource is not checked. If its replacement has a problem, the resource is broken, because the earlier
    definition is outdated.
    """
    merged = _Merged(complete=not unreadable)
    problems = [*unreadable]
    for file, document in documents:
        problems += _merge(Place(file, private=file in private), document, merged)
    values: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}
    settings: dict[str, Any] = {}
    for (table, key), (place, raw) in merged.settings.items():
        value = None
        if entry := TABLES[table].get(key):
            value = place.parse(key, entry.kind.parse, raw)
        else:
            place.report_unknown(key, [*TABLES[table]])
        problems += place.problems
        if not place.problems:
            settings[key] = value
            values.setdefault(table, {})[key] = raw
            origins[f"{table}.{key}"] = place.file
    resources = []
    for name, (place, raw) in merged.resources.items():
        resource = resource_of(name, raw, place)
        problems += place.problems
        if place.problems:
            more = f" (and {len(place.problems) - 1} more)" if len(place.problems) > 1 else ""
            merged.broken[name] = f"{place.problems[0]}{more}"
        elif resource:
            resources.append(resource)
            values.setdefault("resources", {})[name] = raw
            origins[place.resource] = place.file
    if doubtful := _may_observe(problems, texts, origins.get("kubernetes.observe")):
        settings["observe"] = values.setdefault("kubernetes", {})["observe"] = True
        origins["kubernetes.observe"] = doubtful
    config = Config(tuple(resources), Settings(**settings), merged.broken, merged.complete, _digest(values))
    files = tuple(file for file, _ in documents)
    warnings = tuple(_warnings(resources, private))
    return Loaded(config, tuple(problems), warnings, files, values, origins, tuple(merged.notes))


def _may_observe(problems: Iterable[Problem], texts: Mapping[str, str], origin: str | None) -> str:
    """The last file that has a problem and may be meant to set `observe`; "" if there is none, or a later file sets it.

    Fail safe: `observe` then counts as true. origin: the file of the valid `observe`.
    """
    files = [*texts]
    wrong = {problem.file for problem in problems}
    doubtful = [file for file in files if clean(file) in wrong and _mentions_observe(texts[file])]
    if not doubtful or (origin in texts and files.index(str(origin)) > files.index(doubtful[-1])):
        return ""
    return doubtful[-1]


def _mentions_observe(text: str) -> bool:
    """Whether a line may be meant to set `observe` to true: misspelt, in another table, or with an invalid value.

    A mistyped word keeps its first or last letter: "server" is not a mistyped "observe".
    """
    keys = {key.lower() for line in text.split("\n") for key in _NOT_FALSE.findall(line.partition("#")[0])}
    likely = [key for key in keys if key[0] == "o" or key[-1] == "e"]
    return any(key.startswith("obs") for key in likely) or bool(get_close_matches("observe", likely, 1, 0.75))


def _warnings(resources: Iterable[Resource], private: Collection[str]) -> Iterable[Problem]:
    for resource in resources:
        for hint in hints(resource):
            place = Place(resource.source, private=resource.source in private).below("resources").below(resource.name)
            for step in hint.path[:1]:
                place = place.below(step)
            place.report("".join(hint.path[1:]), hint.text)
            yield from place.problems


def _digest(values: Mapping[str, Mapping[str, Any]]) -> str:
    """A short hash of the merged values of all files: table -> key -> value."""
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _merge(top: Place, document: Mapping[str, object], merged: _Merged) -> list[Problem]:
    """Adds a document. Returns its problems, except for those in the resources and settings that it adds."""
    for name, raw in document.items():
        if name != "resources" and name not in TABLES:
            if "/" in name:
                top.report(name, f"a resource belongs in the table resources: [resources.{toml_key(name)}]")
            else:
                top.report_unknown(name, ["resources", *TABLES])
            merged.complete = False  # the key may be a misplaced resource
        elif not isinstance(raw, dict):
            example = name if name in TABLES else EXAMPLE
            top.report(name, f"must be a table such as [{example}]; got {describe_toml_value(raw)}")
            merged.complete &= name in TABLES
        elif name in TABLES:
            table = top.below(name)
            for key, value in raw.items():
                if earlier := merged.settings.get((name, key)):
                    merged.note(table, key, f"replaces the value in {earlier[0].file}")
                merged.settings[name, key] = replace(table, problems=[]), value
        else:
            for key, value in raw.items():
                _merge_resource(key, value, top.below(name), merged)
    return top.problems


def _merge_resource(name: str, raw: object, place: Place, merged: _Merged) -> None:
    if not name_problem(name):
        if earlier := merged.resources.get(name):
            drops = isinstance(raw, dict) and raw.get("enabled") is False
            verb = "drops" if drops else "replaces"
            merged.note(place.below(name), "", f"{verb} the resource in {earlier[0].file}")
        merged.resources[name] = (place.of_resource(name), raw)
        return
    tables = [key for key, value in raw.items() if isinstance(value, dict)] if isinstance(raw, dict) else []
    if any(key not in RESOURCE and key not in names() for key in tables):
        place.report(name, f"each dot begins a new table; write the whole name in quotes: [{EXAMPLE}]")
    else:
        place.report(name, f"the name {name_problem(name)}")
    shown = f"a resource of {place.file}" if place.private else name
    merged.broken[clean(shown)] = str(place.problems[-1])
    merged.complete = False  # the resource may already be published under its right name
