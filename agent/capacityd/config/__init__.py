"""The configuration: TOML files -> model.Config, strictly and with all mistakes at once. Reads files, nothing else."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from capacityd.config.files import files_at, read, usual_files
from capacityd.config.loaded import Loaded
from capacityd.config.parse import parse
from capacityd.config.problems import Problem, clean, problem
from capacityd.config.shown import show, show_json
from capacityd.config.toml import parse_toml
from capacityd.errors import ConfigError

__all__ = ["Loaded", "Problem", "load", "show", "show_json"]

_OBSERVE = re.compile(r"^\s*observe\s*=\s*true", re.MULTILINE)


def load(path: str | None = None, root: str = "/") -> Loaded:
    """Reads the files in the usual places below root, or the file or folder at path instead. Raises nothing.

    What can't be read or is wrong is in the result's problems: Loaded.require() raises them, a service goes on.
    """
    failures: dict[str, str] = {}
    files = usual_files(root, failures) if path is None else files_at(path, failures)
    found = [problem(file, why) for file, why in failures.items()]
    documents: list[tuple[str, dict[str, Any]]] = []
    texts: dict[str, str] = {}
    observe = ""
    for file in files:
        text = ""
        try:
            text = texts[clean(file)] = read(file)
            if text:
                documents.append((file, parse_toml(text)))
        except ConfigError as e:
            found.append(problem(file, str(e)))
            if _OBSERVE.search(text):  # the wish not to be written to needs no parser
                observe = file
    readable = not found
    parsed = parse(documents, found, observe)
    config = replace(parsed.config, complete=parsed.config.complete and readable)
    if found:
        from capacityd.config.lines import numbered

        found = numbered(found, texts)
    return Loaded(config, tuple(found), tuple(file for file, _ in documents), parsed.values, parsed.origins)
