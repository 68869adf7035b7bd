"""The real kubectl runs `kubectl capacityd`, with the programs that pip installs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from capacityd import __version__
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import ADMIN
from tests.cluster.processes import PATIENCE


def kubectl(program: Path, home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs kubectl with the programs of this virtual environment on the PATH."""
    variables = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(home), **environment}
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=PATIENCE, env=variables)


def test_kubectl_capacityd_runs_the_command(binaries: Mapping[str, Path], tmp_path: Path) -> None:
    done = kubectl(binaries["kubectl"], tmp_path, "capacityd", "--version")
    assert (done.stdout, done.stderr, done.returncode) == (f"kubectl capacityd {__version__}\n", "", 0)
    listed = kubectl(binaries["kubectl"], tmp_path, "plugin", "list")
    assert [line for line in listed.stdout.splitlines() if "capacityd" in line] == [
        f"{Path(sys.executable).parent}/kubectl-capacityd"
    ]


def test_the_files_and_the_context_are_those_of_kubectl(cluster: Cluster, node: str, tmp_path: Path) -> None:
    """KUBECONFIG lists an empty file, a missing file, and a file with two contexts, of which one has no server."""
    kubeconfig = yaml.safe_load(cluster.kubeconfig(ADMIN).read_text())
    (context,) = kubeconfig["contexts"]
    elsewhere = {"name": "elsewhere", "cluster": {"server": "https://127.0.0.1:1"}}
    kubeconfig["clusters"].append(elsewhere)
    kubeconfig["contexts"] = [
        {"name": "this", "context": context["context"]},
        {"name": "other", "context": {**context["context"], "cluster": "elsewhere"}},
    ]
    kubeconfig["current-context"] = "other"
    (tmp_path / "empty").touch()
    (tmp_path / "config").write_text(yaml.safe_dump(kubeconfig))
    program = cluster.binaries["kubectl"]
    variable = {"KUBECONFIG": f"{tmp_path}/empty:{tmp_path}/missing:{tmp_path}/config"}
    assert kubectl(program, tmp_path, "get", "node", node, "--context", "this", **variable).returncode == 0
    done = kubectl(program, tmp_path, "capacityd", "fleet", "--context", "this", node, **variable)
    assert "1 Node" in done.stdout, done.stderr
    assert kubectl(program, tmp_path, "capacityd", "fleet", **variable).returncode == 3, "the server of `other`"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["flee"], ["fleet"]),
        (["fleet", "--textf"], ["--textfile"]),
        (["template", "ka"], ["karpenter"]),
        (["fleet", "--textfile", ""], []),
    ],
)
def test_kubectl_completes_as_the_command_does(
    binaries: Mapping[str, Path], tmp_path: Path, typed: list[str], offered: list[str]
) -> None:
    """A shell's completion runs kubectl's hidden command __complete."""
    done = kubectl(binaries["kubectl"], tmp_path, "__complete", "capacityd", *typed)
    *words, directive = done.stdout.splitlines()
    assert [word.partition("\t")[0] for word in words] == offered, done.stderr
    offer_no_files, offer_files = ":4", ":0"  # directives of the library for kubectl's commands (cobra)
    assert directive == (offer_no_files if offered else offer_files)
