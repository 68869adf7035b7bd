"""The configuration: TOML files -> model.config.Config. Checks strictly and reports all problems at once. Only
reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from capacityd.config.files import files_at, files_of_service, read
from capacityd.config.line_numbers import numbered
from capacityd.config.merge import parse
from capacityd.config.problems import Loaded, Problem, clean
from capacityd.config.toml import parse_toml
from capacityd.linux.permissions import others_may_read
from capacityd.model.errors import ConfigError

__all__ = ["Loaded", "Problem", "load"]


def load(path: str | None = None, root: str = "/") -> Loaded:
    """Reads the files that the service reads, below root, or the file or folder at path instead. Raises nothing.

    The result contains the problems: commands raise them with Loaded.require(), the service uses the valid part.
    """
    files = files_of_service(root) if path is None else files_at(path)
    unreadable = [Problem(clean(file), clean(why)) for file, why in files.failures.items()]
    ignored = [Problem(clean(file), clean(why)) for file, why in files.ignored.items()]
    documents: list[tuple[str, dict[str, Any]]] = []
    texts: dict[str, str] = {}

    def is_private(file: str) -> bool:
        return not others_may_read(file, root=root if path is None else "/")

    for file in files.paths:
        try:
            texts[file] = read(file, files)
            document = parse_toml(texts[file])
        except ConfigError as e:
            private = e.line > 0 and is_private(file)  # an error without a line does not concern the text
            unreadable.append(Problem(clean(file), clean(str(e)), line=e.line, private=private))
        else:
            if texts[file]:  # an empty file only masks another one
                documents.append((file, document))
    private_files = {file for file, _ in documents if is_private(file)}
    loaded = parse(documents, unreadable=unreadable, texts=texts, private=private_files)
    problems = numbered(loaded.problems, texts)
    warnings = numbered([*ignored, *loaded.warnings], texts)
    masking = {path: f"replaces {masked}, which is not read" for path, masked in files.masking.items()}
    notes = [Problem(clean(file), clean(why)) for file, why in (files.leftovers | masking).items()]
    return replace(
        loaded,
        problems=tuple(problems),
        warnings=tuple(replace(warning, warning=True) for warning in warnings),
        notes=tuple(numbered([*notes, *loaded.notes], texts)),
        folders=files.folders,
    )
