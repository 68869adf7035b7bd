"""The line that a mistake is said to be in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capacityd.cli import run
from tests.unit.test_config_mistakes import MISTAKES, X, loaded

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


def test_every_mistake_below_a_resource_has_the_line_of_its_key(tmp_path: Path) -> None:
    looked = 0
    for file in sorted({*MISTAKES.glob("*.txt")} - {MISTAKES / "files.txt"}):
        for case in file.read_text().strip().split("\n\n"):
            text = f"{X}\n{case.split(chr(10) + '> ')[0]}\n"
            for p in loaded(tmp_path, text).problems:
                line = text.split("\n")[p.line - 1]
                assert p.line, (text, p)
                if p.key and "\\" not in p.key and p.key.strip('"') in text:
                    assert p.key.strip('"') in line, (line, p)
                    looked += 1
    assert looked > 50


def test_what_is_no_toml(tmp_path: Path) -> None:
    assert [p.line for p in loaded(tmp_path, "a = 1\nb = \n").problems] == [2]
    assert [p.line for p in loaded(tmp_path, 'a = 1\nb = """\n\n').problems] == [2]
    assert [p.line for p in loaded(tmp_path, '[kubernetes]\nnode_name = "(at line 99, column 1)"').problems] == [2]


def test_a_name_that_reads_like_the_parsers_own_words(tmp_path: Path) -> None:
    twice = '[resources]\n[a."(at line 9, column 1)"]\n[a."(at line 9, column 1)"]\n'
    assert [p.line for p in loaded(tmp_path, twice).problems] == [3]


def test_check_says_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.toml"
    path.write_text(f"{X}\nusb = {{}}\nslots = 0\n")
    assert run(["config", "check", "--config", str(path)]) == 2
    message = "0 must be between 1 and 1000000000"
    assert capsys.readouterr().err == f'capacityd: {path}:3: [resources."example.com/x"] slots: {message}\n'
    assert run(["config", "check", "--json", "--config", str(path)]) == 2
    assert json.loads(capsys.readouterr().out)["problems"] == [
        {"file": str(path), "line": 3, "table": 'resources."example.com/x"', "key": "slots", "message": message}
    ]
