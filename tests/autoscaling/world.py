"""Where the page on Karpenter runs: Karpenter, and a kubelet and a machine with dongles for each of its Nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.autoscaling.karpenter import karpenter
from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.credentials import node_user
from tests.cluster.docs import Shell
from tests.cluster.kubelet import Kubelet, kubelet
from tests.cluster.processes import PATIENCE, Daemon, wait_until
from tests.cluster.service import service_on_machine
from tests.support.tour import MACHINE


class KarpenterWorld:
    """A user with kubectl, a recording of a machine with four dongles, and the machines that Karpenter asks for."""

    def __init__(self, cluster: Cluster, program: Daemon, stack: ExitStack) -> None:
        self._cluster = cluster
        self._program = program
        self._stack = stack
        self._shell = Shell(cluster, cluster.folder / "world")
        self._kubelets: list[Kubelet] = []
        self._shell.file("m-8x.json", MACHINE.read_text())
        self.file, self.run = self._shell.file, self._shell.run

    def directive(self, *words: str) -> None:
        """Does what a comment <!-- docs: WORDS --> of the page asks for."""
        match words:
            case ["kubelet"]:
                self._start_kubelet()
            case ["capacityd"]:
                self._publish()
            case _:
                raise ValueError(f"<!-- docs: {' '.join(words)} --> is unknown here")

    def _start_kubelet(self) -> None:
        """Starts the kubelet of a Node that has none yet.

        kwok creates a Node that already has the resources that the pods request. A real Node has no extended resources
        when it is new, so this method removes them.
        """
        started = {running.name for running in self._kubelets}

        def new_node() -> str:
            names = [node["metadata"]["name"] for node in self._cluster.admin.get("/api/v1/nodes")["items"]]
            return next((name for name in names if name not in started), "")

        name = self._program.wait_for(new_node, PATIENCE, "Karpenter's provider creates a Node")
        started_kubelet = self._stack.enter_context(kubelet(self._cluster, name))
        # The API server has no token for this name: it read its tokens when it started.
        self._cluster.kubeconfig(node_user(name), started_kubelet.kubeconfig, credentials="certificate")
        started_kubelet.start()
        self._kubelets.append(started_kubelet)
        status = {key: {DONGLE: None} for key in ("capacity", "allocatable")}  # None removes the number

        def removed() -> bool:
            self._cluster.admin.patch(f"/api/v1/nodes/{name}/status", {"status": status})
            return DONGLE not in self._cluster.allocatable(name) | self._cluster.capacity(name)

        wait_until(removed, PATIENCE, f"Node {name} has no dongles")

    def _publish(self) -> None:
        node = self._kubelets[-1]
        recording = json.loads(MACHINE.read_text())
        with service_on_machine(self._cluster, recording, kubelet=node) as service:
            # As in _start_kubelet(), the API server has no token for this name.
            self._cluster.kubeconfig(node_user(node.name), service.kubeconfig, credentials="certificate")
            service.config = self._shell.config
            service.cli("apply", "--kubeconfig", str(service.kubeconfig), status=0)


@contextmanager
def karpenter_world() -> Iterator[KarpenterWorld]:
    """Runs Karpenter on its own control plane."""
    with control_plane() as cluster, ExitStack() as stack:
        program = stack.enter_context(karpenter(cluster))
        yield KarpenterWorld(cluster, program, stack)
