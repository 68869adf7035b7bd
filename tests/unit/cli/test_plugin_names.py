"""A check warns of a resource name in the domain of a device plugin, and names the remedy."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from capacityd.cli import run
from capacityd.model.device_plugins import PLUGIN_DOMAINS, plugin_domain
from capacityd.model.options import Selection
from capacityd.model.quantity import name_problem
from capacityd.worker.check_job import check
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
def test_the_domain_of_a_device_plugin_in_a_name(name: str, domain: str | None) -> None:
    assert plugin_domain(name) == domain


@pytest.mark.parametrize("domain", PLUGIN_DOMAINS)
def test_every_domain_can_be_configured_and_has_a_source(domain: str) -> None:
    assert name_problem(f"{domain}/x") == ""
    url = urlsplit(PLUGIN_DOMAINS[domain])
    assert url.scheme == "https"
    assert url.netloc
    assert url.path.strip("/")


def test_each_check_and_probe_explain_warn_of_a_name_of_a_device_plugin(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    make_reachable(tmp_path)
    config = tmp_path / "c.toml"
    config.write_text(f'\n[resources."{NAME}"]\nstatic = {{ quantity = 2 }}\n')
    assert run(["config", "check", "--config", str(config)]) == 0
    assert f'{config}:2: warning: [resources."{NAME}"] {WARNING}\n' in capfd.readouterr().err
    assert run(["probe", "--explain", "--config", str(config)]) == 0
    assert f"hint  {WARNING}\n" in capfd.readouterr().out
    assert check(str(tmp_path), Selection(config=str(config)), ()) == 0
    assert capfd.readouterr().err.endswith(f'capacityd: {config}:2: [resources."{NAME}"] {WARNING}\n')
