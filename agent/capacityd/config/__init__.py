"""Loads the configuration from TOML files into a schema.config.Config. Reports all problems at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from capacityd.config.files import files_at, files_of_service, read
from capacityd.config.merge import parse
from capacityd.config.problems import Loaded, Place, Problem, clean
from capacityd.config.toml import parse_toml
from capacityd.linux.permissions import others_may_read
from capacityd.model.errors import ConfigError

__all__ = ["Loaded", "Problem", "load"]


def load(path: str | None = None, root: str = "/") -> Loaded:
    """Loads the file or folder at path. Without a path, loads the files that the service reads, below root.

    Never raises. The result contains the valid part of the configuration, and the problems.
    """
    if path is None:
        files = files_of_service(root)
    else:
        files = files_at(path)
        root = "/"  # path is not below root
    unreadable = [Problem(clean(file), clean(reason)) for file, reason in files.failures.items()]
    documents: list[tuple[Place, dict[str, Any]]] = []
    texts: dict[str, str] = {}
    for file in files.paths:
        private = not others_may_read(file, root=root)
        try:
            texts[file] = read(file, files)
            document = parse_toml(texts[file])
        except ConfigError as e:
            quotes_text = e.line > 0  # only an error with a line may quote the file
            unreadable.append(Problem(clean(file), clean(str(e)), line=e.line, private=private and quotes_text))
        else:
            if texts[file]:  # skip an empty file, which only masks a vendor's file
                documents.append((Place(file, texts[file], private=private), document))
    loaded = parse(documents, unreadable=unreadable, texts=texts)
    return replace(loaded, folders=files.folders, skipped=tuple(files.skipped))
