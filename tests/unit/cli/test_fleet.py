"""The command fleet: options, what it prints, exit statuses. The Nodes are made up; tests/cluster has real ones."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from capacityd.cli import run
from capacityd.cli.commands import fleet as command
from capacityd.cli.commands.fleet import INSTANCE_TYPE
from capacityd.cli.fleet.assess import Attention, FleetReport, ResourceSummary
from capacityd.model.errors import NodeDenied, NodeUnreachable
from capacityd.model.fleet import Fleet, NodeSummary
from tests import ROOT
from tests.unit.cli.test_assess import DONGLE, NOW, REFUSED, group, node

ODD = node("odd", 3)
REFUSING = node("refusing", condition=replace(REFUSED, message="refused: example.com/x\x1b[31m"))

Reads = Callable[..., MagicMock]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Has the API server return these, one after the other; returns the double that reads them."""

    def reads(*results: Fleet | Exception) -> MagicMock:
        double = MagicMock(side_effect=results)
        monkeypatch.setattr(command, "read_fleet", double)
        return double

    return reads


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time stands still; a pause after three is Ctrl-C. How long the pauses are."""
    found: list[float] = []
    took: Iterator[float] = iter([0.0, 0.1, 0.1, 2.1, 2.1, 2.1, 2.1, 2.1])

    def sleep(seconds: float) -> None:
        found.append(seconds)
        if len(found) == 4:
            raise KeyboardInterrupt

    still = SimpleNamespace(time=lambda: NOW, monotonic=lambda: next(took), sleep=sleep)
    monkeypatch.setattr(command, "time", still)
    return found


def fleet(*nodes: NodeSummary) -> Fleet:
    return Fleet((*group(5), *nodes))


def test_all_well(reads: Reads, capsys: pytest.CaptureFixture[str]) -> None:
    double = reads(fleet())
    assert run(["fleet"]) == 0
    assert double.call_args.args[:3] == (None, "", INSTANCE_TYPE)
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.splitlines() == [
        "5 Nodes, none needs attention",
        "",
        "RESOURCE            NODES  CAPACITY  ALLOCATABLE  USUAL",
        "example.com/dongle  5      20        20           4",
    ]


def test_some_need_attention(reads: Reads, capsys: pytest.CaptureFixture[str]) -> None:
    double = reads(Fleet((*fleet(ODD, REFUSING).nodes, *group(3, label="m6")), {DONGLE: ("dongles",)}))
    assert run(["fleet", "-l", "pool=a", "--by", "pool", "--kubeconfig", "file"]) == 4
    assert double.call_args.args[:3] == ("file", "pool=a", "pool")
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "NODE       REASON           MESSAGE",
        "(cluster)  DeviceClass      the DeviceClass dongles serves example.com/dongle, too (extendedResourceName)",
        "odd        QuantityDiffers  example.com/dongle is 3, 6 of 7 Nodes of m5 have 4",
        r"refusing   Refused          refused: example.com/x\x1b[31m",
    ]


def test_json(reads: Reads, capsys: pytest.CaptureFixture[str]) -> None:
    reads(fleet(ODD), fleet())
    assert run(["fleet", "--json"]) == 4
    assert json.loads(capsys.readouterr().out) == {
        "nodes": 6,
        "resources": [{"name": DONGLE, "nodes": 6, "capacity": 23, "allocatable": 23, "usual": 4}],
        "attention": [
            {
                "node": "odd",
                "reasons": ["QuantityDiffers"],
                "message": "example.com/dongle is 3, 5 of 6 Nodes of m5 have 4",
            }
        ],
    }
    assert run(["fleet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["attention"] == []


def test_the_reference_knows_every_key_of_the_json() -> None:
    reference = (ROOT / "docs/reference.md").read_text()
    (described,) = re.findall(r"^- `fleet --json`: (.*)$", reference, re.MULTILINE)
    keys = {field.name for kind in (FleetReport, ResourceSummary, Attention) for field in fields(kind)}
    assert {key for key in keys if f"`{key}`" not in described} == set()


def test_max_age(reads: Reads) -> None:
    hour_ago = replace(node().condition, heartbeat=NOW - 3600)  # type: ignore[type-var]
    reads(*[fleet(node(condition=hour_ago))] * 2)
    assert run(["fleet"]) == 0
    assert run(["fleet", "--max-age", "59min"]) == 4


def test_where_nothing_is_published(reads: Reads, capsys: pytest.CaptureFixture[str]) -> None:
    reads(Fleet((NodeSummary("n1"),)))
    assert run(["fleet"]) == 0
    assert capsys.readouterr().out == "1 Node; capacityd publishes nothing\n"


@pytest.mark.parametrize(
    ("arguments", "found", "status", "message"),
    [
        ([], Fleet(()), 1, "the cluster has no Nodes"),
        (["-l", "pool=x"], Fleet(()), 1, "no Node matches -l pool=x"),
        (["--by", "pool"], Fleet((NodeSummary("n1"),)), 2, 'no Node has the label "pool" (--by)'),
        (["--max-age", "soon"], None, 2, "--max-age must be a duration"),
        (["--machine", "x", "--node-name", "n1"], None, 2, "leave out --machine and --node-name"),
        ([], NodeDenied("who?\x1b"), 3, r"who?\x1b"),
        ([], NodeUnreachable("away"), 3, "away"),
    ],
)
def test_errors(
    reads: Reads,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    found: Fleet | Exception | None,
    status: int,
    message: str,
) -> None:
    double = reads(*[found] if found else [])
    assert run(["fleet", *arguments]) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert double.call_count == (found is not None)


def test_watch_prints_what_changed(reads: Reads, capsys: pytest.CaptureFixture[str], pauses: list[float]) -> None:
    reads(fleet(), fleet(), NodeUnreachable("away"), fleet(ODD))
    assert run(["fleet", "--watch"]) == 130
    captured = capsys.readouterr()
    assert [line for line in captured.out.splitlines() if "attention" in line] == [
        "5 Nodes, none needs attention",
        "6 Nodes, 1 needs attention",
    ]
    assert captured.err == "capacityd: away\n"
    assert pauses == [10.0, 40.0, 10.0, 10.0], "a list that takes long is repeated less often"


def test_watch_prints_a_json_document_for_each_change(reads: Reads, capsys: pytest.CaptureFixture[str]) -> None:
    reads(fleet(), fleet(ODD), fleet(ODD), fleet())
    assert run(["fleet", "--watch", "--json"]) == 130
    text, documents = capsys.readouterr().out, []
    while text.strip():
        document, end = json.JSONDecoder().raw_decode(text)
        documents.append(len(document["attention"]))
        text = text[end:].lstrip()
    assert documents == [0, 1, 0]


def test_watch_ends_when_access_is_denied(reads: Reads, capsys: pytest.CaptureFixture[str]) -> None:
    reads(fleet(), NodeDenied("no"))
    assert run(["fleet", "--watch"]) == 3
    assert capsys.readouterr().err == "capacityd: no\n"


def test_it_needs_neither_a_service_nor_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the kubeconfig that it needs; the kubelet's are not searched."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr("capacityd.node.kubeconfig.first_path", lambda: pytest.fail("the kubelet's"))
    assert run(["fleet"]) == 3
