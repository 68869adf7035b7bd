"""Merges the documents of all files into the configuration. Reports every problem and keeps everything valid."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from capacityd.config.hints import hints
from capacityd.config.keys import SETTINGS_TABLES
from capacityd.config.problems import EXAMPLE_HEADER, Loaded, Problem, TomlTable, printable_line
from capacityd.config.resource import resource_of
from capacityd.model.quantity import name_problem
from capacityd.schema.config import Config, Settings
from capacityd.schema.toml_values import toml_key

_MEANT_TO_OBSERVE = re.compile(r"\bobs[\w-]*[\"']?\s*=(?!\s*false\b)", re.IGNORECASE)
"""The key `observe`, perhaps misspelt, with a value that is not false, such as: OBSERVE = 1."""
_DIGEST_LENGTH = 12
"""Number of hexadecimal digits of Config.digest."""


@dataclass(slots=True)
class _Merged:
    """The settings and resources of all files, after later files have replaced those of earlier files."""

    problems: list[Problem]
    complete: bool
    """Whether all resources are known. If false, nothing is removed from the Node, because a key of the Node may belong
    to an unknown resource."""
    origins: dict[str, dict[str, TomlTable]]
    """Top-level table -> key -> the last file's table with the key. Each TomlTable collects only its key's problems."""
    broken: dict[str, str] = field(default_factory=dict)
    """Name of each resource with an error -> the error."""


def parse(documents: Sequence[TomlTable], failures: Sequence[Problem]) -> Loaded:
    """Merges documents and parses the result. Later documents override earlier ones.

    If two documents define a resource, only the later definition is checked. If the later definition has a problem, the
    resource is broken. The earlier definition is outdated, so it is not used instead.

    documents: the contents of the files. A file that could not be read or parsed is an empty table with a problem.
    failures: the problems of folders, and of files that are not read.
    """
    readable = [document for document in documents if not document.problems]
    files = [document.file for document in readable if document.text]  # an empty file only masks a vendor's file
    all_are_readable = len(readable) == len(documents)
    merged = _Merged(
        problems=[*failures],
        complete=all_are_readable and not failures,  # an unread file may configure resources
        origins={table: {} for table in (*SETTINGS_TABLES, "resources")},
    )
    for document in documents:
        _merge(document, merged)
    valid_origins: dict[str, dict[str, TomlTable]] = {table: {} for table in merged.origins}
    settings: dict[str, Any] = {}
    for table, declared_settings in SETTINGS_TABLES.items():
        for key, origin in merged.origins[table].items():
            if key in declared_settings:
                settings[key] = origin.parse(key, declared_settings[key].type.parse)
            else:
                origin.report_unknown(key, [*declared_settings])
            if origin.problems:
                settings.pop(key, None)  # the default applies
                merged.problems += origin.problems
            else:
                valid_origins[table][key] = origin
    resources = []
    warnings: list[Problem] = []
    for name, origin in merged.origins["resources"].items():
        resource = resource_of(name, origin)
        if origin.problems:
            merged.problems += origin.problems
            merged.broken[name] = _summary(origin.problems)
        elif resource is not None:  # None: the resource has enabled = false
            resources.append(resource)
            resource_table = origin.below(name)
            warnings += [resource_table.problem(key, hint) for key, hint in hints(resource)]
            valid_origins["resources"][name] = origin
    if _may_be_meant_to_observe(documents, merged.problems):
        settings["observe"] = True  # fail safe: with observe = true, nothing is written to the Node
    config = Config(
        resources=tuple(resources),
        settings=Settings(**settings),
        broken=merged.broken,
        complete=merged.complete,
        digest=_digest(valid_origins),
    )
    return Loaded(
        config=config,
        problems=tuple(merged.problems),
        warnings=tuple(warnings),
        files=tuple(files),
        origins=valid_origins,
    )


def _summary(problems: Sequence[Problem]) -> str:
    """The first problem, and the number of further problems."""
    first, *others = problems
    if not others:
        return first.public_text()
    return f"{first.public_text()} (and {len(others)} more)"


def _may_be_meant_to_observe(documents: Iterable[TomlTable], problems: Iterable[Problem]) -> bool:
    """Whether a file with a problem may be meant to set `observe` to true, even if a later file sets it to false.

    The key may be misspelt or in another table, or its value may be invalid.
    """
    files_with_problems = {problem.file for problem in problems}
    texts = [document.text for document in documents if printable_line(document.file) in files_with_problems]
    for line in "\n".join(texts).split("\n"):
        before_comment, _, _ = line.partition("#")
        if _MEANT_TO_OBSERVE.search(before_comment):
            return True
    return False


def _digest(origins: Mapping[str, Mapping[str, TomlTable]]) -> str:
    """A short hash of the merged values of all files. origins: table -> key -> the table that contains the key."""
    values = {}
    for table, origin_by_key in origins.items():
        if origin_by_key:
            values[table] = {key: origin.content[key] for key, origin in origin_by_key.items()}
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), default=str)  # str() converts dates
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    return digest[:_DIGEST_LENGTH]


def _merge(document: TomlTable, merged: _Merged) -> None:
    """Adds a document's settings, resources and problems to the merged ones. parse() checks the values later."""
    for name in document.content:
        if name == "resources":
            resources = document.table_below(name, example=f"[{EXAMPLE_HEADER}]")
            if resources is None:
                merged.complete = False  # the invalid value may be meant to configure resources
            else:
                _merge_resources(resources, merged)
        elif name in SETTINGS_TABLES:
            settings = document.table_below(name, example=f"[{name}]")
            if settings is not None:
                # A list of problems for each key, because parse() keeps only those of the keys that take effect.
                origins = {key: settings.without_problems() for key in settings.content}
                merged.origins[name] |= origins
        else:
            merged.complete = False  # the key may be a misplaced resource
            if "/" in name:
                document.report(name, f"a resource belongs in the table resources: [resources.{toml_key(name)}]")
            else:
                document.report_unknown(name, ["resources", *SETTINGS_TABLES])
    merged.problems += document.problems


def _merge_resources(resources: TomlTable, merged: _Merged) -> None:
    """Adds a document's resources to the merged ones. resources: the table "resources"."""
    for number, name in enumerate(resources.content, 1):
        why_invalid = name_problem(name)
        if why_invalid == "":
            merged.origins["resources"][name] = resources.without_problems()
            continue
        resources.report(name, f"the name {why_invalid}")
        # All users can see the names of broken resources, so a number replaces the name from a private file.
        public_name = f"resource {number} of {resources.file}" if resources.private else name
        merged.broken[printable_line(public_name)] = resources.problems[-1].public_text()
        merged.complete = False  # the resource may already be published under its right name
