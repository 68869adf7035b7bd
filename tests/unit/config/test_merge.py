"""How each key of a configuration is converted, and how `config show` prints the result."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capacityd.cli.commands.config import show, show_json
from capacityd.config import load
from capacityd.config.keys import RESOURCE_KEYS, SETTINGS_TABLES, WHEN_KEYS
from capacityd.detectors import detector_names, load_detector
from capacityd.schema.config import Resource, Settings, Table
from capacityd.schema.device import DeviceDetector
from capacityd.schema.matchers import BoolMatcher, GlobMatcher, KeyMatcher
from capacityd.schema.setting_types import Reserve
from tests import ROOT
from tests.support.configs import HEADER, NAME, loaded


def resource(lines: str) -> Resource:
    configuration = loaded(f"{HEADER}\n{lines}")
    (configured,) = configuration.require().resources
    assert (configured.name, (configured.source,)) == (NAME, configuration.files)
    return configured


def all_of(tests: Iterable[KeyMatcher]) -> str:
    return " and ".join(f"{test.key} is {test.text}" for test in tests)


def rule(configured: Resource) -> str:
    """The tests of a resource's tables, of its "except" and of its "when"."""
    text = " | ".join(all_of(table.tests) for table in configured.tables)
    if configured.excepts:
        text += f" except {' | '.join(all_of(table.tests) for table in configured.excepts)}"
    if configured.when:
        text += f" when {all_of(configured.when)}"
    return text


# the lines of a resource, and its tests
TESTS = {
    "usb = {}": "hub is false",
    'usb = { vendor = "0403", product = "6001" }': 'hub is false and vendor is "0403" and product is "6001"',
    'usb = [{ serial = "A" }, { serial = ["B", "C*"] }]': (
        'hub is false and serial is "A" | hub is false and serial is "B" or "C*"'
    ),
    # A key in the table replaces the default for the same key.
    "usb = { hub = true }": "hub is true",
    'nic = { kind = ["bond", "vf"] }': 'kind is "bond" or "vf"',
    'disk = { properties = { P = "1" }, attributes = { "queue/x" = "2" }, size = ">=1kB, <2kB" }': (
        'size is >=1kB, <2kB and properties.P is "1" and attributes.queue/x is "2"'
    ),
    'nic = { max_speed = [">=10Gbit/s", "1Gbit/s"] }': 'kind is "physical" and max_speed is >=10Gbit/s or 1Gbit/s',
    # "except" has no defaults.
    'usb = {}\nexcept = [{ serial = ["", "A"] }, { attributes = { a = "1" } }]': (
        'hub is false except serial is "" or "A" | attributes.a is "1"'
    ),
    'usb = {}\nwhen = { arch = ["aarch64", "x86*"], node_name = "n*", path = "/dev/x" }': (
        'hub is false when arch is "aarch64" or "x86*" and node_name is "n*" and path is "/dev/x"'
    ),
    'usb = {}\nwhen = { dmi = { product_name = "P R75*" }, devicetree = { "chosen/a,b" = "c" } }': (
        'hub is false when dmi.product_name is "P R75*" and devicetree.chosen/a,b is "c"'
    ),
}


@pytest.mark.parametrize("lines", TESTS)
def test_each_key_of_a_table_becomes_its_tests(lines: str) -> None:
    assert rule(resource(lines)) == TESTS[lines]


def test_the_type_of_a_key_determines_its_matcher() -> None:
    """The same holds for the keys of a table, its defaults, attributes and "when"."""
    configured = resource(
        'usb = { vendor = "040A", attributes = { a = "0xA" } }\nwhen = { arch = "x86*", path = "/dev/x" }'
    )
    assert {test.key: test.matchers for test in (*configured.tables[0].tests, *configured.when)} == {
        "vendor": (GlobMatcher("040a", ignore_case=True),),
        "hub": (BoolMatcher(False),),
        "attributes.a": (GlobMatcher("0xA"),),
        "arch": (GlobMatcher("x86*"),),
        "path": (GlobMatcher("/dev/x"),),
    }


# the lines of a resource, and some fields of the Resource that they become
FIELDS: list[tuple[str, Mapping[str, Any]]] = [
    ("usb = {}", {"detector": "usb", "slots": 1, "measure": None, "when": (), "reserve": Reserve(), "adopt": False}),
    ('usb = {}\nslots = 4\nmeasure = "count"', {"slots": 4, "measure": None}),
    ('nic = {}\nmeasure = "speed"\nunit = "Mbit/s"', {"measure": "speed", "unit": "Mbit/s"}),
    ('cpu = {}\nmeasure = "cores"', {"measure": "cores", "unit": None}),
    ('cpu = {}\nmeasure = "max_frequency"\nunit = "MHz"', {"unit": "MHz"}),
    ('pci = {}\nmeasure = "sriov_numvfs"\nfallback = 0', {"measure": "sriov_numvfs", "unit": None, "fallback": 0}),
    ('nic = {}\nmeasure = "speed"\nunit = "Mbit/s"\nfallback = "1Gbit/s"', {"fallback": 10**9}),
    ("usb = {}\nreserve = 1000", {"reserve": Reserve(1000)}),
    ('usb = {}\nreserve = "99 %"', {"reserve": Reserve(percent=99)}),
    ('usb = {}\nreduce = "min"', {"reduce": "min"}),
    ("usb = {}\nexpect = 9223372036854775807", {"expect": 2**63 - 1}),
    ("static = { quantity = 3 }\nexpect = 4", {"expect": 4}),
    ("usb = {}\nadopt = true\nenabled = true", {"adopt": True}),
    # Detectors that read a number.
    ("static = { quantity = 3 }", {"detector": "static", "tables": (Table(settings={"quantity": 3}),)}),
    (
        'file = [{ path = "/a" }, { path = "/b", max_age = "2h" }]\nreduce = "max"\nreserve = 1',
        {
            "tables": (
                Table(settings={"path": "/a", "key": None, "max_age": None}),
                Table(settings={"path": "/b", "key": None, "max_age": 7200.0}),
            ),
            "reduce": "max",
            "reserve": Reserve(1),
        },
    ),
    (
        'exec = { command = ["/a", "b\\nc"] }',
        {"tables": (Table(settings={"command": ("/a", "b\nc"), "timeout": 10.0}),)},
    ),
]


@pytest.mark.parametrize(("lines", "expected"), FIELDS, ids=[lines for lines, _ in FIELDS])
def test_each_key_of_a_resource_becomes_its_field(lines: str, expected: Mapping[str, Any]) -> None:
    configured = resource(lines)
    assert {name: getattr(configured, name) for name in expected} == expected


# table and key -> the TOML value, and the field's value
SETTINGS: dict[tuple[str, str], tuple[str, Any]] = {
    ("kubernetes", "kubeconfig"): ('"/k"', "/k"),
    ("kubernetes", "node_name"): ('"n-1.example.com"', "n-1.example.com"),
    ("kubernetes", "observe"): ("true", True),
    ("kubernetes", "condition"): ("false", False),
    ("service", "lower_after"): ('"0s"', 0.0),
    ("service", "lower_after_boot"): ('"2min"', 120.0),
    ("service", "resync"): ('"1d"', 86400.0),
    ("service", "start_jitter"): ('"5min"', 300.0),
    ("service", "textfile"): ('"/m/x.prom"', "/m/x.prom"),
}


def test_each_setting_becomes_its_field() -> None:
    assert [*SETTINGS] == [(table, key) for table, keys in SETTINGS_TABLES.items() for key in keys]
    for (table, key), (written, value) in SETTINGS.items():
        settings = loaded(f"[{table}]\n{key} = {written}").require().settings
        assert getattr(Settings(), key) != value
        assert settings == replace(Settings(), **{key: value})


def test_no_detector_and_no_key_of_a_detector_has_a_reserved_name() -> None:
    assert not {*detector_names()} & {*RESOURCE_KEYS, *SETTINGS_TABLES, *WHEN_KEYS, "resources"}
    detectors = [d for name in detector_names() if isinstance(d := load_detector(name), DeviceDetector)]
    assert not [d.name for d in detectors if {"attributes", "properties"} & {*d.keys}]


def test_when_knows_each_dmi_file_of_this_machine() -> None:
    folder = Path("/sys/class/dmi/id")
    names = {f.name for f in folder.iterdir() if f.is_file()} - {"uevent"} if folder.exists() else set()
    name_problem = WHEN_KEYS["dmi"].name_problem
    assert name_problem is not None
    assert [name for name in names if name_problem(name)] == []


def test_only_the_configured_detectors_are_imported(tmp_path: Path) -> None:
    """Each worker process imports the detectors anew, so imports must be few."""
    file = tmp_path / "c.toml"
    file.write_text(HEADER + "\nusb = {}")
    code = "import sys; before = {*sys.modules}; from capacityd.config import load; load(sys.argv[1]).require()"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(*({{*sys.modules}} - before))", str(file)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "agent")},
        capture_output=True,
        text=True,
        check=True,
    )
    modules = set(done.stdout.split())
    assert [m for m in modules if m.startswith("capacityd.detectors.")] == ["capacityd.detectors.usb"]
    assert not modules & {"logging", "pathlib", "subprocess", "pyudev", "kubernetes"}


def test_the_hash_depends_only_on_the_values(tmp_path: Path) -> None:
    """Order, comments and file names do not change the hash."""
    one = '[resources."example.com/a"]\nusb = { vendor = "0529" }\nslots = 2\n'
    two = '[resources."example.com/b"]\nnic = {}\n[service]\nresync = "2h"\n'
    digest = loaded(one + two).config.digest
    assert re.fullmatch("[0-9a-f]{12}", digest)
    other_order = two.replace("[service]", one + "[service]")
    assert loaded("# a comment\n" + other_order).config.digest == digest
    (tmp_path / "1.toml").write_text(two)
    (tmp_path / "2.toml").write_text(one)
    assert load(str(tmp_path)).config.digest == digest
    for text in (one, one + two.replace("2h", "3h"), one.replace("slots = 2", "slots = 3") + two, ""):
        assert loaded(text).config.digest != digest


def test_show_prints_each_value_with_its_file() -> None:
    """A list of tables has one line for each table."""
    configuration = loaded(f'{HEADER}\nusb = [{{ vendor = "0403" }}, {{}}]\nslots = 2\n[kubernetes]\nobserve = false')
    (file,) = configuration.files
    assert show(configuration).splitlines() == [
        f"# hash {configuration.config.digest} (the annotation capacityd/configuration on the Node)",
        *("", "[kubernetes]", f"observe = false  # {file}"),
        *("", f"{HEADER}  # {file}", "usb = [", '    { vendor = "0403" },', "    {},", "]", "slots = 2"),
    ]
    shown = show_json(configuration)
    assert shown["kubernetes"] == {"observe": False}
    assert shown["resources"] == {NAME: {"usb": [{"vendor": "0403"}, {}], "slots": 2}}
    assert shown["origins"] == {"kubernetes.observe": file, f'resources."{NAME}"': file}
    assert show(loaded("# nothing")) == "# nothing is configured\n"


def test_the_annotated_example_configures_nothing() -> None:
    """The file contains only comments. tests/unit/docs checks the commented lines."""
    assert load(str(ROOT / "conf/capacityd.toml")).require() == load(os.devnull).require()


@pytest.mark.parametrize(
    ("written", "warning"),
    [
        (
            "cpu = {}",
            "cpu: without a measure this is 1 on every machine; add a measure: cores, threads, sockets, max_frequency",
        ),
        ('cpu = { cores = ">=64" }', ""),
        ('cpu = {}\nmeasure = "cores"', ""),
        (
            'disk = { size = "500GB" }',
            'disk: size "500GB" matches only this exact size; for this size or more write ">=500GB"',
        ),
        ('disk = { size = ["=500GB", ">=1TB, <2TB"] }', ""),
        ('nic = { speed = "10Gbit/s" }', ""),
        ("static = { quantity = 1 }", ""),
    ],
)
def test_a_probable_mistake_is_a_warning(written: str, warning: str) -> None:
    configuration = loaded(f"{HEADER}\n{written}\n")
    assert configuration.require()
    (file,) = configuration.files
    reported = [problem.located_text("warning: ") for problem in configuration.warnings]
    assert reported == ([f"{file}:2: warning: {HEADER} {warning}"] if warning else [])
