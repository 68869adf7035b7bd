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
from capacityd.config.keys import RESOURCE_KEYS, SETTINGS_TABLES
from capacityd.config.problems import EXAMPLE, Loaded, Place, Problem, clean
from capacityd.config.resource import resource_of
from capacityd.config.toml import toml_key
from capacityd.detectors import names
from capacityd.model.config import Config, Resource, Settings
from capacityd.model.quantity import name_problem
from capacityd.model.toml_values import describe_toml_value

_KEY_NOT_FALSE = re.compile(r"\b([\w-]{1,80})[\"']?\s*=(?!\s*false\b)")
"""A key whose value is not false."""


@dataclass(slots=True)
class _Merged:
    """The remaining values after later files have replaced parts of earlier ones. Each value knows its place."""

    resources: dict[str, tuple[Place, object]] = field(default_factory=dict)
    """Name -> the resource's table in its file, and the content."""
    settings: dict[tuple[str, str], tuple[Place, object]] = field(default_factory=dict)
    """Table and key -> the table in its file, and the key's TOML value."""
    broken: dict[str, str] = field(default_factory=dict)
    """As in Config; so is complete."""
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
        setting = SETTINGS_TABLES[table].get(key)
        value = None
        if setting is None:
            place.report_unknown(key, [*SETTINGS_TABLES[table]])
        else:
            value = place.parse(key, setting.kind.parse, raw)
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
    observing_file = _file_meant_to_observe(problems, texts, origins.get("kubernetes.observe"))
    if observing_file is not None:  # fail safe: write nothing to the Node
        settings["observe"] = True
        values.setdefault("kubernetes", {})["observe"] = True
        origins["kubernetes.observe"] = observing_file
    config = Config(
        resources=tuple(resources),
        settings=Settings(**settings),
        broken=merged.broken,
        complete=merged.complete,
        digest=_digest(values),
    )
    return Loaded(
        config=config,
        problems=tuple(problems),
        warnings=tuple(_warnings(resources, private)),
        files=tuple(file for file, _ in documents),
        values=values,
        origins=origins,
        notes=tuple(merged.notes),
    )


def _file_meant_to_observe(problems: Iterable[Problem], texts: Mapping[str, str], valid_file: str | None) -> str | None:
    """The last file that has a problem and may be meant to set `observe`. None if there is none, or if a later file
    sets `observe`.

    texts: the text of each file, in the order in which they are merged. valid_file: the file whose `observe` is valid;
    None: no file has a valid one.
    """
    files = [*texts]
    files_with_problems = {problem.file for problem in problems}
    meant = [file for file in files if clean(file) in files_with_problems and _mentions_observe(texts[file])]
    if not meant:
        return None
    last = meant[-1]
    is_overridden = valid_file in files and files.index(valid_file) > files.index(last)
    return None if is_overridden else last


def _mentions_observe(text: str) -> bool:
    """Whether a line may be meant to set `observe` to true: misspelt, in another table, or with an invalid value.

    A mistyped word keeps its first or last letter: "server" is not a mistyped "observe".
    """
    without_comments = [line.partition("#")[0] for line in text.split("\n")]
    keys = {key.lower() for line in without_comments for key in _KEY_NOT_FALSE.findall(line)}
    likely = [key for key in keys if key[0] == "o" or key[-1] == "e"]
    if any(key.startswith("obs") for key in likely):
        return True
    return bool(get_close_matches("observe", likely, n=1, cutoff=0.75))


def _warnings(resources: Iterable[Resource], private: Collection[str]) -> Iterable[Problem]:
    for resource in resources:
        for hint in hints(resource):
            file = Place(resource.source, private=resource.source in private)
            table = file.below("resources").below(resource.name)
            if hint.path:
                table = table.below(hint.path[0])
            key = hint.path[1] if len(hint.path) > 1 else ""  # "": the hint concerns the whole table
            table.report(key, hint.text)
            yield from table.problems


def _digest(values: Mapping[str, Mapping[str, Any]]) -> str:
    """A short hash of the merged values of all files: table -> key -> value."""
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _merge(top: Place, document: Mapping[str, object], merged: _Merged) -> list[Problem]:
    """Adds a document. Returns its problems, except for those in the resources and settings that it adds."""
    for name, raw in document.items():
        if name != "resources" and name not in SETTINGS_TABLES:
            if "/" in name:
                top.report(name, f"a resource belongs in the table resources: [resources.{toml_key(name)}]")
            else:
                top.report_unknown(name, ["resources", *SETTINGS_TABLES])
            merged.complete = False  # the key may be a misplaced resource
        elif not isinstance(raw, dict):
            example = name if name in SETTINGS_TABLES else EXAMPLE
            top.report(name, f"must be a table such as [{example}]; got {describe_toml_value(raw)}")
            if name == "resources":
                merged.complete = False
        elif name in SETTINGS_TABLES:
            table = top.below(name)
            for key, value in raw.items():
                if (name, key) in merged.settings:
                    earlier, _ = merged.settings[name, key]
                    merged.note(table, key, f"replaces the value in {earlier.file}")
                merged.settings[name, key] = (replace(table, problems=[]), value)
        else:
            for key, value in raw.items():
                _merge_resource(key, value, top.below(name), merged)
    return top.problems


def _merge_resource(name: str, raw: object, place: Place, merged: _Merged) -> None:
    """Adds a resource. place: the table "resources", which collects the problem of an invalid name."""
    invalid = name_problem(name)
    if not invalid:
        if name in merged.resources:
            earlier, _ = merged.resources[name]
            drops = isinstance(raw, dict) and raw.get("enabled") is False
            verb = "drops" if drops else "replaces"
            merged.note(place.below(name), key="", text=f"{verb} the resource in {earlier.file}")
        merged.resources[name] = (place.of_resource(name), raw)
        return
    tables = [key for key, value in raw.items() if isinstance(value, dict)] if isinstance(raw, dict) else []
    if any(key not in RESOURCE_KEYS and key not in names() for key in tables):
        place.report(name, f"each dot begins a new table; write the whole name in quotes: [{EXAMPLE}]")
    else:
        place.report(name, f"the name {invalid}")
    shown = f"a resource of {place.file}" if place.private else name
    merged.broken[clean(shown)] = str(place.problems[-1])
    merged.complete = False  # the resource may already be published under its right name
