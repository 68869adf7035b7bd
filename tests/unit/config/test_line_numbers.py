"""The line of an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capacityd.cli import run
from tests.support.config_errors import HEADER as X
from tests.unit.config.test_errors import loaded

TOML = """# a comment
slots = 1

[resources."example.com/x"]
usb = [
    { vendor = "0529" },
    { prodct = "1" },
]
when = { arch = "arm64" }
except.hbu = true

[[resources."example.com/y".nic]]
kind = "bond"
[[resources."example.com/y".nic]]
kind = "bonds"
[resources."example.com/y".nic.attributes]
"a b/" = "1"

[resources.'example.com/z'.when]
path = "x"

[kubernetes]
observe = 1

[resource."example.com/x"]
usb = {}
"""


def test_each_kind_of_place(tmp_path: Path) -> None:
    found = {(p.table, p.key): p.line for p in loaded(tmp_path, TOML).problems}
    x, y, z = (f'resources."example.com/{name}"' for name in "xyz")
    assert found == {
        ("", "slots"): 2,
        (f"{x}.usb #2", "prodct"): 5,
        (f"{x}.when", "arch"): 9,
        (f"{x}.except", "hbu"): 10,
        (f"{y}.nic #2", "kind"): 15,
        (f"{y}.nic #2.attributes", '"a b/"'): 17,
        (z, ""): 19,
        (f"{z}.when", "path"): 20,
        ("kubernetes", "observe"): 23,
        ("", "resource"): 25,
    }


def test_a_name_that_reads_like_the_parsers_own_words(tmp_path: Path) -> None:
    twice = '[resources]\n[a."(at line 9, column 1)"]\n[a."(at line 9, column 1)"]\n'
    assert [p.line for p in loaded(tmp_path, twice).problems] == [3]


def test_check_says_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.toml"
    path.write_text(f"{X}\nusb = {{}}\nslots = 0\n")
    assert run(["config", "check", "--config", str(path)]) == 2
    message = "must be a whole number from 1 to 1000000000; got 0"
    assert capsys.readouterr().err == f'{path}:3: [resources."example.com/x"] slots: {message}\n'
    assert run(["config", "check", "--json", "--config", str(path)]) == 2
    assert json.loads(capsys.readouterr().out)["errors"] == [
        {"file": str(path), "line": 3, "table": 'resources."example.com/x"', "key": "slots", "message": message}
    ]


def test_a_key_that_reads_like_the_number_of_a_table(tmp_path: Path) -> None:
    text = f'{X}\nusb = [{{ vendor = "0403" }}, {{ attributes = {{ "/a" = "x" }} }}]\n"usb #2" = 1\n'
    assert {p.key: p.line for p in loaded(tmp_path, text).problems} == {'"/a"': 2, '"usb #2"': 3}
