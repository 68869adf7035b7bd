"""Which versions of Kubernetes are tested, and the go.mod that each is built by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster import binaries, releases
from tests.cluster.binaries import BuildError
from tests.cluster.test_binaries import program

THEIRS = {
    "Go": "1.22.0",
    "Require": [
        {"Path": "go.etcd.io/etcd/server/v3", "Version": "v3.5.10"},
        {"Path": "k8s.io/api", "Version": "v0.0.0"},
    ],
    "Replace": [{"Old": {"Path": "k8s.io/api"}, "New": {"Path": "./staging/src/k8s.io/api"}}],
}


def test_the_modules_are_those_of_kubernetes_itself() -> None:
    assert releases.go_mod("1.30.14", THEIRS).splitlines() == [
        "module capacityd/tests/cluster/release",
        "go 1.22.0",
        "require (",
        "\tk8s.io/kubernetes v1.30.14",
        "\tgo.etcd.io/etcd/server/v3 v3.5.10",
        "\tk8s.io/api v0.0.0",
        ")",
        "replace (",
        "\tk8s.io/api => k8s.io/api v0.30.14",
        ")",
    ]


def test_a_module_replaced_by_another_is_an_error() -> None:
    fork = {"Old": {"Path": "example.com/x"}, "New": {"Path": "example.com/fork"}}
    with pytest.raises(BuildError, match=r"example\.com/x"):
        releases.go_mod("1.30.14", THEIRS | {"Replace": [fork]})


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A go that writes what it is asked to build, lists versions, and has all modules but those of 1.31.14; its log."""
    monkeypatch.setattr(binaries, "OTHER_PLACES", ())
    monkeypatch.setattr("tests.network.PAUSES", ())
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    listed = "k8s.io/kubernetes v1.9.0 v1.30.4 v1.30.14 v1.31.0 v1.31.14 v1.32.0-rc.0"
    program(
        tmp_path / "bin/go",
        f"""case "$*" in
        "env GOVERSION") echo go1.26.0;;
        "list -m -versions"*) echo {listed};;
        "mod download"*) echo '{{"GoMod": "x"}}';;
        "mod edit"*) echo '{json.dumps(THEIRS)}';;
        "list "*) ! grep -q v1.31.14 go.mod;;
        build*) while [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done
            grep -o 'kubernetes v.*' go.mod >"$out"; echo "$1 $(pwd)" >>{tmp_path}/log;;
        esac""",
    )
    return tmp_path / "log"


def test_the_newest_patch_release_that_can_be_built(go: Path) -> None:
    assert releases.newest() == ["1.30.14", "1.31.0"]


def test_each_version_is_built_once_in_a_folder_of_its_own(go: Path) -> None:
    found = releases.programs("1.30.14", "1.33.13")
    assert found["kube-apiserver"].read_text() == "kubernetes v1.30.14\n"
    assert found["kubelet"].read_text() == "kubernetes v1.33.13\n"
    assert found["fakeruntime"].read_text() == f"kubernetes v{binaries.pinned()} // indirect\n"
    built = go.read_text()
    assert releases.programs("1.30.14", "1.33.13") == found
    assert go.read_text() == built
