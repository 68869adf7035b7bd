"""The reference and the manual pages, from the command-line parser and the declarations of keys and detectors.

The pages are Markdown; go-md2man converts it to manual pages.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import words
from json_fields import FIELDS

from capacityd import __version__
from capacityd.cli.help import COMMAND_STATUSES, EXAMPLES, NOTES, STATUSES
from capacityd.cli.parser import command_parser
from capacityd.config.keys import RESOURCE, TABLES, WHEN, DetectorDependentKey, FactTable
from capacityd.config.toml import toml_value
from capacityd.detectors import load, names
from capacityd.model.address_ranges import AddressRanges
from capacityd.model.device import Detector, DeviceDetector
from capacityd.model.setting_types import (
    Boolean,
    Command,
    Duration,
    FilePath,
    Integer,
    NodeName,
    ReserveValue,
    Setting,
    Word,
)
from capacityd.model.units import UNITS
from capacityd.model.value_types import Amount, Choice, Flag, HexId, Network, Text

ROOT = Path(__file__).resolve().parents[2]
_EITHER = {
    "except": "a table or a list of tables",
    "when": "a table",
    "measure": "a word",
    "unit": "a unit",
    "fallback": "an amount",
}
_TYPES: dict[type, str] = {
    Text: "text",
    Flag: "true or false",
    Boolean: "true or false",
    FilePath: "path",
    Network: "address or network",
    AddressRanges: "addresses",
    Duration: "time",
    NodeName: "name",
    Integer: "whole number",
    FactTable: "table of text by name",
    ReserveValue: "whole number or share",
    Command: "path, or list of path and arguments",
}
_DETECTORS = (
    "Devices can also be matched by `attributes` (files below the device in /sys) and `properties` (of udev), both "
    'tables of text by name: `attributes = { numa_node = "0" }`. Every key whose value is a size, a speed, a '
    "frequency or a number can be the `measure`, and so can an attribute or a property that holds a whole number: "
    '`measure = "attributes.NAME"`. Without one devices are counted.'
)


def reference() -> str:
    """docs/reference.md."""
    return _page(
        "# Reference",
        "Generated from the program by `make docs`: do not edit. The manual pages capacityd(8) and capacityd.toml(5) "
        "have the same content.",
        "## Configuration",
        _terms(words.FILES[:4]),
        *map(_text, words.MERGING),
        "### Resources",
        *_resources(),
        "### Settings",
        *_settings(),
        "### Values",
        *_values(),
        "## Detectors",
        *_detectors(),
        "## Commands",
        *_commands(),
        "### Options",
        *_options(),
        "## Exit status",
        _statuses(STATUSES),
        "## JSON",
        "With `--json` most commands print one JSON object. [Its fields](json.md) are on a page of their own.",
        "## Files and environment",
        _terms([*words.FILES[4:], *words.ENVIRONMENT]),
    )


def json_output() -> str:
    """docs/json.md."""
    return _page(
        "# JSON output",
        "Generated from the program by `make docs`: do not edit. With `--json` these commands print one JSON object. "
        "[Upgrading](upgrading.md#what-the-version-number-covers) says what stays compatible.",
        "`list[].name` is a field of each object in a list. Times are in seconds since 1970. New fields may be added "
        "at any time; ignore fields that you do not know.",
        *_json_tables("## {}"),
    )


def manual() -> str:
    """capacityd(8)."""
    return _for_man(
        f'# capacityd 8 "" "capacityd {__version__}"',
        "## NAME",
        "capacityd - publish a machine's static hardware as Kubernetes extended resources",
        "## SYNOPSIS",
        "`capacityd` [OPTION]... COMMAND [OPTION]...",
        "## DESCRIPTION",
        *map(_text, words.ABOUT),
        "## COMMANDS",
        *_commands(),
        "## OPTIONS",
        *_options(),
        "## EXIT STATUS",
        _statuses(STATUSES),
        "## OUTPUT",
        "Results go to standard output, everything else to standard error. In a table `-` stands for an empty cell, so "
        "that awk finds the columns. With `--json` these commands print one object each, with these fields:",
        *_json_tables("### {} --json"),
        "## FILES",
        _terms(words.FILES),
        "## ENVIRONMENT",
        _terms(words.ENVIRONMENT),
        "## SEE ALSO",
        "capacityd.toml(5), systemctl(1), journalctl(1)",
    )


def manual_of_files() -> str:
    """capacityd.toml(5)."""
    examples = (path.read_text().partition("\n")[2] for path in sorted((ROOT / "conf/examples").glob("*.toml")))
    return _for_man(
        f'# capacityd.toml 5 "" "capacityd {__version__}"',
        "## NAME",
        "capacityd.toml - configuration of the resources that capacityd publishes",
        "## SYNOPSIS",
        *(f"`{path}`" for path, _ in words.FILES[:4]),
        "## DESCRIPTION",
        *map(_text, words.MERGING),
        "## RESOURCES",
        *_resources(),
        "## SETTINGS",
        *_settings(),
        "## DETECTORS",
        *_detectors(),
        "## VALUES",
        *_values(),
        "## EXAMPLES",
        *(_code("toml", example) for example in examples),
        "## SEE ALSO",
        "capacityd(8)",
    )


def _page(*parts: str) -> str:
    return "\n\n".join(parts) + "\n"


def _for_man(*parts: str) -> str:
    """Returns roff. Lists of terms and tables, which would be too wide, become definition lists."""
    page = re.sub(r"^\| (key|field) \|.*\n\|---.*\n", "", _page(*parts), flags=re.MULTILINE)
    page = re.sub(r"^\| (`|the object).*\|$", _row_for_man, page, flags=re.MULTILINE)
    page = re.sub(r"^- (`.*?`): (.*)$", r"\1\n: \2\n", page, flags=re.MULTILINE)
    roff = subprocess.run(["/usr/bin/go-md2man"], input=page, capture_output=True, encoding="utf-8", check=True).stdout
    return roff.replace(r"\fC", "")  # Debian 12's go-md2man selects this font, which Debian 13's groff does not have


def _row_for_man(row: re.Match[str]) -> str:
    key, of, *default, text = (cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", row[0])[1:-1])
    more = f" (default: {default[0]})" if any(default) else ""
    return f"{key}{' =' if default else ':'} *{of.replace('`', '')}*\n: {text}{more}\n"


def _text(text: str) -> str:
    """Escapes stars and brackets outside of `code`."""
    pieces = text.split("`")
    return "`".join(re.sub(r"([*<\[\]])", r"\\\1", p) if n % 2 == 0 else p for n, p in enumerate(pieces))


def _terms(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"- `{term}`: {_text(text)}" for term, text in rows)


def _keys(rows: Iterable[Sequence[str]]) -> str:
    """Returns a table. rows: key, type, default ("" for none), meaning."""
    cells = ([f"`{key}`", _text(of), default and f"`{default}`", _text(text)] for key, of, default, text in rows)
    lines = [" | ".join(cell.replace("|", r"\|") for cell in row) for row in cells]
    return "\n".join(["| key | value | default | |", "|---|---|---|---|", *(f"| {line} |" for line in lines)])


def _code(kind: str, text: str) -> str:
    return f"```{kind}\n{text.rstrip()}\n```"


def _resources() -> Iterator[str]:
    yield from map(_text, words.RESOURCES)
    kinds = {key: _type(entry) if isinstance(entry, Setting) else _EITHER[key] for key, entry in RESOURCE.items()}
    yield _keys((key, kinds[key], _default(entry), entry.about) for key, entry in RESOURCE.items())
    yield "The keys of `when`. All keys must match; a list matches if one of its values does:"
    yield _keys((key, _type(fact), "", fact.about) for key, fact in WHEN.items())


def _settings() -> Iterator[str]:
    for table, keys in TABLES.items():
        yield f"#### `[{table}]`"
        yield _keys((key, _type(entry), _default(entry), entry.about) for key, entry in keys.items())


def _values() -> Iterator[str]:
    yield _terms(words.VALUES)
    yield "Units: " + "; ".join(f"of {of} {', '.join(units)}" for of, units in UNITS.items() if units) + "."


def _detectors() -> Iterator[str]:
    yield _text(_DETECTORS)
    for name in names():
        detector = load(name)
        yield f"### {name}"
        yield _text(f"{detector.about[0].upper()}{detector.about[1:]}.")
        yield _keys(_keys_of(detector))


def _keys_of(detector: Detector) -> Iterator[tuple[str, str, str, str]]:
    if isinstance(detector, DeviceDetector):
        for key, k in detector.keys.items():
            default = detector.defaults.get(key)
            needed = "; needed" if detector.scope and detector.scope.key == key else ""
            yield key, _type(k), "" if default is None else toml_value(default), k.about + needed
    else:
        for key, s in detector.settings.items():
            yield key, _type(s), _default(s), s.about + ("; needed" if s.required else "")


def _type(of: object) -> str:
    """Returns the type of a key in a few words."""
    match kind := getattr(of, "kind", of):
        case Choice(several) | Word(several):
            return " or ".join(f"`{toml_value(word)}`" for word in several)
        case HexId(digits, prefix):
            return f"id, {'up to ' if prefix else ''}{digits} digits"
        case Amount(dimension):
            return dimension
    return _TYPES[type(kind)]


def _default(of: Setting | DetectorDependentKey) -> str:
    return "" if of.default is None else toml_value(of.default)


def _commands() -> Iterator[str]:
    parser = command_parser()
    common = {action.dest for action in parser._actions}
    sub = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    for listed in sub._choices_actions:
        name, about = listed.dest, listed.help or ""
        own = [action for action in sub.choices[name]._actions if action.dest not in common]
        yield f"### {name}"
        yield f"`{' '.join(['capacityd', name, *map(_usage, own)])}`"
        yield _text(f"{about[0].upper()}{about[1:]}.")
        if own:
            yield _terms((_written(action), action.help or "") for action in own)
        if name in NOTES:
            yield _text(f"Signs: {NOTES[name]}.")
        if name in COMMAND_STATUSES:
            yield "Exit status:"
            yield _statuses(COMMAND_STATUSES[name])
        yield _code("text", "\n".join(f"# {why}\n$ {line}" for line, why in EXAMPLES[name]))


def _json_tables(heading: str) -> Iterator[str]:
    for command, fields in FIELDS.items():
        yield heading.format(command)
        rows = (f"| {_names(field.names)} | {field.type} | {_text(field.meaning)} |" for field in fields)
        yield "\n".join(["| field | type | meaning |", "|---|---|---|", *rows])


def _names(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split(", ")) if names else "the object"


def _options() -> Iterator[str]:
    yield "Before or after the command:"
    yield _terms((_written(a), a.help or "") for a in command_parser()._actions if a.option_strings)


def _written(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else ""
    return ", ".join(f"{option} {value}".rstrip() for option in action.option_strings) or value


def _usage(action: argparse.Action) -> str:
    if action.nargs == "*":
        return f"[{_written(action)} ...]"
    return _written(action) if action.required else f"[{_written(action)}]"


def _statuses(statuses: dict[int, str]) -> str:
    return _terms((str(status), meaning) for status, meaning in statuses.items())
