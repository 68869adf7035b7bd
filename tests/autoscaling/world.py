"""Where the page on Karpenter is played: Karpenter, and for each of its Nodes a kubelet and a machine with dongles."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.autoscaling.karpenter import karpenter
from tests.cluster.agent import DONGLE, Agent, capacityd, with_dongles
from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.credentials import ADMIN, node_user
from tests.cluster.kubelet import Kubelet, kubelet
from tests.cluster.processes import PATIENCE, TIED_TO_US, Daemon, wait_until
from tests.support.pages import same

_POLL = 1.0
"""Seconds between two runs of a command that reads."""
_READS = re.compile(r"kubectl get ")


class KarpenterWorld:
    """A person with kubectl, a recording of a machine with four dongles, and the machines that Karpenter asks for."""

    def __init__(self, cluster: Cluster, program: Daemon, stack: ExitStack) -> None:
        self._cluster = cluster
        self._program = program
        self._stack = stack
        self._folder = cluster.folder / "world"
        self._home = self._folder / "home"
        self._kubelets: list[Kubelet] = []
        for name in ("bin", "home", "etc/capacityd/conf.d"):
            (self._folder / name).mkdir(parents=True)
        (self._folder / "bin/kubectl").symlink_to(cluster.binaries["kubectl"])
        (self._folder / "machine.json").write_text(json.dumps(with_dongles(4)))
        options = ["--config", self._config, "--machine", self._folder / "machine.json"]
        script = self._folder / "bin/capacityd"
        script.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, capacityd()))} "$@" {shlex.join(map(str, options))}\n')
        script.chmod(0o755)
        self._admin = cluster.kubeconfig(ADMIN)

    @property
    def _config(self) -> Path:
        return self._folder / "etc/capacityd/conf.d"

    def directive(self, *words: str) -> None:
        match words:
            case ["kubelet"]:
                self._start_kubelet()
            case ["capacityd"]:
                self._publish()
            case _:
                raise ValueError(f"<!-- docs: {' '.join(words)} --> is unknown here")

    def file(self, name: str, text: str) -> None:
        path = self._folder / name.removeprefix("/") if name.startswith("/") else self._home / name
        path.write_text(text)

    def run(self, command: str, shown: str) -> str:
        """A command that reads is repeated until it prints what the page shows."""
        deadline = time.monotonic() + PATIENCE
        output = self._output(command)
        while _READS.search(command) and same(output) != same(shown) and time.monotonic() < deadline:
            time.sleep(_POLL)
            output = self._output(command)
        return output

    def _output(self, command: str) -> str:
        environment = {"PATH": f"{self._folder}/bin:{os.environ['PATH']}", "KUBECONFIG": str(self._admin)}
        done = subprocess.run(
            [*TIED_TO_US, "sh", "-c", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=2 * PATIENCE,
            cwd=self._home,
            env=environment | {"HOME": str(self._home)},
        )
        return done.stdout

    def _start_kubelet(self) -> None:
        """Starts the kubelet of a Node that has none yet.

        kwok creates a Node with what the pods request, as if it were published already. A real Node has no extended
        resource when it is new, so the key is removed.
        """
        started = {running.name for running in self._kubelets}

        def new_node() -> str:
            names = [node["metadata"]["name"] for node in self._cluster.admin.get("/api/v1/nodes")["items"]]
            return next((name for name in names if name not in started), "")

        name = self._program.wait_for(new_node, PATIENCE, "Karpenter's provider creates a Node")
        started_kubelet = self._stack.enter_context(kubelet(self._cluster, name))
        # Tokens exist for names that are known from the start.
        self._cluster.kubeconfig(node_user(name), started_kubelet.kubeconfig, credentials="certificate")
        started_kubelet.start()
        self._kubelets.append(started_kubelet)
        status = {key: {DONGLE: None} for key in ("capacity", "allocatable")}

        def removed() -> bool:
            self._cluster.admin.patch(f"/api/v1/nodes/{name}/status", {"status": status})
            return DONGLE not in self._cluster.allocatable(name) | self._cluster.capacity(name)

        wait_until(removed, PATIENCE, f"Node {name} has no dongles")

    def _publish(self) -> None:
        node = self._kubelets[-1]
        agent = Agent(self._cluster, node.name, self._folder / "agent", kubelet=node, credentials="certificate")
        agent.config = self._config
        agent.run("apply", "--wait", "1min")


@contextmanager
def karpenter_world() -> Iterator[KarpenterWorld]:
    """On a control plane of its own."""
    with control_plane() as cluster, ExitStack() as stack:
        program = stack.enter_context(karpenter(cluster))
        yield KarpenterWorld(cluster, program, stack)
