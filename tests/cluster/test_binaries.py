"""How the programs get where they are: what is found, what is fetched, the error if there is nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests import network
from tests.cluster import binaries
from tests.cluster.binaries import BuildError


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No go anywhere, an empty cache; the folder that the PATH names."""
    monkeypatch.setattr(binaries, "OTHER_PLACES", ())
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(network, "PAUSES", (0.0, 0.0))
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def program(path: Path, script: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_without_go_the_error_names_the_package() -> None:
    with pytest.raises(BuildError, match="apt-get install golang-go"):
        binaries.programs()


def test_an_old_go_fetches_the_one_that_is_needed(bare_machine: Path, tmp_path: Path) -> None:
    module = tmp_path / "toolchain"
    for file in (module / "bin/go", module / "pkg/tool/linux/compile"):
        program(file).chmod(0o444)
    asked = tmp_path / "asked"
    program(
        bare_machine / "go",
        f"""case "$*" in
        "env GOVERSION") echo go1.19.8;;
        "env GOOS GOARCH") printf 'linux\\namd64\\n';;
        *) echo "$*" >> {asked}; echo '{json.dumps({"Dir": str(module)})}';;
        esac""",
    )
    assert binaries.find_go() == module / "bin/go"
    assert asked.read_text() == "mod download -json golang.org/toolchain@v0.0.1-go1.26.8.linux-amd64\n"
    assert os.access(module / "bin/go", os.X_OK)
    assert os.access(module / "pkg/tool/linux/compile", os.X_OK)


def test_builds_what_is_missing_once(bare_machine: Path) -> None:
    log = bare_machine.parent / "log"
    # A go that makes the file after -o out of the package, which is the last word.
    program(
        bare_machine / "go",
        f"""[ "$1" = env ] && {{ echo go1.26.0; exit; }}
        while [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done
        echo "$1" > "$out"; echo "$1" >> {log}""",
    )
    first = binaries.programs()
    assert {name: path.read_text().strip() for name, path in first.items()} == binaries.PACKAGES
    assert log.read_text().split() == list(binaries.PACKAGES.values())
    first["etcd"].unlink()
    assert binaries.programs() == first
    assert log.read_text().split()[len(first) :] == [binaries.PACKAGES["etcd"]]


def test_a_build_that_fails_at_first_is_retried(bare_machine: Path) -> None:
    """It may have been the network."""
    program(
        bare_machine / "go",
        f"""[ "$1" = env ] && {{ echo go1.26.0; exit; }}
        while [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done
        [ -e {bare_machine}/second ] && : >"$out" || {{ : >{bare_machine}/second; exit 1; }}""",
    )
    assert all(path.exists() for path in binaries.programs().values())


def test_a_build_that_fails_leaves_nothing_behind(bare_machine: Path) -> None:
    program(bare_machine / "go", '[ "$1" = env ] && { echo go1.26.0; exit; }; exit 1')
    with pytest.raises(BuildError, match="etcd could not be built"):
        binaries.programs()
    assert not list(binaries.cache_folder().iterdir())


def test_the_cache_follows_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "HERE", tmp_path)
    (tmp_path / "go.mod").write_text("module x")
    (tmp_path / "go.sum").write_text("")
    first = binaries.cache_folder()
    program(tmp_path / "fakeruntime/main.go")
    second = binaries.cache_folder()
    (tmp_path / "go.sum").write_text("y")
    assert len({first, second, binaries.cache_folder()}) == 3
