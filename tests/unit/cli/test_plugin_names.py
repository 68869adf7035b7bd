"""A resource name in a device plugin's domain: each check warns and names the remedy, and no command fails."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from capacityd.cli import run
from capacityd.model.device_plugins import PLUGIN_DOMAINS, plugin_domain
from capacityd.model.options import Selection
from capacityd.model.quantity import name_problem
from capacityd.worker.check_job import check
from tests.support.machines import bare
from tests.support.nodes import node
from tests.support.reachable import make_reachable

NAME = "gpu.intel.com/i915"
WARNING = (
    "device plugins use names in intel.com (https://github.com/intel/intel-device-plugins-for-kubernetes); if one "
    "registers gpu.intel.com/i915, capacityd gives it up: use your own domain, as in example.com/i915"
)


@pytest.mark.parametrize(
    ("name", "domain"),
    [
        ("nvidia.com/gpu", "nvidia.com"),
        ("gpu.intel.com/i915", "intel.com"),
        ("rdma/hca_shared_devices_a", "rdma"),
        ("example.com/gpu", None),
        ("notnvidia.com/gpu", None),
        ("devic.es.example.com/serial", None),
    ],
)
def test_the_domain_of_a_device_plugin_is_found_from_a_name(name: str, domain: str | None) -> None:
    assert plugin_domain(name) == domain


@pytest.mark.parametrize("domain", PLUGIN_DOMAINS)
def test_every_domain_can_be_configured_and_has_a_source(domain: str) -> None:
    assert name_problem(f"{domain}/x") == ""
    url = urlsplit(PLUGIN_DOMAINS[domain])
    assert (url.scheme, bool(url.netloc), bool(url.path.strip("/"))) == ("https", True, True)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The options for a machine, a Node, and a configuration with such a name."""
    (tmp_path / "c.toml").write_text(f'\n[resources."{NAME}"]\nstatic = {{ quantity = 2 }}\n')
    (tmp_path / "machine.json").write_text(json.dumps(bare()))
    (tmp_path / "node.json").write_text(json.dumps(node()))
    options = {"--machine": "machine.json", "--config": "c.toml", "--node-file": "node.json"}
    return [text for option, name in options.items() for text in (option, str(tmp_path / name))]


@pytest.mark.parametrize(
    ("command", "output"),
    [
        (["config", "check"], '{config}:2: warning: [resources."{name}"] {warning}\n'),
        (["probe", "--explain"], "hint  {warning}\n"),
    ],
    ids=lambda value: value[0],
)
def test_each_command_warns_of_a_name_of_a_device_plugin(
    files: list[str], capsys: pytest.CaptureFixture[str], command: list[str], output: str
) -> None:
    config = files[3]
    options = files[2:4] if command[0] == "config" else files[:4]
    assert run([*command, *options]) == 0
    out, err = capsys.readouterr()
    assert output.format(config=config, name=NAME, warning=WARNING) in out + err


def test_a_check_logs_a_name_of_a_device_plugin(
    files: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    make_reachable(tmp_path)
    assert check(str(tmp_path), Selection(config=files[3]), ()) == 0
    assert capfd.readouterr().err == f'capacityd: {files[3]}:2: [resources."{NAME}"] {WARNING}\n'
