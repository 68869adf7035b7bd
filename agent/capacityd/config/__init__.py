"""The configuration: TOML files -> model.config.Config. Checks strictly and reports all problems at once. Only
reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from capacityd.config.files import files_at, read, usual_files
from capacityd.config.line_numbers import numbered
from capacityd.config.merge import parse
from capacityd.config.problems import Loaded, Problem, clean
from capacityd.config.toml import parse_toml
from capacityd.linux.permissions import others_may_read
from capacityd.model.config import Config
from capacityd.model.errors import ConfigError

__all__ = ["Loaded", "Problem", "load", "restore"]

_SNAPSHOT = "the snapshot of the configuration"


def load(path: str | None = None, root: str = "/") -> Loaded:
    """Reads the files in the usual places below root, or the file or folder at path instead. Raises nothing.

    The result contains the problems: commands raise them with Loaded.require(), the service uses the valid part.
    """
    files = usual_files(root) if path is None else files_at(path)
    unreadable = [Problem(clean(file), clean(why)) for file, why in files.failures.items()]
    ignored = [Problem(clean(file), clean(why)) for file, why in files.ignored.items()]
    documents: list[tuple[str, dict[str, Any]]] = []
    texts: dict[str, str] = {}

    def is_private(file: str) -> bool:
        return not others_may_read(file, root if path is None else "/")

    for file in files.paths:
        try:
            texts[file] = read(file, files)
            document = parse_toml(texts[file])
        except ConfigError as e:
            private = e.line > 0 and is_private(file)  # an error without a line does not concern the text
            unreadable.append(Problem(clean(file), clean(str(e)), line=e.line, private=private))
        else:
            documents += [(file, document)] if texts[file] else []
    loaded = parse(documents, unreadable, texts, {file for file, _ in documents if is_private(file)})
    warnings = (replace(warning, warning=True) for warning in numbered([*ignored, *loaded.warnings], texts))
    replaced = {path: f"replaces {masked}, which is not read" for path, masked in files.masking.items()}
    notes = [Problem(clean(file), clean(why)) for file, why in (files.leftovers | replaced).items()]
    return replace(
        loaded,
        problems=tuple(numbered(loaded.problems, texts)),
        warnings=tuple(warnings),
        notes=tuple(numbered([*notes, *loaded.notes], texts)),
        folders=files.folders,
    )


def restore(values: Mapping[str, Any], broken: Mapping[str, str], *, complete: bool) -> Config:
    """The configuration of a snapshot. values: Loaded.values; broken and complete: as in Loaded.config.

    If this version rejects a value, the value's resource is broken and the configuration is incomplete.
    """
    loaded = parse([(_SNAPSHOT, values)], (), {}, {_SNAPSHOT})
    config = loaded.config
    complete = complete and config.complete and not loaded.problems
    return replace(config, broken={**broken, **config.broken}, complete=complete)
