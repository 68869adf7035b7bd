"""The completions of `kubectl capacityd`, from the program that kubectl runs for them."""

from __future__ import annotations

import pytest

from capacityd.cli.completion import complete, main
from capacityd.cli.parser import COMMANDS

FILES, NO_FILES = 0, 4


def words(typed: str) -> list[str]:
    """The offered completions, without their descriptions."""
    offered, directive = complete(typed.split(" "))
    assert directive == NO_FILES
    return [word.partition("\t")[0] for word in offered]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("flee", ["fleet"]),
        ("--json st", ["status"]),
        ("--kubeconfig f flee", ["fleet"]),
        ("fleet --textf", ["--textfile"]),
        ("fleet --kube", ["--kubeconfig"]),
        ("fleet --by ", []),
        ("fleet worker-1 ", []),
        ("config sch", ["schema"]),
        ("config schema ", []),
        ("devices us", ["usb"]),
        ("devices sta", []),
        ("template k", ["karpenter"]),
    ],
)
def test_words(typed: str, offered: list[str]) -> None:
    assert words(typed) == offered


@pytest.mark.parametrize("typed", ["--kubeconfig ", "fleet --textfile a", "record ", "--node-file=x --config "])
def test_files(typed: str) -> None:
    assert complete(typed.split(" ")) == ([], FILES)


def test_the_program_offers_all_commands_but_internal_ones(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl_complete-capacityd"])
    assert main() == 0
    commands = [f"{name}\t{about}" for name, (_, about) in COMMANDS.items()]
    assert capsys.readouterr().out.splitlines() == [*commands, ":4"]
