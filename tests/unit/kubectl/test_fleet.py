"""The command `fleet`: options, output, exit statuses. The Nodes are made up. tests/cluster uses real Nodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from prometheus_client.parser import text_string_to_metric_families

from capacityd.model.errors import NodeUnauthorized, NodeUnreachable
from capacityd.model.node import CONDITION, Condition
from kubectl_capacityd.__main__ import run
from kubectl_capacityd.commands import fleet as command
from kubectl_capacityd.commands import source
from kubectl_capacityd.commands.source import INSTANCE_TYPE
from kubectl_capacityd.model import Fleet, NodeSummary, PodRequests
from tests.support.terminals import executed
from tests.unit.kubectl.test_assess import DONGLE, NOW, REFUSED, group, node

ODD = node("odd", 3)
REFUSING = node("refusing", condition=replace(REFUSED, message="refused: example.com/x\x1b[31m"))

GiveFleets = Callable[..., MagicMock]


@pytest.fixture
def give_fleets(monkeypatch: pytest.MonkeyPatch) -> GiveFleets:
    """A function that makes read_fleet() give these results in turn, and returns the mock of read_fleet()."""

    def give_fleets(*results: Fleet | Exception) -> MagicMock:
        read_fleet = MagicMock(side_effect=results)
        monkeypatch.setattr(source, "read_fleet", read_fleet)
        monkeypatch.setattr(source, "load_operators", lambda kubeconfig, context: (kubeconfig, context))
        return read_fleet

    return give_fleets


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stops the clock of the command."""
    monkeypatch.setattr(command, "time", SimpleNamespace(time=lambda: NOW))


def fleet(*nodes: NodeSummary, requests: PodRequests | None = None) -> Fleet:
    """A fleet of five healthy Nodes and these Nodes."""
    return Fleet((*group(5), *nodes), requests=requests)


AS_OF = "(as of 2027-01-15 08:00:00 UTC)"


def test_a_healthy_fleet_exits_with_status_0(give_fleets: GiveFleets) -> None:
    read_fleet = give_fleets(fleet(NodeSummary("bare", ready=True)))
    status, out, err = executed(run, "fleet", "--nodes")
    read_fleet.assert_called_once_with((None, None), INSTANCE_TYPE, "", only_nodes=False)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[:5] == [
        f"6 Nodes, none needs attention {AS_OF}",
        "",
        "RESOURCE            NODES  USUAL  CAPACITY  ALLOCATABLE  REQUESTED  FREE  WAITING",
        "example.com/dongle  5      4      20        20           -          -     -",
        'requested and free are not known: this needs the right to "list" "pods"',
    ]
    assert ["NODE", "STATUS", "RESOURCE", "CAPACITY", "ALLOCATABLE", "REQUESTED", "FREE"] in map(str.split, lines)
    assert [line.split() for line in lines[-2:]] == [
        ["n4", "Unknown", DONGLE, "4", "4", "-", "-"],
        ["bare", "Ready", "-", "-", "-", "-", "-"],
    ]


def test_findings_are_listed_and_exit_with_status_4(give_fleets: GiveFleets) -> None:
    several = Fleet((*fleet(ODD, REFUSING).nodes, *group(3, label_value="m6")), {DONGLE: ("dongles",)})
    read_fleet = give_fleets(several, several)
    options = ("-l", "pool=a", "--by", "pool", "--kubeconfig", "file", "--context", "prod")
    status, out, _ = executed(run, "fleet", *options)
    read_fleet.assert_called_once_with(("file", "prod"), "pool", "pool=a", only_nodes=False)
    lines = out.splitlines()
    assert status == 4
    assert lines[:2] == [f"10 Nodes, 2 need attention {AS_OF}", "1 DeviceClass, 1 Refused, 1 QuantityDiffers"]
    clash = "the DeviceClass dongles also serves example.com/dongle (extendedResourceName)"
    assert lines[-4:] == [
        "   REASON           SINCE  NOTREADY  CORDONED  NODES      MESSAGE",
        f"!  DeviceClass      -      -         -         (cluster)  {clash}",
        r"!  Refused          -      -         -         refusing   refused: example.com/x\x1b[31m",
        "~  QuantityDiffers  -      -         -         odd        example.com/dongle is 3, 6 of 7 Nodes of m5 have 4",
    ]
    status, out, _ = executed(run, "fleet", "--by", "pool", "--json")
    report = json.loads(out)
    assert (status, report["nodes"], report["by_node"], report["as_of"]) == (4, 10, None, NOW)
    found = [(finding["node"], finding["reason"]) for finding in report["findings"]]
    assert found == [(None, "DeviceClass"), ("refusing", "Refused"), ("odd", "QuantityDiffers")]


def test_equal_findings_are_one_line(give_fleets: GiveFleets) -> None:
    old = Condition("True", "Published", "", NOW - 4 * 3600)
    silent = [node(name, condition=old, ready=True, cordoned=name == "s1") for name in ("s0", "s1", "s2", "s3")]
    give_fleets(fleet(*silent), fleet(*silent))
    assert executed(run, "fleet", "--max-age", "5h")[0] == 0
    status, out, _ = executed(run, "fleet")
    assert status == 4
    assert out.splitlines()[-2:] == [
        "   REASON               SINCE  NOTREADY  CORDONED  NODES                  MESSAGE",
        "!  HeartbeatOverdue x4  4 h    -         1         s0, s1, s2 and 1 more  no heartbeat for more than 2 h",
    ]


def test_a_saved_list_replaces_the_cluster(tmp_path: Path) -> None:
    """The ages are relative to the time when the list was saved."""
    heartbeat = "2020-05-01T10:00:00Z"
    ours = {"type": CONDITION, "status": "True", "reason": "Published", "lastHeartbeatTime": heartbeat}
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}
    saved = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"conditions": [ours, ready]}}
    (tmp_path / "nodes.json").write_text(json.dumps({"kind": "List", "items": [saved]}))
    expected = "1 Node; capacityd publishes nothing (as of 2020-05-01 10:00:00 UTC)\n"
    assert executed(run, "fleet", "--node-file", f"{tmp_path}/nodes.json") == (0, expected, "")


def test_the_textfile_has_the_metrics_of_the_fleet(give_fleets: GiveFleets, tmp_path: Path) -> None:
    requests = PodRequests({"n0": {DONGLE: 3}}, {DONGLE: 2})
    give_fleets(replace(fleet(ODD, requests=requests), device_classes={DONGLE: ("dongles",)}), fleet())
    file = tmp_path / "fleet.prom"
    assert run(["fleet", "--textfile", str(file)]) == 4
    values = {}  # metric -> values of the labels -> value
    for family in text_string_to_metric_families(file.read_text()):
        of_family = {tuple(sample.labels.values()): sample.value for sample in family.samples}
        values[family.name.removeprefix("capacityd_fleet_")] = of_family
    found = {reason: number for (reason,), number in values.pop("findings").items() if number}
    assert found == {"DeviceClass": 1, "QuantityDiffers": 1}
    assert values == {
        "timestamp_seconds": {(): NOW},
        "resource_free": {(DONGLE,): 20},
        "resource_waiting": {(DONGLE,): 2},
    }
    assert run(["fleet", "--textfile", str(file)]) == 0
    assert "resource_free{" not in file.read_text(), "without the right to list pods"
    assert 'findings{reason="DeviceClass"} 0.0' in file.read_text()
    assert 'reason="Published"' not in file.read_text(), "such a Node is healthy"


@pytest.mark.parametrize(
    ("arguments", "result", "status", "message"),  # result: of read_fleet(); None: the command must not call it
    [
        ("", Fleet(()), 1, "the cluster has no Nodes"),
        ("-l pool=x", Fleet(()), 1, "no Node matches -l pool=x"),
        ("--by pool", Fleet((NodeSummary("n1"),)), 2, 'no Node has the label "pool" (--by)'),
        ("--max-age soon", None, 2, "--max-age must be a duration"),
        ("x", Fleet((NodeSummary("n1"),)), 1, 'no Node "x"'),
        ("x -l pool=x", Fleet((NodeSummary("n1"),)), 1, 'no Node "x" among those that match -l pool=x'),
        ("--textfile /nonexistent/x", fleet(), 1, "/nonexistent/x: could not be written: No such file"),
        ("--node-file x -l pool=x", None, 2, "-l needs a cluster"),
        ("--node-file x --kubeconfig y", None, 2, "leave out --kubeconfig and --context"),
        ("--node-file x --context y", None, 2, "leave out --kubeconfig and --context"),
        ("--node-file /nonexistent", None, 2, "/nonexistent cannot be read"),
        ("", NodeUnauthorized("who?\x1b"), 3, r"who?\x1b"),
        ("", NodeUnreachable("away"), 3, "away"),
    ],
)
def test_an_error_has_its_exit_status_and_message(
    give_fleets: GiveFleets, arguments: str, result: Fleet | Exception | None, status: int, message: str
) -> None:
    read_fleet = give_fleets(*[result] if result else [])
    found_status, out, err = executed(run, "fleet", *arguments.split())
    assert (found_status, out) == (status, "")
    assert read_fleet.call_count == (1 if result else 0)
    assert message in err


def test_fleet_does_not_use_the_kubelets_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any kubeconfig, the error names the operator's, and not the kubelet's."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr("capacityd.node.kubeconfig.find_kubelet_kubeconfig", lambda: pytest.fail("the kubelet's"))
    assert run(["fleet"]) == 3
