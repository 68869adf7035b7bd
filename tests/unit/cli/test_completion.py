"""What kubectl offers for `kubectl capacityd`, by the program that it runs for that."""

from __future__ import annotations

import pytest

from capacityd.cli.completion import complete, main
from capacityd.cli.parser import COMMANDS, INTERNAL

FILES, NO_FILES = 0, 4


def words(typed: str) -> list[str]:
    """The offered words, without their descriptions."""
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


def test_all_commands_but_internal_ones() -> None:
    assert words("") == list(COMMANDS)
    assert not set(words("")) & set(INTERNAL)
    assert complete([]) == complete([""])


@pytest.mark.parametrize("typed", ["--kubeconfig ", "fleet --textfile a", "record ", "--node-file=x --config "])
def test_files(typed: str) -> None:
    assert complete(typed.split(" ")) == ([], FILES)


def test_output(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl_complete-capacityd", "flee"])
    assert main() == 0
    assert capsys.readouterr().out == f"fleet\t{COMMANDS['fleet'][1]}\n:4\n"
