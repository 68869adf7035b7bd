"""The pages: capacityd(8), capacityd.toml(5) and the reference, from the command line's parser and the declarations."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import words
from parts import Code, Heading, Keys, Part, Terms, markdown, roff

from capacityd import __version__
from capacityd.cli import command_parser
from capacityd.cli.help import EXAMPLES, NOTES, OWN_STATUSES, STATUSES
from capacityd.config.keys import (
    RESOURCE,
    TABLES,
    WHEN,
    Arch,
    Dependent,
    Entry,
    Facts,
    Kept,
    NodeName,
    Paths,
    Word,
    YesNo,
)
from capacityd.config.toml import toml_value
from capacityd.detectors import load, names
from capacityd.kinds import UNITS, Amount, Choice, Flag, HexId, Network, Text
from capacityd.model import Detector, DeviceDetector
from capacityd.settings import Command, Duration, FilePath, Spans, Whole

ROOT = Path(__file__).resolve().parents[2]
_EITHER = {
    "except": "a table or a list of tables",
    "when": "a table",
    "measure": "a word",
    "unit": "a unit",
    "fallback": "an amount",
}
_SEE = {"capacityd": "capacityd(8)", "capacityd.toml": "capacityd.toml(5)"}


def manual() -> str:
    """capacityd(8)."""
    return roff(
        "capacityd",
        8,
        __version__,
        [
            Heading("Name"),
            "capacityd - publish a machine's static hardware as Kubernetes extended resources",
            Heading("Synopsis"),
            "`capacityd` [OPTION]... COMMAND [OPTION]...",
            Heading("Description"),
            *words.ABOUT,
            Heading("Commands"),
            *_commands(2),
            Heading("Options"),
            "Before or after the command:",
            Terms(_rows(_options(command_parser()))),
            Heading("Exit status"),
            Terms(_statuses()),
            Heading("Output"),
            "Results go to standard output, all else to standard error. With `--json`:",
            Terms(words.JSON),
            Heading("Files"),
            Terms(words.FILES),
            Heading("Environment"),
            Terms(words.ENVIRONMENT),
            Heading("See also"),
            "capacityd.toml(5), systemctl(1), journalctl(1)",
        ],
    )


def manual_of_files() -> str:
    """capacityd.toml(5)."""
    examples = [
        Code("toml", path.read_text().partition("\n")[2]) for path in sorted((ROOT / "conf/examples").glob("*.toml"))
    ]
    return roff(
        "capacityd.toml",
        5,
        __version__,
        [
            Heading("Name"),
            "capacityd.toml - what a machine has that pods can ask for",
            Heading("Synopsis"),
            *(f"`{path}`" for path, _ in words.FILES[:4]),
            Heading("Description"),
            *words.MERGING,
            Heading("Resources"),
            *_resources(),
            Heading("Detectors"),
            *_detectors(2),
            Heading("Values"),
            *_values(),
            Heading("Settings"),
            *_settings(2),
            Heading("Examples"),
            *examples,
            Heading("See also"),
            "capacityd(8)",
        ],
    )


def reference() -> str:
    """docs/reference.md."""
    return markdown(
        "Reference",
        [
            "Made from the program itself by `make docs`: do not edit. The same is in the manual pages capacityd(8) "
            "and capacityd.toml(5).",
            Heading("Configuration"),
            Terms(words.FILES[:4]),
            *words.MERGING,
            Heading("Resources", 2),
            *_resources(),
            Heading("Settings", 2),
            *_settings(3),
            Heading("Values", 2),
            *_values(),
            Heading("Detectors"),
            *_detectors(2),
            Heading("Commands"),
            *_commands(2),
            Heading("Options", 2),
            "Before or after the command:",
            Terms(_rows(_options(command_parser()))),
            Heading("Exit status"),
            Terms(_statuses()),
            Heading("JSON"),
            "With `--json` these commands print one object each:",
            Terms(words.JSON),
            Heading("Files and environment"),
            Terms([*words.FILES[4:], *words.ENVIRONMENT]),
        ],
    )


def _resources() -> Iterator[Part]:
    yield from words.RESOURCES
    yield Keys(
        [(key, _type(e) if isinstance(e, Entry) else _EITHER[key], _default(e), e.about) for key, e in RESOURCE.items()]
    )
    yield "The keys of `when`; several values mean any of, several keys all of:"
    yield Keys([(key, _type(fact), "", fact.about) for key, fact in WHEN.items()])


def _settings(level: int) -> Iterator[Part]:
    for table, keys in TABLES.items():
        yield Heading(f"`[{table}]`", level)
        yield Keys([(key, _type(entry), _default(entry), entry.about) for key, entry in keys.items()])


def _values() -> Iterator[Part]:
    yield Terms(words.VALUES)
    yield "Units: " + "; ".join(f"of {of} {', '.join(units)}" for of, units in UNITS.items() if units) + "."


def _detectors(level: int) -> Iterator[Part]:
    yield (
        "Devices can also be matched by `attributes` (files below the device in /sys) and `properties` (of udev), both "
        'tables of text by name: `attributes = { numa_node = "0" }`. Every key whose value is a size, a speed or a '
        "number can be the `measure`, and so can an attribute or a property that holds a whole number: "
        '`measure = "attributes.NAME"`. Without one devices are counted.'
    )
    for name in names():
        detector = load(name)
        yield Heading(name, level)
        yield f"{detector.about[0].upper()}{detector.about[1:]}."
        yield Keys(list(_keys(detector)))


def _keys(detector: Detector) -> Iterator[tuple[str, str, str, str]]:
    if isinstance(detector, DeviceDetector):
        for key, k in detector.keys.items():
            default = detector.defaults.get(key)
            needed = "; needed" if detector.scope and detector.scope.key == key else ""
            yield key, _type(k), "" if default is None else toml_value(default), k.about + needed
    else:
        for key, s in detector.settings.items():
            default = f'"{s.default:g}s"' if isinstance(s.default, float) else toml_value(s.default)
            yield key, _type(s), "" if s.default is None else default, s.about + ("; needed" if s.required else "")


def _type(of: object) -> str:
    """What may stand at a key, in a word or two."""
    match kind := getattr(of, "kind", of):
        case Choice(several) | Word(several):
            return " or ".join(f"`{toml_value(word)}`" for word in several)
        case HexId(digits, prefix):
            return f"id, {'up to ' if prefix else ''}{digits} digits"
        case Amount(dimension):
            return dimension
        case Whole():
            return "whole number"
        case Facts():
            return "table of text by name"
        case Kept():
            return "whole number or share"
        case Command():
            return "path, or list of path and arguments"
    known = {Text: "text", Arch: "text", Flag: "true or false", YesNo: "true or false", Paths: "path", FilePath: "path"}
    known |= {Network: "address or network", Spans: "addresses"}
    return (known | {Duration: "time", NodeName: "name"})[type(kind)]


def _default(of: Entry | Dependent) -> str:
    return "" if of.default is None else toml_value(of.default)


def _commands(level: int) -> Iterator[Part]:
    for name, about, command in commands():
        yield Heading(name, level)
        yield f"`{' '.join(['capacityd', name, *(_usage(a) for a in own(command))])}`"
        yield f"{about[0].upper()}{about[1:]}."
        if rows := _rows(own(command)):
            yield Terms(rows)
        if name in NOTES:
            yield f"Signs: {NOTES[name]}."
        if name in OWN_STATUSES:
            yield "Exit status: " + "; ".join(f"{n}, {meaning}" for n, meaning in OWN_STATUSES[name]) + "."
        if name in EXAMPLES:
            yield Code("text", "\n".join(f"# {why}\n$ {line}" for line, why in EXAMPLES[name]))


def commands() -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Name, what it does, parser of each command that --help lists."""
    sub = next(a for a in command_parser()._actions if isinstance(a, argparse._SubParsersAction))
    for listed in sub._choices_actions:
        yield listed.dest, listed.help or "", sub.choices[listed.dest]


def own(command: argparse.ArgumentParser) -> list[argparse.Action]:
    """What only this command takes."""
    common = {action.dest for action in _options(command_parser())}
    return [action for action in command._actions if action.dest not in common]


def _options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if action.option_strings]


def _rows(actions: list[argparse.Action]) -> list[tuple[str, str]]:
    return [(_written(action), action.help or "") for action in actions]


def _written(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else "|".join(action.choices or ())
    return ", ".join(f"{o} {value}".rstrip() for o in action.option_strings) or value


def _usage(action: argparse.Action) -> str:
    return _written(action) if action.required else f"[{_written(action)}]"


def _statuses() -> list[tuple[str, str]]:
    return [(str(status), meaning) for status, meaning in STATUSES]
