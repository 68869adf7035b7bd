"""The merged configuration as TOML that loads to the same values, or as JSON, with the file of each value."""

from __future__ import annotations

from capacityd.config.problems import Loaded
from capacityd.config.toml import toml_key, toml_value
from capacityd.model.node import CONFIGURATION_ANNOTATION
from capacityd.model.text import printable


def show(loaded: Loaded) -> str:
    """TOML with the file of each value as a comment. The problems and the hash are comments at the top."""
    lines = [f"# {p}" for p in loaded.problems]
    if loaded.values:
        lines.append(f"# hash {loaded.config.digest} (the annotation {CONFIGURATION_ANNOTATION} on the Node)")
    for table, values in loaded.values.items():
        if table == "resources":
            continue
        lines += ["", f"[{table}]"]
        for key, value in values.items():
            lines.append(f"{_pair(key, value)}  # {printable(loaded.origins[f'{table}.{key}'])}")
    for name, values in loaded.values.get("resources", {}).items():
        header = f"resources.{toml_key(name)}"
        lines += ["", f"[{header}]  # {printable(loaded.origins[header])}"]
        lines += [_pair(key, value) for key, value in values.items()]
    return "\n".join(lines or ["# nothing is configured"]).lstrip("\n") + "\n"


def show_json(loaded: Loaded) -> dict[str, object]:
    """A JSON object: files, hash, each table with its values, origins (table.key -> file) and errors."""
    return {
        "files": list(loaded.files),
        "hash": loaded.config.digest,
        "resources": {},
        **{table: dict(values) for table, values in loaded.values.items()},
        "origins": dict(loaded.origins),
        "errors": [str(p) for p in loaded.problems],
    }


def _pair(key: str, value: object) -> str:
    """Key and value as TOML. Each table of a list has a line of its own."""
    if isinstance(value, list) and len(value) > 1 and isinstance(value[0], dict):
        return "\n".join([f"{toml_key(key)} = [", *(f"    {toml_value(v)}," for v in value), "]"])
    return f"{toml_key(key)} = {toml_value(value)}"
