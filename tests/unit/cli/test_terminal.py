"""Output to a pipe and to a terminal: complete, aligned and escaped, with colour only for signs."""

from __future__ import annotations

import io
import json
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.cli import run
from capacityd.cli.help import EXAMPLES, PROGRAM_EXAMPLES
from capacityd.cli.output.terminal import print_json, print_message, print_table
from capacityd.cli.parser import COMMANDS, command_parser
from capacityd.model.text import printable
from capacityd.worker import runtime_files
from tests.support.terminals import CASES, GOLDEN, HEALTHY, golden, shown

UNPRINTABLE = "Mouse\x1b]0;owned\x07\x9b31m\u202e\r\b\t\u2028\x85"


def test_the_output_equals_the_golden_files() -> None:
    assert golden() == {path.stem: path.read_text() for path in GOLDEN.iterdir()}, "run make golden and read the diff"


@pytest.mark.parametrize("name", ["plan-mixed", "status-degraded", "probe-explain"])
def test_a_terminal_gets_the_same_text_with_coloured_signs(name: str) -> None:
    _, plain = shown(*CASES[name])
    _, coloured = shown(*CASES[name], terminal=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain  # without "\x1b[31m", for example
    signs = re.findall(r"^ *\x1b\[3\dm(.)\x1b\[0m ", coloured, re.MULTILINE)  # such as "+", between two codes
    assert signs
    assert len(signs) == coloured.count("\x1b[0m")
    assert {*signs} <= set("+~-!")
    assert shown(*CASES[name], terminal=True, NO_COLOR="1")[1] == plain
    assert shown(*CASES[name], terminal=True, TERM="dumb")[1] == plain


def test_a_locale_without_the_characters_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    runtime_files.write_state(str(tmp_path), HEALTHY)
    with redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="ascii")) as output:
        assert run(["status"]) == 1
    assert b"  \\u2192 start it: `systemctl enable --now capacityd`; " in output.buffer.getvalue()


def test_columns_are_aligned_and_no_cell_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    """awk can then find each column. With python3-wcwidth, a wide character takes two columns."""
    rows = [("+", "加密狗", "0529", "a  reason"), ("…", "dongle", "1e5", "")]
    print_table(rows, ("OP", "N", "V", "R"), indent=2)
    assert capsys.readouterr().out.splitlines() == [
        "  OP  N       V     R",
        "  +   加密狗  0529  a  reason",
        "  …   dongle  1e5   -",
    ]
    print_table([("0529", "1e5"), ("10", "2.50")])
    assert capsys.readouterr().out.splitlines() == ["0529  1e5", "10    2.50"]
    print_table([], ("H",))
    assert capsys.readouterr().out == ""


def test_unprintable_characters_in_a_message_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    print_message("/tmp/\x1b[31ma\nb is left out")
    assert capsys.readouterr() == ("", "capacityd: /tmp/\\x1b[31ma\\nb is left out\n")


def test_json_is_printable_and_unchanged_in_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    value = {UNPRINTABLE: [UNPRINTABLE, "→", "\U000e0001"]}
    print_json(value)
    output = capsys.readouterr().out
    assert all(char.isprintable() or char == "\n" for char in output)
    assert "→" in output
    assert json.loads(output) == value


# Rows with the same number of cells.
@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(st.text(max_size=40), min_size=n, max_size=n))))
def test_any_text_is_printed_completely(rows: list[list[str]]) -> None:
    """Only white space may differ."""
    with redirect_stdout(io.StringIO()) as out:
        print_table(rows, signs=True)
    lines = out.getvalue().splitlines()
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        assert line.split() == [word for cell in row for word in printable(cell).split() or ["-"]]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_the_help_fits_80_columns_and_its_examples_are_accepted(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        command_parser().parse_args([*filter(None, [command]), "--help"])
    output = capsys.readouterr().out
    assert "\nexit status:\n  0  done\n" in output
    assert max(map(len, output.splitlines())) <= 80
    examples = EXAMPLES[command] if command else PROGRAM_EXAMPLES
    assert examples
    for example, _ in examples:
        assert f"\n  {example} " in output
        program, *words = shlex.split(example)
        assert program == "capacityd"
        assert command_parser().parse_args(words).command == (command or words[0])
