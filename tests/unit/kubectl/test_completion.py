"""The completions of `kubectl capacityd`, from the program that kubectl runs for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubectl_capacityd.completion import complete, main
from kubectl_capacityd.parser import COMMANDS

FILES, NO_FILES = 0, 4  # numbers of cobra's protocol: the shell may offer files, too, or not


def words(typed: str) -> list[str]:
    """The offered completions, without their descriptions."""
    offered, directive = complete(typed.split(" "))
    assert directive == NO_FILES
    return [word.partition("\t")[0] for word in offered]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("flee", ["fleet"]),
        ("fleet --textf", ["--textfile"]),
        ("fleet --kube", ["--kubeconfig"]),
        ("fleet --by ", []),
        ("fleet worker-1 ", []),
        ("template aws ", []),
        ("template --nodes k", ["karpenter"]),
        ("stat", []),
        ("stat ", []),
    ],
)
def test_the_words_that_fit_are_offered(typed: str, offered: list[str]) -> None:
    assert words(typed) == offered


def test_the_contexts_of_the_kubeconfig_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prod").write_text("contexts: [{name: prod-eu}, {name: prod-us}, {name: test}]")
    (tmp_path / "lab").write_text("contexts: [{name: lab}]")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/prod:{tmp_path}/lab")
    assert words("fleet --context ") == ["lab", "prod-eu", "prod-us", "test"]
    assert words("fleet --context prod") == ["prod-eu", "prod-us"]
    assert words(f"fleet --kubeconfig {tmp_path}/lab --context ") == ["lab"]
    assert words(f"fleet --kubeconfig={tmp_path}/lab --context ") == ["lab"]
    assert words("fleet --context prod-eu --text") == ["--textfile"]
    assert words(f"fleet --kubeconfig {tmp_path}/missing --context ") == []


@pytest.mark.parametrize("typed", ["fleet --textfile a", "template --node-file=x --config "])
def test_files_are_offered_where_a_file_belongs(typed: str) -> None:
    assert complete(typed.split(" ")) == ([], FILES)


def test_the_program_offers_all_commands(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl_complete-capacityd"])
    assert main() == 0
    commands = [f"{name}\t{about}" for name, about in COMMANDS.items()]
    assert capsys.readouterr().out.splitlines() == [*commands, f":{NO_FILES}"]
