"""The command `template`: the document in each autoscaler's notation, and what the command refuses to print."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from capacityd.model.quantity import name_problem
from kubectl_capacityd.__main__ import run
from kubectl_capacityd.template.notations import NOTATIONS, problems
from tests.support.machines import bare, errors, merge, usb_device, usb_path
from tests.support.terminals import executed

DONGLE, SEATS = "example.com/dongle", "example.com/seats"
CONFIG = f"""
[resources."{DONGLE}"]
usb = {{ vendor = "0403" }}
[resources."{SEATS}"]
static = {{ quantity = 25000 }}
[resources."example.com/absent"]
usb = {{ vendor = "1d6b", product = "ffff" }}
"""
AWS = "k8s.io/cluster-autoscaler/node-template/resources/"
AZURE = "k8s.io_cluster-autoscaler_node-template_resources_"
GKE = "clusterautoscaler-nodetemplate-resources."


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a recording of a machine with two dongles, and a configuration."""
    (tmp_path / "m.json").write_text(json.dumps(merge(bare(), usb_device("1-1"), usb_device("1-2"))))
    (tmp_path / "c.toml").write_text(CONFIG)
    return tmp_path


def template(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Runs `template` with the folder's recording and configuration. Returns exit status, output and errors."""
    return executed(run, "template", *arguments, f"--machine={folder}/m.json", f"--config={folder}/c.toml")


@pytest.mark.parametrize(
    ("arguments", "document"),
    [
        (["aws"], {AWS + DONGLE: "2", AWS + SEATS: "25000"}),
        (["azure"], {f"{AZURE}example.com_dongle": "2", f"{AZURE}example.com_seats": "25000"}),
        (["gke"], {GKE + DONGLE: "2", GKE + SEATS: "25000"}),
        (
            ["cluster-api", "--resource", DONGLE],
            {
                "capacity.cluster-autoscaler.kubernetes.io/gpu-type": DONGLE,
                "capacity.cluster-autoscaler.kubernetes.io/gpu-count": "2",
            },
        ),
        (["cluster-api-template"], {"status": {"capacity": {DONGLE: "2", SEATS: "25000"}}}),
        (["gardener"], {"nodeTemplate": {"virtualCapacity": {DONGLE: "2", SEATS: "25000"}}}),
        (
            ["karpenter", "--name", "no", "--instance-type", "true", "--instance-type", "1.10"],
            {
                "apiVersion": "karpenter.sh/v1alpha1",
                "kind": "NodeOverlay",
                "metadata": {"name": "no"},
                "spec": {
                    "requirements": [
                        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["true", "1.10"]}
                    ],
                    "capacity": {DONGLE: "2", SEATS: "25000"},
                },
            },
        ),
    ],
)
def test_each_notation_has_its_document(files: Path, arguments: list[str], document: dict[str, Any]) -> None:
    status, out, err = template(files, *arguments)
    assert (status, yaml.safe_load(out), err) == (0, document, "")
    assert re.match(rf"# {arguments[0]}: .*\n# .* the configuration [0-9a-f]{{12}}\n", out)


# The longest domain that the name of a resource can have.
LONG = f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 52}"


@pytest.mark.parametrize(
    ("notation", "names", "problem"),
    [
        ("aws", [f"example.com/{'x' * 63}"], ""),
        ("aws", [f"{'d' * 60}.example/{'x' * 63}"], "is 132 characters long; the limit is 78"),
        ("azure", ["example.com/nic_mbps"], 'example.com/nic_mbps contains "_"'),
        ("azure", [f"{LONG}/{'x' * 63}"], ""),
        ("aws", [f"example.com/r{n}" for n in range(50)], ""),
        ("aws", [f"example.com/r{n}" for n in range(51)], "it supports at most 50 extended resources, not 51"),
        ("gke", [f"example.com/r{n}" for n in range(60)], ""),
        ("cluster-api", [DONGLE, SEATS], "it supports at most 1 extended resource, not 2: choose with --resource"),
    ],
)
def test_a_notation_that_cannot_carry_a_name_says_so(notation: str, names: list[str], problem: str) -> None:
    assert all(name_problem(name) == "" for name in names)
    refused = [*problems(NOTATIONS[notation], names)]
    assert bool(refused) is bool(problem)
    assert problem in "".join(refused)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["karpenter"], "karpenter requires the machine's instance type: --instance-type"),
        (["aws", "--instance-type", "a"], "aws does not use instance types: leave out --instance-type"),
        (["aws", "--node-file", "n.json"], "-l and --by select Nodes: add --nodes"),
        (["aws", "-l", "pool=a"], "-l and --by select Nodes: add --nodes"),
        (["aws", "--resource", "example.com/x"], 'no resource "example.com/x" is configured; must be one of'),
    ],
)
def test_an_error_prints_no_document(files: Path, arguments: list[str], message: str) -> None:
    status, out, err = template(files, *arguments)
    assert (status, out) == (2, "")
    assert message in err


def test_an_unknown_resource_is_left_out(files: Path) -> None:
    unreadable = errors({f"{usb_path('1-1')}/idVendor": "EIO"})
    (files / "m.json").write_text(json.dumps(merge(bare(), usb_device("1-1"), unreadable)))
    status, out, err = template(files, "aws")
    assert (status, yaml.safe_load(out)) == (4, {AWS + SEATS: "25000"})
    assert f"{DONGLE} is left out: unknown: " in err


def test_a_name_of_a_device_plugin_is_left_out(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubectl_capacityd.commands.template.device_plugin_names", lambda _: frozenset([DONGLE]))
    status, out, err = template(files, "aws")
    assert (status, yaml.safe_load(out)) == (4, {AWS + SEATS: "25000"})
    assert f"{DONGLE} is left out: refused: a device plugin has this name" in err


def test_without_a_resource_no_document_is_printed(files: Path) -> None:
    status, out, err = template(files, "aws", "--resource", "example.com/absent")
    assert (status, out) == (0, "")
    assert "none of the configured resources" in err


def test_without_a_configuration_it_is_an_error_with_one_message(files: Path) -> None:
    (files / "c.toml").write_text("# nothing\n")
    status, out, err = template(files, "aws")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"capacityd: no resource is configured in {files}/c.toml; ")


def test_a_resource_for_certain_nodes_needs_the_name_of_the_node(files: Path) -> None:
    """A recording does not contain the name of its machine's Node."""
    (files / "c.toml").write_text(
        f'[resources."{SEATS}"]\nstatic = {{ quantity = 1 }}\nwhen = {{ node_name = "gpu-*" }}\n'
    )
    status, _, err = template(files, "aws")
    assert status == 4
    assert f"{SEATS} is left out: unknown: when: node_name: the Node's name is not known" in err
    _, out, _ = template(files, "aws", "--node-name=gpu-1")
    assert yaml.safe_load(out) == {AWS + SEATS: "1"}
    status, out, _ = template(files, "aws", "--node-name=cpu-1")
    assert (status, out) == (0, "")
