"""A real cloud-init runs the examples. Each is valid, and writes a valid configuration."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
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
SIGNER = "packages@example.com"
DISTRIBUTION = f"Codename: stable\nComponents: main\nArchitectures: amd64\nSignWith: {SIGNER}\n"
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


@pytest.fixture
def repository(packages: Packages) -> Iterator[Path]:
    """The folder of a signed apt repository that contains the package. Its public key is in example.asc."""
    # gpg-agent's socket needs a short path; pytest's temporary folders have long paths.
    with tempfile.TemporaryDirectory(prefix="capacityd-") as top:
        folder, keys = Path(top, "repository"), Path(top, "keys")
        keys.mkdir(mode=0o700)
        (folder / "conf").mkdir(parents=True)
        (folder / "conf/distributions").write_text(DISTRIBUTION)

        def run(*command: str) -> str:
            environment = {"PATH": os.environ["PATH"], "HOME": str(keys), "GNUPGHOME": str(keys)}
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=True
            )
            return done.stdout

        try:
            run("gpg", "--batch", "--passphrase", "", "--quick-generate-key", SIGNER, "rsa4096", "sign", "never")
            run("reprepro", "includedeb", "stable", str(packages.current))
            (folder / "example.asc").write_text(run("gpg", "--armor", "--export", SIGNER))
            yield folder
        finally:
            run("gpgconf", "--kill", "gpg-agent")


def test_the_example_installs_on_a_stock_image(fresh: Machine, repository: Path) -> None:
    """The package repository is in a folder, because the machine has no network."""
    for path in EXAMPLES:
        fresh.run("cloud-init", "schema", "--config-file", fresh.put(path))
    document = yaml.safe_load((ROOT / "conf/cloud-init/repository.yaml").read_text())
    key, sources, _ = document["write_files"]
    fresh.unpack(repository, SERVED)
    key["content"] = (repository / "example.asc").read_text()
    sources["content"] = sources["content"].replace("https://packages.example.com/", f"file:{SERVED}/")
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
