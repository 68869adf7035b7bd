"""Every command on a terminal, in a pipe and without colour prints what its golden file says."""

from __future__ import annotations

import shlex

import pytest

from capacityd.cli import _COMMANDS, command_parser
from capacityd.cli.help import EXAMPLES, GROUPS
from tests.unit.terminals import CASES, GOLDEN, golden, in_pipe, on_terminal, started, without_colour


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    assert golden(CASES[name]) == (GOLDEN / f"{name}.txt").read_text(), "make golden writes it anew"


@pytest.mark.parametrize("name", ["devices", "plan-mixed", "status-broken", "error-option"])
def test_a_process_of_its_own_says_what_a_fork_says(name: str) -> None:
    assert on_terminal(CASES[name], begin=started) == on_its_terminal(name)


def test_each_golden_file_has_its_case() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


def on_its_terminal(name: str) -> str:
    """What the golden file says of a terminal of 80 columns."""
    return shown(name, 1)


def in_its_pipe(name: str) -> str:
    """What the golden file says of a pipe."""
    return shown(name, -1)


def shown(name: str, part: int) -> str:
    text = (GOLDEN / f"{name}.txt").read_text().split("==== ")[part].partition("\n")[2]
    return text.rstrip("\n").replace("␛", "\x1b") + "\n"


@pytest.mark.parametrize("name", CASES)
def test_no_color_takes_away_the_colour_and_nothing_else(name: str) -> None:
    assert on_terminal(CASES[name], NO_COLOR="1") == without_colour(on_its_terminal(name))


def test_dumb_terminals_get_no_colour_and_an_empty_no_color_is_none() -> None:
    case, coloured = CASES["plan-mixed"], on_its_terminal("plan-mixed")
    assert "\x1b[" in coloured
    assert on_terminal(case, TERM="dumb") == without_colour(coloured)
    assert on_terminal(case, NO_COLOR="") == coloured


@pytest.mark.parametrize("name", ["probe-explain", "plan", "plan-mixed", "status-well", "status-broken"])
def test_nothing_is_cut_or_too_wide(name: str) -> None:
    whole = sorted("".join(in_its_pipe(name).split()))
    for columns in (100, 60, 40):
        said = without_colour(on_terminal(CASES[name], columns))
        assert max(len(line) for line in said.splitlines()) <= columns
        if columns == 100:
            assert sorted("".join(said.split())) == whole


@pytest.mark.parametrize("name", ["plan-json", "status-json", "plan-patch"])
def test_what_programs_read_is_the_same_everywhere(name: str) -> None:
    said = in_its_pipe(name)
    assert on_terminal(CASES[name], 40) == said
    assert in_pipe(CASES[name], FORCE_COLOR="1") == said


def test_a_pipe_may_ask_for_colour() -> None:
    assert "\x1b[" in in_pipe(CASES["plan"], FORCE_COLOR="1")
    assert "\x1b[" not in in_pipe(CASES["plan"], FORCE_COLOR="1", NO_COLOR="1")


def test_a_terminal_of_another_alphabet_is_no_error() -> None:
    said = in_pipe(CASES["plan-mixed"], PYTHONIOENCODING="ascii")
    assert said.startswith("Node n1\n")
    assert said.endswith("[exit status 4]\n")


def test_each_command_has_its_group_and_examples_that_it_understands() -> None:
    assert {name for names in GROUPS.values() for name in names} >= set(_COMMANDS)
    for command in ("", *_COMMANDS):
        assert EXAMPLES[command]
        for line, _ in EXAMPLES[command]:
            words = shlex.split(line.rpartition("| ")[2])
            assert words[0] == "capacityd"
            assert command_parser().parse_args(words[1:]).command == (command or words[1])


@pytest.mark.parametrize("command", _COMMANDS)
def test_help_has_examples_and_exit_statuses(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_parser().parse_args([command, "--help"])
    said = capsys.readouterr().out
    assert "\nexamples:\n" in said
    assert "\nexit status:\n  0  done\n" in said
