"""What people met with other clients of a cluster. tests/reports.md lists the reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from capacityd.cli.fleet.assess import FleetReport, ResourceSummary
from capacityd.cli.fleet.metrics import metrics_text
from capacityd.node import kubelet_kubeconfig
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.fleet_file import read_fleet_file
from tests.unit.node.test_fleet_file import node, saved
from tests.unit.node.test_node_list import LABEL


@pytest.mark.parametrize(
    ("kubeconfig", "files", "exists", "named"),
    [
        ("/etc/kubernetes/kubelet.conf", (), True, True),
        ("/etc/kubernetes/kubelet.conf", (), False, False),
        ("/etc/kubernetes/kubelet.conf", ("pem",), True, False),
        ("/root/.kube/config", (), True, False),
    ],
)
def test_the_kubelets_renewed_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kubeconfig: str, files: tuple[str, ...], exists: bool, named: bool
) -> None:
    """A kubelet uses it even if its kubeconfig contains the first one, which has expired."""
    pem = tmp_path / "kubelet-client-current.pem"
    if exists:
        pem.touch()
    monkeypatch.setattr(kubelet_kubeconfig, "_RENEWED", str(pem))
    access = ClusterAccess(kubeconfig, "https://192.0.2.1", certificate="x", files=tuple(str(pem) for _ in files))
    assert (f"the kubelet uses the certificate in {pem}" in kubelet_kubeconfig.credentials_advice(access)) is named


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_list_that_powershell_has_saved(tmp_path: Path, encoding: str) -> None:
    """Its > writes UTF-16, its Out-File UTF-8 with a byte order mark."""
    path = Path(saved(tmp_path, {"kind": "List", "items": [node("knoten-ä")]}))
    path.write_bytes(path.read_text().encode(encoding))
    assert [n.name for n in read_fleet_file(str(path), LABEL).nodes] == ["knoten-ä"]


def test_metrics_of_two_fleets_for_one_exporter() -> None:
    """It rejects a series that it has read from another file, and a metric whose help differs."""
    report = FleetReport(1, (ResourceSummary("example.com/dongle", 1, 4, 4, 4, requested=3, free=1, waiting=0),), ())
    files = [metrics_text(report, context).decode().splitlines() for context in ("prod", "test")]
    series = [line.rpartition(" ")[0] for file in files for line in file if not line.startswith("#")]
    assert len(series) == len({*series})
    comments = [{line for line in file if line.startswith("#")} for file in files]
    assert comments[0] == comments[1]
