"""config: checks the configuration, or prints the merged result."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from capacityd.cli.options import Options
from capacityd.cli.output.terminal import print_json
from capacityd.cli.service_view import node_name_error, service_problems
from capacityd.config import Loaded, Problem, load
from capacityd.model.node import CONFIGURATION_ANNOTATION
from capacityd.model.text import plural, printable
from capacityd.schema.toml_values import toml_key, toml_value


def config(options: Options) -> int:
    """Checks the configuration, or prints it. Returns exit status 2 if the configuration has errors."""
    loaded = load(options.selection.config)
    if options.task == "check":
        return _check(loaded, options)
    loaded.require()  # raises ConfigError if there are errors
    if options.json:
        print_json(show_json(loaded))
    else:
        print(show(loaded), end="")
    return 0


def _check(loaded: Loaded, options: Options) -> int:
    """Prints all errors and warnings. Returns the exit status."""
    errors = [*loaded.problems, *_node_name_problem(loaded, options)]
    warnings = [*loaded.warnings, *service_problems(loaded.config, options.selection.kubeconfig)]
    if options.json:
        print_json(
            {
                "files": list(loaded.files),
                "skipped": list(loaded.skipped),
                "errors": [_as_dict(error) for error in errors],
                "warnings": [_as_dict(warning) for warning in warnings],
            }
        )
        return 2 if errors else 0
    # FILE:LINE: MESSAGE, without a prefix, so that editors can parse the line.
    for warning in warnings:
        print(printable(warning.located_text("warning: ")), file=sys.stderr)
    for error in errors:
        print(printable(error.located_text()), file=sys.stderr)
    if errors:
        return 2
    resources = plural(len(loaded.config.resources), "resource")
    files = plural(len(loaded.files), "file")
    print(f"no errors: {resources} from {files}")
    for line in _folder_lines(loaded):
        print(printable(line))
    return 0


def _node_name_problem(loaded: Loaded, options: Options) -> Iterator[Problem]:
    if error := node_name_error(loaded.config, options.selection.kubeconfig):
        yield loaded.origins["kubernetes"]["node_name"].problem("node_name", error)


def _as_dict(problem: Problem) -> dict[str, object]:
    return {
        "file": problem.file,
        "line": problem.line or None,  # 0: unknown
        "table": problem.table,
        "key": problem.key,
        "message": problem.message,
    }


def _folder_lines(loaded: Loaded) -> Iterator[str]:
    """Yields a line for each searched folder that exists, and a line for all skipped files.

    If no file was read, also yields a line for each missing folder.
    """
    for folder, names in loaded.folders.items():
        if names is not None:  # the folder exists
            yield f"  {folder}: {', '.join(names) or 'no file'}"
        elif not loaded.files:
            yield f"  {folder}: no such folder"
    if loaded.skipped:
        yield f"  skipped: {', '.join(loaded.skipped)}"


def show(loaded: Loaded) -> str:
    """The merged configuration as TOML. Comments contain the hash, and the file that sets each value."""
    lines = []
    for table, origins in loaded.origins.items():
        if origins and table != "resources":
            lines += ["", f"[{table}]"]
            for key, origin in origins.items():
                pair = _pair(key, origin.content[key])
                lines.append(f"{pair}  # {printable(origin.file)}")
    for name, origin in loaded.origins["resources"].items():
        lines += ["", f"[resources.{toml_key(name)}]  # {printable(origin.file)}"]
        lines += [_pair(key, value) for key, value in origin.content[name].items()]
    if not lines:
        return "# nothing is configured\n"
    hash_line = f"# hash {loaded.config.digest} (the annotation {CONFIGURATION_ANNOTATION} on the Node)"
    return "\n".join([hash_line, *lines, ""])


def show_json(loaded: Loaded) -> dict[str, object]:
    """The merged configuration as a JSON object with its files, its hash and its tables.

    The member "origins" contains the file that sets each value: TABLE.KEY -> file.
    """
    tables: dict[str, dict[str, object]] = {"resources": {}}
    file_of_key: dict[str, str] = {}
    for table, origins in loaded.origins.items():
        for key, origin in origins.items():
            tables.setdefault(table, {})[key] = origin.content[key]
            file_of_key[f"{table}.{toml_key(key)}"] = origin.file
    return {"files": list(loaded.files), "hash": loaded.config.digest, **tables, "origins": file_of_key}


def _pair(key: str, value: object) -> str:
    """Key and value as TOML. Each table in a list is on a separate line."""
    if isinstance(value, list) and len(value) > 1 and isinstance(value[0], dict):
        tables = [f"    {toml_value(table)}," for table in value]
        return "\n".join([f"{toml_key(key)} = [", *tables, "]"])
    return f"{toml_key(key)} = {toml_value(value)}"
