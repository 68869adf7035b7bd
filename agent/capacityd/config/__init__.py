"""Loads the configuration from TOML files into a schema.config.Config. Reports all problems at once."""

from __future__ import annotations

from dataclasses import replace

from capacityd.config.files import Files, files_at, files_of_service, read
from capacityd.config.merge import parse
from capacityd.config.problems import Loaded, Problem, TomlTable, printable_line
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
        root = "/"  # the parameter root applies only to the service's files
    failures = [Problem(printable_line(file), printable_line(error)) for file, error in files.failures.items()]
    documents = [_document(file, files, root) for file in files.paths]
    loaded = parse(documents, failures)
    return replace(loaded, folders=files.folders, skipped=tuple(files.skipped))


def _document(file: str, files: Files, root: str) -> TomlTable:
    """The content of a file. If the file can't be read or parsed, an empty table with a problem.

    root: the folder used as /.
    """
    private = not others_may_read(file, root=root)
    text = ""
    try:
        text = read(file, files)
        return TomlTable(parse_toml(text), file, text, private=private)
    except ConfigError as e:
        may_quote_file = e.line > 0  # an error without a line is about the file itself, not about its text
        problem = Problem(
            file=printable_line(file),
            message=printable_line(str(e)),
            line=e.line,
            private=private and may_quote_file,
        )
        return TomlTable({}, file, text, problems=[problem])
