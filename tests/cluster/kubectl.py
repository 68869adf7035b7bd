"""kubectl on the test cluster, and other projects' CustomResourceDefinitions, from their Go modules."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.cluster.binaries import BuildError, find_go, run_go
from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE, wait_until
from tests.network import persistently

# The newest version on the module proxy.
PROMETHEUS_RULE = (
    "github.com/prometheus-operator/prometheus-operator@v0.88.0",
    "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
)
KUBEADM_CONFIG_TEMPLATE = (
    "sigs.k8s.io/cluster-api@v1.14.2",
    "bootstrap/kubeadm/config/crd/bases/bootstrap.cluster.x-k8s.io_kubeadmconfigtemplates.yaml",
)
DOCKER_MACHINE_TEMPLATE = (
    "sigs.k8s.io/cluster-api/test@v1.14.2",
    "infrastructure/docker/config/crd/bases/infrastructure.cluster.x-k8s.io_dockermachinetemplates.yaml",
)


def kubectl(
    cluster: Cluster, kubeconfig: Path, *arguments: str | Path, body: object = None
) -> subprocess.CompletedProcess[str]:
    """Runs kubectl until it ends, with any exit status. body: for its standard input, as JSON."""
    return subprocess.run(
        [cluster.binaries["kubectl"], f"--kubeconfig={kubeconfig}", *arguments],
        input=json.dumps(body),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        # A separate home folder, for kubectl's cache. `kubectl diff` runs diff.
        env={"HOME": str(cluster.folder), "PATH": os.environ["PATH"]},
    )


def apply_crd(cluster: Cluster, kubeconfig: Path, module: str, path: str) -> Path:
    """Applies a file or folder of definitions, waits until the kinds are served, and returns its path in Go's cache."""
    output = persistently(lambda: run_go(find_go(), "mod", "download", "-json", module), BuildError)
    file = Path(json.loads(output)["Dir"], path)
    applied = kubectl(cluster, kubeconfig, "apply", "--server-side", "-f", file)
    assert applied.returncode == 0, applied.stderr
    established = ("wait", "--for=condition=Established", "-f", file)
    wait_until(lambda: kubectl(cluster, kubeconfig, *established).returncode == 0, PATIENCE, f"{path} is served")
    return file
