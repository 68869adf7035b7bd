"""Which kubeconfig an operator's commands use, and the advice in errors about it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from capacityd.model.errors import CredentialsMissing, NodeUnauthorized, UsageError
from capacityd.node.kubeconfig import load
from kubectl_capacityd.cluster.operator_kubeconfig import context_names, load_operators
from tests.unit.node.test_credentials import config, written


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of a user without a kubeconfig."""
    folder = tmp_path / "home"
    (folder / ".kube").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return folder


def with_token(folder: Path, token: str, name: str) -> str:
    """Writes a kubeconfig with this token. Returns its path."""
    return written(folder, config(user={"token": token}), name)


def test_the_option_goes_before_the_variable_and_the_variable_before_home(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CredentialsMissing) as raised:
        load_operators(None)
    assert str(raised.value) == (
        f"no kubeconfig found in {home}/.kube/config, and KUBECONFIG names no file. Give its path with --kubeconfig"
    )
    with_token(home, "home", ".kube/config")
    assert load_operators(None).token == "home"
    monkeypatch.setenv("KUBECONFIG", with_token(tmp_path, "variable", "variable"))
    assert load_operators(None).token == "variable"
    assert load_operators(with_token(tmp_path, "option", "option")).token == "option"
    monkeypatch.setenv("KUBECONFIG", os.pathsep)  # a list without a file
    assert load_operators(None).token == "home"


def test_in_a_list_of_files_the_first_with_a_context_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = written(tmp_path, config(user={"token": "1"}) | {"current-context": "elsewhere"}, "first")
    second = written(tmp_path, config(user={"token": "2"}), "second")
    elsewhere = [{"name": "elsewhere", "context": {"cluster": "k", "user": "u"}}]
    third = written(tmp_path, config(user={"token": "3"}) | {"current-context": "", "contexts": elsewhere}, "third")
    missing = str(tmp_path / "missing")
    for files, token in (
        ((second, first), "2"),
        ((missing, second), "2"),
        ((first, second, third), "3"),
        ((third, second, first), "2"),
    ):
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join(files))
        assert load_operators(None).token == token, files
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join((first, second)))
    with pytest.raises(NodeUnauthorized, match="first has no context with the name of its current-context"):
        load_operators(None)
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join((missing, missing)))
    with pytest.raises(CredentialsMissing, match=r"missing and .*missing \(KUBECONFIG\)"):
        load_operators(None)
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join((second, written(tmp_path, "{", "broken"))))
    with pytest.raises(NodeUnauthorized, match="broken is not valid YAML"):
        load_operators(None)


def test_a_context_whose_cluster_is_in_another_file_has_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = written(tmp_path, config() | {"clusters": []}, "context")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join((context, written(tmp_path, config(), "cluster"))))
    with pytest.raises(NodeUnauthorized, match=r"no cluster that its context names \(`kubectl config view --flatten`"):
        load_operators(None)
    with pytest.raises(NodeUnauthorized, match=r"no cluster that its context names$"):
        load(context)


@pytest.mark.parametrize("content", ["", "\n", "# nothing yet\n", "---\n", "null\n", "{}"])
def test_an_empty_file_in_a_list_is_one_without_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    empty, used = written(tmp_path, content, "empty"), with_token(tmp_path, "1", "used")
    for files in ((empty, used), (used, empty), (empty, empty, used)):
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join(files))
        assert load_operators(None).token == "1"
    for variable in (empty, f"{empty}{os.pathsep}{empty}"):
        monkeypatch.setenv("KUBECONFIG", variable)
        with pytest.raises(NodeUnauthorized, match=r"empty contains no current-context: is it complete"):
            load_operators(None)


def test_the_context_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = [{"name": name, "context": {"cluster": "k", "user": name}} for name in ("test", "prod")]
    users = [{"name": name, "user": {"token": f"of {name}"}} for name in ("test", "prod")]
    both = written(tmp_path, config() | {"contexts": contexts, "users": users, "current-context": "test"}, "both")
    other = with_token(tmp_path, "other", "other")  # its context is "c"
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join((both, other)))
    for option, context, token in (  # --kubeconfig, --context, and the token that is used
        (None, None, "of test"),
        (None, "prod", "of prod"),
        (None, "c", "other"),
        (None, "", "of test"),
        (both, "prod", "of prod"),
    ):
        assert load_operators(option, context).token == token, (option, context)
    assert context_names(None) == ["c", "other", "prod", "test"]
    assert context_names(other) == ["c", "other"]
    with pytest.raises(UsageError) as raised:
        load_operators(None, "prd")
    choices = "c, other, prod, test"
    assert str(raised.value) == f'no context "prd" (--context) in {both} and {other}; must be one of {choices}'
    with pytest.raises(UsageError, match=r'no context "c" .* there is none'):
        load_operators(written(tmp_path, "", "empty"), "c")


def test_a_file_that_cannot_be_read_is_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read every file, so the test uses a link to itself in place of a file without permission."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "loop"))
    with pytest.raises(NodeUnauthorized) as raised:
        load_operators(None)
    assert "loop cannot be read: Too many levels of symbolic links" in str(raised.value)
