"""Builds Karpenter with its provider kwok once, from its Go module, and runs it beside a control plane.

kwok is a provider without machines: it creates the Node of a NodeClaim, but nothing runs on that Node. Run as a
command, this module builds the program, prints progress to standard error, and prints the program's path.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.binaries import BuildError, Programs, Source, cache_folder
from tests.cluster.controlplane import Cluster
from tests.cluster.kubectl import apply_crd
from tests.cluster.processes import Daemon, free_port

_FOLDER = Path(__file__).with_name("karpenter")
_MODULE = "sigs.k8s.io/karpenter"


def program() -> Path:
    """The program's path. Builds the program if it is missing. Raises BuildError."""
    source = Source(_FOLDER, _version(), packages={"karpenter": f"{_MODULE}/kwok"})
    return Programs(cache_folder(_FOLDER, "karpenter"), lambda: source, ["karpenter"])["karpenter"]


def _version() -> str:
    match = re.search(rf"{_MODULE} v(\S+)", (_FOLDER / "go.mod").read_text())
    assert match is not None
    return match[1]


@contextmanager
def karpenter(cluster: Cluster) -> Iterator[Daemon]:
    """Creates Karpenter's CustomResourceDefinitions, and runs Karpenter."""
    built = program()
    for definitions in ("pkg/apis/crds", "kwok/apis/crds"):
        apply_crd(cluster, f"{_MODULE}@v{_version()}", definitions)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(cluster.folder),
        "KUBECONFIG": str(cluster.admin_kubeconfig),
        "SYSTEM_NAMESPACE": "default",
        "CLUSTER_NAME": "tests",
        "FEATURE_GATES": "NodeOverlay=true",
        "DISABLE_LEADER_ELECTION": "true",
        "METRICS_PORT": str(free_port()),
        "HEALTH_PROBE_PORT": str(free_port()),
    }
    with Daemon([built], cluster.folder / "karpenter.log", env=environment) as daemon:
        yield daemon


if __name__ == "__main__":
    try:
        print(program())
    except BuildError as error:
        sys.exit(f"Karpenter: {error}")
