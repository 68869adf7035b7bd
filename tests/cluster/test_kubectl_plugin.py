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


def test_fleet_uses_the_kubeconfig_of_kubectl(cluster: Cluster, node: str, tmp_path: Path) -> None:
    kubeconfig = cluster.kubeconfig(ADMIN)
    done = kubectl(cluster.binaries["kubectl"], tmp_path, "capacityd", "fleet", node, KUBECONFIG=str(kubeconfig))
    assert "1 Node" in done.stdout, done.stderr


@pytest.mark.parametrize("content", ["", "# nothing yet\n", "{}\n"])
def test_fleet_and_kubectl_ignore_an_empty_file_in_the_list(
    cluster: Cluster, node: str, tmp_path: Path, content: str
) -> None:
    (tmp_path / "empty").write_text(content)
    files = f"{tmp_path}/empty:{tmp_path}/missing:{cluster.kubeconfig(ADMIN)}"
    program = cluster.binaries["kubectl"]
    assert kubectl(program, tmp_path, "get", "node", node, KUBECONFIG=files).returncode == 0
    done = kubectl(program, tmp_path, "capacityd", "fleet", node, KUBECONFIG=files)
    assert "1 Node" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "typed", ["fleet --context this NODE", "fleet NODE --context=this", "--context this fleet NODE"]
)
def test_the_context_is_chosen_as_in_kubectl(cluster: Cluster, node: str, tmp_path: Path, typed: str) -> None:
    kubeconfig = yaml.safe_load(cluster.kubeconfig(ADMIN).read_text())
    (context,) = kubeconfig["contexts"]
    elsewhere = {"name": "elsewhere", "cluster": {"server": "https://127.0.0.1:1"}}
    kubeconfig["clusters"].append(elsewhere)
    kubeconfig["contexts"] = [
        {"name": "this", "context": context["context"]},
        {"name": "other", "context": {**context["context"], "cluster": "elsewhere"}},
    ]
    kubeconfig["current-context"] = "other"
    (tmp_path / "config").write_text(yaml.safe_dump(kubeconfig))
    program, variable = cluster.binaries["kubectl"], {"KUBECONFIG": str(tmp_path / "config")}
    assert kubectl(program, tmp_path, "get", "node", node, "--context", "this", **variable).returncode == 0
    done = kubectl(program, tmp_path, "capacityd", *typed.replace("NODE", node).split(), **variable)
    assert "1 Node" in done.stdout, done.stderr
    assert kubectl(program, tmp_path, "capacityd", "fleet", **variable).returncode == 3, "the current one is elsewhere"
    unknown = kubectl(program, tmp_path, "capacityd", "fleet", "--context", "staging", **variable)
    assert unknown.returncode == 2
    assert f'no context "staging" (--context) in {tmp_path}/config; must be one of other, this' in unknown.stderr


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
    """With kubectl's __complete, which the completion of a shell runs."""
    done = kubectl(binaries["kubectl"], tmp_path, "__complete", "capacityd", *typed)
    *words, directive = done.stdout.splitlines()
    assert [word.partition("\t")[0] for word in words] == offered, done.stderr
    assert directive == (":4" if offered else ":0")
