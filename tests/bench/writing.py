"""What it takes to write to the Node, on the real API server: by capacityd, and by the least that the client can do."""

from __future__ import annotations

from pathlib import Path

from tests.bench.measure import Run, capacityd, in_turn
from tests.cluster.agent import PYTHON
from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.credentials import node_user

# It writes something else each time, as apply does: what changes nothing is less work for all.
_SCRIPT = """\
import sys, time
from kubernetes import client, config
config.load_kube_config(sys.argv[1])
core = client.CoreV1Api()
node = core.read_node(sys.argv[2])
core.patch_node_status(
    sys.argv[2], [{"op": "add", "path": "/status/capacity/example.com~1bare", "value": str(time.time_ns() % 10**9)}]
)
"""
_RESOURCE = '[resources."example.com/seats"]\nstatic = {{ quantity = {} }}\n'


def applying(rounds: int) -> tuple[list[Run], list[Run]]:
    """The runs of apply, each of which writes, and those of the script."""
    with control_plane() as cluster:
        node = cluster.create_node()
        folder = cluster.folder / "bench"
        folder.mkdir()
        applies: list[Run] = []
        scripts: list[Run] = []
        for quantity in range(1, rounds + 1):
            first, second = _pair(cluster, node, folder, quantity)
            applies += first
            scripts += second
        return applies, scripts


def _pair(cluster: Cluster, node: str, folder: Path, quantity: int) -> tuple[list[Run], list[Run]]:
    """One of each, with something to write."""
    config, kubeconfig = folder / "capacityd.toml", cluster.kubeconfig(node_user(node), folder / "kubeconfig")
    config.write_text(_RESOURCE.format(quantity))
    apply = capacityd("apply", "--config", config, "--kubeconfig", kubeconfig)
    script: list[str | Path] = [PYTHON, "-I", "-c", _SCRIPT, kubeconfig, node]
    [first, second] = in_turn(
        [apply, script], 1, {"RUNTIME_DIRECTORY": str(folder), "STATE_DIRECTORY": str(folder)}, warm=False
    )
    assert cluster.capacity(node)["example.com/seats"] == str(quantity), "it has written"
    return first, second
