"""config: all mistakes of the configuration, what it amounts to, or what it may hold."""

from __future__ import annotations

import argparse

from capacityd.cli.text import as_json
from capacityd.errors import ConfigError


def config(options: argparse.Namespace) -> int:
    """check prints every mistake (exit status 2); show prints the merged result and which file each value is from.

    schema prints the JSON Schema, whatever is configured.
    """
    if options.what == "schema":
        from capacityd.config.schema import schema

        print(as_json(schema()))
        return 0
    from capacityd.config import load, show, show_json

    loaded = load(options.config)
    if options.what == "check":
        if options.json:
            problems = [
                {"file": p.file, "line": p.line or None, "table": p.table, "key": p.key, "message": p.message}
                for p in loaded.problems
            ]
            print(as_json({"files": list(loaded.files), "problems": problems}))
            return 2 if problems else 0
        if loaded.problems:
            raise ConfigError("\n".join(p.located() for p in loaded.problems))
        resources, files = len(loaded.config.resources), len(loaded.files)
        print(f"no mistakes: {resources} resource{'s'[: resources != 1]} from {files} file{'s'[: files != 1]}")
        return 0
    loaded.require()
    print(as_json(show_json(loaded)) if options.json else show(loaded).rstrip("\n"))
    return 0
