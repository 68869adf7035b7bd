"""kubectl on the test cluster."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE


def kubectl(
    cluster: Cluster, kubeconfig: Path, *arguments: str | Path, body: object = None
) -> subprocess.CompletedProcess[str]:
    """Runs it to its end, with whatever exit status. body: its standard input, as JSON."""
    return subprocess.run(
        [cluster.binaries["kubectl"], f"--kubeconfig={kubeconfig}", *arguments],
        input=json.dumps(body),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        # A separate home folder, for kubectl's cache.
        env={"HOME": str(cluster.folder)},
    )
