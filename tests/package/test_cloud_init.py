"""A real cloud-init runs the examples. Each is valid, and writes a valid configuration."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from capacityd.config import load
from tests import ROOT
from tests.cluster.processes import PATIENCE, wait_until
from tests.package.machine import Machine, machine
from tests.package.packages import Packages

EXAMPLES = sorted((ROOT / "conf/cloud-init").glob("*.yaml"))
# Only the modules that the examples use: other modules would set up a network, accounts and keys.
SETTINGS = {
    "datasource_list": ["NoCloud"],
    "network": {"config": "disabled"},
    "cloud_init_modules": ["write-files"],
    "cloud_config_modules": ["runcmd"],
    "cloud_final_modules": ["package-update-upgrade-install", "scripts-user"],
}
REPREPRO_CONFIG = "Codename: stable\nComponents: main\nArchitectures: amd64\n"
SERVED = "/srv/repository"


def test_what_the_examples_write_is_valid(tmp_path: Path) -> None:
    for path in EXAMPLES:
        document = yaml.safe_load(path.read_text())
        drop_ins = [file for file in document["write_files"] if file["path"].startswith("/etc/capacityd/conf.d/60-")]
        assert drop_ins, path
        for file in drop_ins:
            (tmp_path / "60.toml").write_text(file["content"])
            assert load(str(tmp_path / "60.toml")).problems == ()
        assert ["systemctl", "enable", "--now", "--no-block", "capacityd.service"] in document["runcmd"]


@pytest.fixture
def fresh() -> Iterator[Machine]:
    """A machine with Debian 12, cloud-init before its first run, and a stub of kubeadm."""
    with machine("12") as running:
        running.write("/usr/bin/kubeadm", "#!/bin/sh\necho $* >/run/joined\n", "755")
        running.write("/etc/cloud/cloud.cfg.d/99-tests.cfg", json.dumps(SETTINGS))
        running.run("rm", "/etc/cloud/cloud-init.disabled")
        yield running


def test_the_example_installs_on_a_stock_image(fresh: Machine, packages: Packages, tmp_path: Path) -> None:
    """The package repository is in a folder, because the machine has no network. It is not signed."""
    for path in EXAMPLES:
        fresh.run("cloud-init", "schema", "--config-file", fresh.put(path))
    document = yaml.safe_load((ROOT / "conf/cloud-init/repository.yaml").read_text())
    key, sources, _ = document["write_files"]
    signed_by = f"Signed-By: {key['path']}\n"
    assert signed_by in sources["content"]
    unsigned = sources["content"].replace(signed_by, "Trusted: yes\n")
    sources["content"] = unsigned.replace("https://packages.example.com/", f"file:{SERVED}/")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/distributions").write_text(REPREPRO_CONFIG)
    add: list[str | Path] = ["reprepro", "--basedir", tmp_path, "includedeb", "stable", packages.current]
    subprocess.run(add, capture_output=True, check=True)
    fresh.unpack(tmp_path, SERVED)
    fresh.run("sh", "-c", "rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*")
    boot_with(fresh, document)
    assert fresh.out("cat", "/run/joined") == "join --config /etc/kubernetes/join.yaml"


def boot_with(machine: Machine, document: dict[str, Any]) -> None:
    """Runs cloud-init's stages, after which the service runs and has read its resource."""
    seed = "/var/lib/cloud/seed/nocloud-net"
    machine.write(f"{seed}/meta-data", "instance-id: i-1\n")
    machine.write(f"{seed}/user-data", f"#cloud-config\n{yaml.safe_dump(document)}")
    for stage in (("init", "--local"), ("init",), ("modules", "--mode=config"), ("modules", "--mode=final")):
        machine.run("cloud-init", *stage, deadline=300)
    assert machine.enabled == "enabled"
    wait_until(lambda: machine.active == "active", PATIENCE, "the service is up")
    machine.wait_for_readings({"example.com/dongle": "absent"})
