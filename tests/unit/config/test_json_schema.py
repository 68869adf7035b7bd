"""The schema and the parser accept the same files, except for the cases listed here. Editors can read the schema.

The validator is jsonschema-rs, which taplo uses. The TOML extensions of the common editors use taplo.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.cli import run
from capacityd.config import load
from capacityd.config.json_schema import schema
from capacityd.config.keys import RESOURCE_KEYS
from capacityd.config.toml import parse_toml
from capacityd.detectors import detector_names, load_detector
from capacityd.model.errors import ConfigError
from capacityd.schema.device import DeviceDetector
from tests import ROOT
from tests.support.config_errors import cases
from tests.support.configs import HEADER, loaded
from tests.unit.config.test_random import (
    ANYTHING,
    DOCUMENTS,
    KEYS,
    LEAVES,
    NAMES,
    RESOURCES,
    check,
    written,
)

SCHEMA = schema()
VALIDATOR = jsonschema_rs.Draft7Validator(SCHEMA)
X = f"{HEADER}\n"

ONLY_THE_PARSER: dict[str, tuple[str, str]] = {
    "the limits of a time": (
        r"must be from [0-9.]+[a-z]+ to [0-9.]+(s|min|h|d); got",
        "file.path = '/a'\nfile.max_age = '400d'",
    ),
    "whether an amount is a whole number": (r"is not a whole number of (bytes|units)$", "disk = { size = '1.5B' }"),
    "that 2.0 is not an integer": (r"must be a whole number(: |.*; got -?[0-9.]+[e.])", "usb = {}\nslots = 2.0"),
    "that a date is not text": (r"; got \d{4}-\d\d-\d\d$", "usb = { serial = 2020-01-01 }"),
    "unprintable characters": (r"contains an unprintable character", "usb = { serial = '\u200b' }"),
    "unprintable characters in a name": (
        r"\\[uUx][0-9A-Fa-f]+.*(must be a path below|is not the name)",
        "usb = { attributes = { '\u200b' = 'a' } }",
    ),
    "what an address is": (
        r"is not an IP address or network|has bits set after the prefix|is not a range|is not a network",
        "pool = { cidr = '192.0.2.0/33' }",
    ),
    "attributes that must not be read": (
        r"must be a path below the device|cannot be matched: reading it|attributes\] .*: belongs to a resource",
        "usb = { attributes = { vpd = 'a' } }",
    ),
    "globs": (r"is a regular expression|contains a \"\[\" without", "usb = { serial = '[abc' }"),
    "comparisons that exclude each other": (r"matches nothing", "disk = { size = '>2GB, <1GB' }"),
    "the unit and the fallback of a measure": (
        r" (unit|fallback): ",
        "disk = {}\nunit = 'GiB'",
    ),
    "what Kubernetes can count": (r"more than Kubernetes can count", "pool = { cidr = '2001:db8::/64' }"),
    "what only a shell expands": (r"needs a shell", "exec = { command = ['/bin/a', '|', 'b'] }"),
}
"""Errors that the parser finds and the schema cannot: the parser's message, and an example."""


def refused(document: object) -> list[str]:
    """Returns the schema's errors for a document."""
    return [f"{error.instance_path}: {error.message}" for error in VALIDATOR.iter_errors(document)]


def disagreement(document: dict[str, Any], text: str) -> str:
    """Returns where the parser and the schema disagree on a file, or "" if they agree."""
    problems, refusals = [p.unlocated() for p in check(text).problems], refused(document)
    if problems and not refusals:
        known = [pattern for pattern, _ in ONLY_THE_PARSER.values()]
        return "; ".join(m for m in problems if not any(re.search(pattern, m) for pattern in known))
    if refusals and not problems:
        return "; ".join(e for e in refusals if not is_off(document, e))
    return ""


def is_off(document: dict[str, Any], error: str) -> bool:
    """In a resource with "enabled = false", the parser checks nothing. The schema ignores only a missing detector."""
    return any(r.get("enabled") is False and repr(name) in error for name, r in document.get("resources", {}).items())


def read(text: str) -> dict[str, Any]:
    """Returns a file as an editor sees it. JSON has no dates, so dates become text."""
    document: dict[str, Any] = json.loads(json.dumps(parse_toml(text), default=str))
    return document


def examples() -> Iterator[Any]:
    yield from (pytest.param(case.text, id=case.name) for case in cases())
    for path in sorted((ROOT / "conf").rglob("*.toml")):
        yield pytest.param(path.read_text(), id=path.name)
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for number, block in enumerate(re.findall(r"^```toml[^\n]*\n(.*?)^```$", page.read_text(), re.M | re.S), 1):
            yield pytest.param(block, id=f"{page.name}-{number}")


@pytest.mark.parametrize("text", [*examples()])
def test_the_schema_and_the_parser_agree_on_examples_and_errors(text: str) -> None:
    try:
        document = read(text)
    except ConfigError:
        return  # not TOML, so the schema has nothing to check
    assert disagreement(document, text) == ""


@pytest.mark.parametrize(("message", "text"), [*ONLY_THE_PARSER.values()], ids=[*ONLY_THE_PARSER])
def test_the_parser_rejects_more_than_the_schema_can_say(message: str, text: str) -> None:
    assert refused(read(X + text)) == []
    assert [p for p in loaded(X + text).problems if re.search(message, p.unlocated())]


def test_a_list_of_conditions_may_contain_numbers() -> None:
    text = f'{X}cpu = {{ threads = [4, ">=8"] }}'
    assert (refused(read(text)), disagreement(read(text), text)) == ([], "")
    text = text.replace("4", "-4")
    assert refused(read(text))
    assert loaded(text).problems


def test_the_schema_may_reject_a_disabled_resource() -> None:
    text = f"{X}enabled = false\nnic = {{ no = 1 }}"
    assert [is_off(read(text), error) for error in refused(read(text))] == [True]


@given(DOCUMENTS)
def test_the_schema_accepts_what_is_valid(document: dict[str, Any]) -> None:
    assert refused(document) == []


ANY_RESOURCES = st.dictionaries(NAMES | KEYS, RESOURCES | st.dictionaries(KEYS, ANYTHING) | ANYTHING, max_size=3)


@given(st.dictionaries(KEYS, ANYTHING, max_size=5) | st.fixed_dictionaries({"resources": ANY_RESOURCES}))
def test_the_schema_and_the_parser_agree_on_any_document(document: dict[str, Any]) -> None:
    assert disagreement(document, "# a comment\n" + written(document)) == ""  # an empty file would be an error


@given(RESOURCES, st.data())
def test_the_schema_and_the_parser_agree_after_one_change_to_a_valid_file(
    made: dict[str, Any], data: st.DataObject
) -> None:
    """One value of a valid file is replaced. The new value may be valid as well."""
    document = {"resources": {"example.com/x": made}}
    change = data.draw(st.sampled_from([*changes(document["resources"], "example.com/x")]))
    change(data.draw)
    assert disagreement(document, written(document)) == ""


def changes(table: Any, key: Any) -> Iterator[Callable[[Callable[[st.SearchStrategy[Any]], Any]], None]]:
    """Yields the possible changes to a value and to each value below it."""

    def replace(draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        table[key] = draw(ANYTHING)

    def leaf(draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        table[key] = draw(LEAVES)

    def edit(draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        table[key] = draw(
            st.sampled_from(["", "0", "0x", " ", "*", "%", "GB", "1.5", "=", ",", "/", "..", "\n"])
        ) + str(table[key])

    def add(draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        table[key][draw(KEYS)] = draw(LEAVES)

    yield from (replace, leaf, edit)
    if isinstance(table, dict) and key != "example.com/x":
        yield lambda draw: table.pop(key)
    if isinstance(table[key], dict):
        yield add
        for below in [*table[key]]:
            yield from changes(table[key], below)
    elif isinstance(table[key], list):
        for number in range(len(table[key])):
            yield from changes(table[key], number)


def test_it_is_a_valid_draft_7_schema() -> None:
    jsonschema_rs.meta.validate(SCHEMA)
    assert jsonschema_rs.validator_for(SCHEMA).__class__ is jsonschema_rs.Draft7Validator


def test_editors_find_every_key_with_its_description() -> None:
    """Editors read only "properties" and "items" of a schema."""
    resource = SCHEMA["properties"]["resources"]["additionalProperties"]["properties"]
    assert {*resource} == {*RESOURCE_KEYS, *detector_names()}
    for name in detector_names():
        detector = load_detector(name)
        keys = detector.keys if isinstance(detector, DeviceDetector) else detector.settings
        for shown in (resource[name], resource[name]["items"]):
            assert {key: shown["properties"][key]["description"] for key in keys} == {
                key: k.about for key, k in keys.items()
            }
    assert all("description" in k for k in resource.values())


def test_the_command_prints_it_whatever_is_configured(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("no TOML")
    assert run(["config", "schema", "--config", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMA


@pytest.mark.parametrize("path", sorted((ROOT / "conf").rglob("*.toml")), ids=lambda p: p.name)
def test_shipped_files_name_the_schema_of_the_package(path: Path) -> None:
    assert path.read_text().startswith("#:schema file:///usr/share/capacityd/schema.json\n")
    assert load(str(path)).problems == ()
