"""The real kubectl runs `kubectl capacityd`, with the programs that pip installs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from capacityd import __version__
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import ADMIN
from tests.cluster.processes import PATIENCE


def kubectl(program: Path, home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs kubectl with the programs of this virtual environment on the PATH."""
    variables = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(home), **environment}
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=PATIENCE, env=variables)


def test_it_is_the_command(binaries: Mapping[str, Path], tmp_path: Path) -> None:
    done = kubectl(binaries["kubectl"], tmp_path, "capacityd", "--version")
    assert (done.stdout, done.stderr, done.returncode) == (f"capacityd {__version__}\n", "", 0)
    listed = kubectl(binaries["kubectl"], tmp_path, "plugin", "list")
    assert [line for line in listed.stdout.splitlines() if "capacityd" in line] == [
        f"{Path(sys.executable).parent}/kubectl-capacityd"
    ]


def test_fleet_uses_the_kubeconfig_of_kubectl(cluster: Cluster, node: str, tmp_path: Path) -> None:
    kubeconfig = cluster.kubeconfig(ADMIN)
    done = kubectl(cluster.binaries["kubectl"], tmp_path, "capacityd", "fleet", node, KUBECONFIG=str(kubeconfig))
    assert "1 Node" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["flee"], ["fleet"]),
        (["fleet", "--textf"], ["--textfile"]),
        (["config", ""], ["check", "show", "schema"]),
        (["fleet", "--textfile", ""], []),
    ],
)
def test_completion(binaries: Mapping[str, Path], tmp_path: Path, typed: list[str], offered: list[str]) -> None:
    """With kubectl's __complete, which the completion of a shell runs."""
    done = kubectl(binaries["kubectl"], tmp_path, "__complete", "capacityd", *typed)
    *words, directive = done.stdout.splitlines()
    assert [word.partition("\t")[0] for word in words] == offered, done.stderr
    assert directive == (":4" if offered else ":0")
