"""The operator's package kubectl-capacityd: without the service, together with the service, and from pip."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from capacityd import __version__
from tests.cluster.agent import PYTHON
from tests.network import persistently
from tests.package.machine import Machine
from tests.package.packages import Packages, copy_sources
from tests.support.nodes import node

DONGLE = "example.com/dongle"
NODES = json.dumps({"kind": "List", "items": [{"kind": "Node", **node({DONGLE: "4"}, {DONGLE: 4})}]})


def test_it_installs_no_service(fresh: Machine, packages: Packages) -> None:
    before = fresh.out("systemctl", "list-unit-files", "--no-legend")
    fresh.install(packages.kubectl)
    assert fresh.out("systemctl", "list-unit-files", "--no-legend") == before
    assert "/systemd/" not in fresh.out("dpkg", "--listfiles", "kubectl-capacityd")
    for path in ("/usr/bin/capacityd", "/usr/share/capacityd", "/etc/capacityd"):
        assert not fresh.exists(path)
    assert fresh.out("kubectl-capacityd", "--version") == f"kubectl capacityd {__version__}"
    fresh.write("/root/nodes.json", NODES)
    assert "\nexample.com/dongle  1 " in fresh.out("kubectl-capacityd", "fleet", "--node-file", "/root/nodes.json")
    fresh.write("/root/seats.toml", '[resources."example.com/seats"]\nstatic = { quantity = 3 }\n')
    template = fresh.out("kubectl-capacityd", "template", "gke", "--config", "/root/seats.toml")
    assert 'resources.example.com/seats: "3"' in template
    offer_no_files = ":4"  # a directive of the library for kubectl's commands (cobra)
    assert fresh.out("kubectl_complete-capacityd", "fle").splitlines()[-1] == offer_no_files
    fresh.dpkg("--purge", "kubectl-capacityd")
    assert not fresh.exists("/usr/share/kubectl-capacityd")


def test_it_is_independent_of_the_agent_on_the_same_machine(fresh: Machine, packages: Packages) -> None:
    fresh.install(packages.current, packages.kubectl)
    assert fresh.run("capacityd", "fleet", status=2).stderr.endswith(
        "must be one of devices, probe, plan, apply, withdraw, run, record, status, config\n"
    )
    fresh.dpkg("--purge", "capacityd")
    assert fresh.out("kubectl-capacityd", "--version") == f"kubectl capacityd {__version__}"
    fresh.install(packages.current)
    fresh.dpkg("--purge", "kubectl-capacityd")
    assert fresh.out("capacityd", "--version") == f"capacityd {__version__}"


@pytest.mark.whole
def test_pip_installs_it_where_there_is_no_systemd(tmp_path: Path) -> None:
    """The environment has no packages of the distribution, and the dependencies that pip resolves today."""
    sources = copy_sources(tmp_path / "sources")
    environment = tmp_path / "environment"
    run(PYTHON, "-m", "venv", environment)
    programs = environment / "bin"
    pip = (programs / "python", "-m", "pip", "--quiet", "--disable-pip-version-check")
    persistently(lambda: run(*pip, "install", sources, sources / "kubectl"), subprocess.CalledProcessError)
    with pytest.raises(subprocess.CalledProcessError):
        run(programs / "python", "-c", "import systemd")
    assert run(programs / "kubectl-capacityd", "fleet", "--help").startswith("usage: kubectl capacityd fleet ")
    (tmp_path / "nodes.json").write_text(NODES)
    fleet = run(programs / "kubectl-capacityd", "fleet", "--node-file", tmp_path / "nodes.json")
    assert "\nexample.com/dongle  1 " in fleet
    assert run(programs / "kubectl_complete-capacityd", "fleet", "--js").startswith("--json\t")


def run(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}).stdout
