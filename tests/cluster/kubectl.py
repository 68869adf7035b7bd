"""kubectl as the administrator of the test cluster: manifests, and other projects' CustomResourceDefinitions."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.binaries import BuildError, find_go, run_go
from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE, wait_until
from tests.network import persistently

# Definitions of kinds, each as the Go module and the path of a file in it: the newest versions on the module proxy.
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


def kubectl(cluster: Cluster, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs kubectl. Any exit status is accepted."""
    return subprocess.run(
        [cluster.binaries["kubectl"], f"--kubeconfig={cluster.admin_kubeconfig}", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        # A separate home folder, for kubectl's cache. `kubectl diff` runs diff.
        env={"HOME": str(cluster.folder), "PATH": os.environ["PATH"]},
    )


def succeed(cluster: Cluster, *arguments: str | Path) -> str:
    """Runs kubectl, which must succeed. Returns its output."""
    done = kubectl(cluster, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def applied(cluster: Cluster, manifest: Path, in_force: Callable[[], object]) -> Iterator[None]:
    """Applies a policy until the context ends. in_force: a function that returns whether the API server uses it."""
    succeed(cluster, "apply", "-f", manifest)
    wait_until(in_force, PATIENCE, f"{manifest.name} is in force")
    yield
    succeed(cluster, "delete", "-f", manifest)
    wait_until(lambda: not in_force(), PATIENCE, f"{manifest.name} is not in force any more")


def apply_crd(cluster: Cluster, module: str, path: str) -> Path:
    """Applies a file or folder of definitions, waits until the kinds are served, and returns its path in Go's cache."""
    output = persistently(lambda: run_go(find_go(), "mod", "download", "-json", module), BuildError)
    file = Path(json.loads(output)["Dir"], path)
    succeed(cluster, "apply", "--server-side", "-f", file)
    established = ("wait", "--for=condition=Established", "-f", file)
    wait_until(lambda: kubectl(cluster, *established).returncode == 0, PATIENCE, f"{path} is served")
    return file
