"""The command `template --nodes`: what the Nodes of a group have in common, and what it warns about."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import MagicMock

import pytest
import yaml

from kubectl_capacityd.__main__ import run
from kubectl_capacityd.commands import source
from kubectl_capacityd.model import Fleet, NodeSummary
from tests.support.terminals import executed
from tests.unit.kubectl.test_assess import DONGLE, SEATS, node

AWS = "k8s.io/cluster-autoscaler/node-template/resources/"

GiveNodes = Callable[..., MagicMock]


@pytest.fixture
def give_nodes(monkeypatch: pytest.MonkeyPatch) -> GiveNodes:
    """A function that makes read_fleet() give these Nodes, and returns the mock of read_fleet()."""

    def give_nodes(*nodes: NodeSummary) -> MagicMock:
        read_fleet = MagicMock(return_value=Fleet(nodes))
        monkeypatch.setattr(source, "read_fleet", read_fleet)
        monkeypatch.setattr(source, "load_operators", lambda kubeconfig, context: (kubeconfig, context))
        return read_fleet

    return give_nodes


def template(*arguments: str) -> tuple[int, str, list[str]]:
    """Runs `template --nodes`. Returns the exit status, the output, and the lines of standard error."""
    status, out, err = executed(run, "template", "--nodes", *arguments)
    return status, out, err.splitlines()


def publishing(name: str, **numbers: int) -> NodeSummary:
    """A Node that publishes these numbers, such as dongle=4."""
    return node(name, published={f"example.com/{key}": number for key, number in numbers.items()})


def test_nodes_that_are_alike_have_one_document(give_nodes: GiveNodes) -> None:
    read_fleet = give_nodes(publishing("n1", dongle=4, seats=25_000), publishing("n2", dongle=4, seats=25_000))
    assert template("aws", "--context", "prod", "-l", "pool=a") == (
        0,
        "# aws: tags of the Auto Scaling group or EKS node group\n"
        "# the resources that capacityd publishes on 2 Nodes\n"
        f'{AWS}{DONGLE}: "4"\n{AWS}{SEATS}: "25000"\n',
        [],
    )
    read_fleet.assert_called_once_with((None, "prod"), source.INSTANCE_TYPE, "pool=a", only_nodes=True)


ZEROED = node("n3", 5, capacity={DONGLE: 0})
"""The published number counts, because a kubelet may have set the capacity to 0 for a moment."""


@pytest.mark.parametrize(
    ("nodes", "status", "warnings"),
    [
        ([node("n1", 4), node("n2", 3), ZEROED, node("n4", 3)], 0, [f"{DONGLE} is 3 on n2, n4, but 4 on n1, 5 on n3"]),
        (
            [publishing("n1", dongle=3, seats=1), publishing("n2", dongle=3), NodeSummary("bare", ready=True)],
            4,
            ["1 Node without capacityd: bare", f"{SEATS} is left out: 1 of 2 Nodes do not publish it: n2"],
        ),
        (
            [node("n1", 3), node("n2", None, annotation_error="it is not a JSON object")],
            4,
            ["n2 is left out: the annotation capacityd/published can't be read: it is not a JSON object"],
        ),
    ],
)
def test_what_all_nodes_have_is_printed_and_each_difference_is_a_warning(
    give_nodes: GiveNodes, nodes: list[NodeSummary], status: int, warnings: list[str]
) -> None:
    give_nodes(*nodes)
    found_status, document, errors = template("aws")
    assert (found_status, yaml.safe_load(document)) == (status, {AWS + DONGLE: "3"})
    assert errors == [f"capacityd: {warning}" for warning in warnings]


def test_each_group_has_a_document(give_nodes: GiveNodes) -> None:
    m6 = [node(name, number, label_value="M6.x") for name, number in (("n2", 8), ("n3", 7))]
    give_nodes(node("n1", 4), *m6, node("n4", label_value=None))
    status, out, warnings = template("karpenter", "--by", "pool", "--name", "hw")
    first, second = yaml.safe_load_all(out)
    assert (status, first["metadata"]["name"], second["metadata"]["name"]) == (0, "hw-m6-x", "hw-m5")
    assert first["spec"] == {
        "requirements": [{"key": "pool", "operator": "In", "values": ["M6.x"]}],
        "capacity": {DONGLE: "7"},
    }
    assert second["spec"]["capacity"] == {DONGLE: "4"}
    assert "# the resources that capacityd publishes on 2 Nodes with pool=M6.x\n" in out
    assert warnings == [
        "capacityd: n4 is left out: it has no label pool",
        f"capacityd: pool=M6.x: {DONGLE} is 7 on n3, but 8 on n2",
    ]


def test_given_instance_types_become_requirements(give_nodes: GiveNodes) -> None:
    give_nodes(node("n1", 4))
    _, out, _ = template("karpenter", "--instance-type", "m5", "--instance-type", "m6")
    document = yaml.safe_load(out)
    assert document["metadata"]["name"] == "capacityd"
    assert document["spec"]["requirements"] == [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5", "m6"]}
    ]


def test_one_resource_of_several_can_be_chosen(give_nodes: GiveNodes) -> None:
    give_nodes(publishing("n1", dongle=4, seats=1), publishing("n2", dongle=4))
    status, out, warnings = template("cluster-api", "--resource", DONGLE)
    assert (status, warnings) == (0, [])
    assert yaml.safe_load(out)["capacity.cluster-autoscaler.kubernetes.io/gpu-type"] == DONGLE


@pytest.mark.parametrize(
    ("arguments", "nodes", "status", "message"),
    [
        ("aws", [], 1, "the cluster has no Nodes"),
        ("aws -l pool=x", [], 1, "no Node matches -l pool=x"),
        ("aws --by pool", [node(label_value=None)], 2, 'no Node has the label "pool" (--by)'),
        ("aws", [NodeSummary("n1"), node("n2", None)], 1, "capacityd publishes nothing on these Nodes"),
        ("aws --resource example.com/x", [node()], 2, 'none of these Nodes publishes "example.com/x"'),
        ("karpenter", [], 2, "karpenter requires what the NodeOverlay is about: --by LABEL, such as karpenter.sh"),
        ("karpenter --by a --instance-type b", [], 2, "leave out --instance-type"),
        ("aws --instance-type b", [], 2, "aws does not use instance types: leave out --instance-type"),
        ("aws --machine m", [], 2, "--nodes reads the Nodes of a cluster: leave out --config, --machine"),
        ("aws --node-file n -l a", [], 2, "-l needs a cluster"),
        ("azure", [publishing("n1", a_b=1)], 2, 'azure: example.com/a_b contains "_"'),
    ],
)
def test_an_error_prints_no_document(
    give_nodes: GiveNodes, arguments: str, nodes: list[NodeSummary], status: int, message: str
) -> None:
    give_nodes(*nodes)
    found_status, out, errors = template(*arguments.split())
    assert (found_status, out) == (status, "")
    assert message in errors[-1]
