"""The page on installation: the commands and files of each way to install, on a machine with systemd."""

from __future__ import annotations

import json
import re
import shlex

import pytest
import yaml

from tests import ROOT
from tests.cluster.processes import PATIENCE, wait_until
from tests.package.machine import Machine
from tests.package.packages import Packages
from tests.package.service import publish_seats, published
from tests.support.pages import blocks

BLOCKS = list(blocks((ROOT / "docs/install.md").read_text()))
NAMED = {block.name: block.text for block in BLOCKS if block.name}
CONFIG = (ROOT / "conf/examples/dongle.toml").read_text()
AS_IN_AN_IMAGE = ("inactive", "enabled")  # the service starts at the next boot


def commands(begin: str) -> str:
    """The block of commands on the page that begins with these words."""
    (text,) = (block.text for block in BLOCKS if block.kind == "sh" and block.text.startswith(begin))
    return text


def in_build(machine: Machine, text: str) -> None:
    """Runs commands in the folder /build."""
    machine.run("env", "-C", "/build", "sh", "-e", text=text, deadline=300)


@pytest.fixture
def building(fresh: Machine, packages: Packages) -> Machine:
    """A machine whose folder /build contains the package, a configuration and a recording."""
    fresh.run("mkdir", "/build")
    fresh.run("mv", fresh.put(packages.current), f"/build/{packages.current.name}")
    fresh.write("/build/60-hardware.toml", CONFIG)
    fresh.run("mv", fresh.put(ROOT / "conf/examples/tour/machine.json"), "/build/model.json")
    return fresh


def test_the_script_builds_an_image(building: Machine) -> None:
    """The script installs the package, checks the configuration on the recording, and enables the service."""
    in_build(building, commands("apt-get install"))
    assert (building.active, building.enabled) == AS_IN_AN_IMAGE
    in_build(building, commands("capacityd config check --config"))
    building.run("systemctl", "preset-all")
    assert building.enabled == "disabled", "the package itself does not enable the service"
    in_build(building, commands("mkdir -p /usr/lib/systemd/system-preset"))
    assert building.enabled == "enabled"
    check, probe = (shlex.split(line) for line in commands("capacityd config check --config").splitlines())
    building.write("/build/60-hardware.toml", CONFIG + "expect = 100\n")
    building.run("env", "-C", "/build", *check)
    building.run("env", "-C", "/build", *probe, status=4)
    building.write("/build/60-hardware.toml", CONFIG + "unknown = 1\n")
    building.run("env", "-C", "/build", *check, status=2)


def test_the_loop_installs_a_node(building: Machine) -> None:
    """The machine plays the part of each node. The loop can be run again."""
    building.write("/usr/bin/scp", '#!/bin/sh\nwhile [ $# -gt 1 ]; do cp "$1" /root/; shift; done\n', "755")
    building.write("/usr/bin/ssh", '#!/bin/sh\nshift; cd /root; exec "$@"\n', "755")
    building.write("/build/node.sh", NAMED["node.sh"].replace("apt-get update\n", ""))  # this machine has no network
    for _ in range(2):
        in_build(building, commands("for node"))
        building.wait_for_readings({"example.com/dongle": "absent"})
        wait_until(lambda: building.active == "active", PATIENCE, "it is started, and then reloaded")
        assert building.enabled == "enabled"


def test_the_packer_template_builds_an_image(building: Machine, packages: Packages) -> None:
    """Packer does not run; the test copies the files and runs the commands of its template."""
    template = NAMED["capacityd.pkr.hcl"]
    building.run("mv", f"/build/{packages.current.name}", "/tmp/capacityd.deb")
    building.run("mv", "/build/60-hardware.toml", "/tmp/60-hardware.toml")
    (inline,) = re.findall(r"inline = \[\n(.*?)\n    \]", template, re.DOTALL)
    for line in json.loads(f"[{inline.rstrip(',')}]"):
        # This machine has no network for updating the package lists, and no user but root.
        if "apt-get update" not in line:
            building.run("sh", "-e", text=line.removeprefix("sudo "), deadline=300)
    assert (building.active, building.enabled) == AS_IN_AN_IMAGE


def test_the_cluster_api_template_starts_a_node(fresh: Machine, packages: Packages) -> None:
    """The test writes the files and runs the commands, in place of cloud-init. tests/cluster checks the schema."""
    fresh.install(packages.current)
    spec = yaml.safe_load(NAMED["template.yaml"])["spec"]["template"]["spec"]
    for file in spec["files"]:
        fresh.write(file["path"], file["content"], file["permissions"])
    for command in spec["preKubeadmCommands"]:
        fresh.run("sh", "-e", text=command)
    fresh.wait_for_readings({"example.com/dongle": "absent"})
    assert (fresh.active, fresh.enabled) == ("active", "enabled")


def test_a_clone_of_a_machine_that_has_run_remembers_no_key(fresh: Machine, packages: Packages) -> None:
    """On the clone's Node, the same key belongs to another writer. The clone leaves it alone."""
    fresh.install(packages.current)
    publish_seats(fresh)
    wait_until(lambda: published(fresh, "example.com/seats") == "7", PATIENCE, "it has published")
    fresh.run("sh", "-e", text=commands("systemctl stop capacityd"))
    assert fresh.enabled == "enabled"
    node = json.loads(fresh.out("cat", "/etc/capacityd/node.json"))
    node["metadata"]["uid"] = "u-2"
    node["metadata"].pop("annotations", None)
    node["status"] |= {key: {"cpu": "4", "example.com/seats": "7"} for key in ("capacity", "allocatable")}
    fresh.write("/etc/capacityd/node.json", json.dumps(node))
    fresh.run("systemctl", "start", "capacityd")
    fresh.wait_for_readings({"example.com/seats": 7})
    assert "not published by capacityd; adopt = true takes it over" in fresh.run("capacityd", "status", status=4).stdout
    fresh.write("/srv/seats", "9\n")
    fresh.wait_for_readings({"example.com/seats": 9})
    assert published(fresh, "example.com/seats") == "7"
