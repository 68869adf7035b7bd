"""make demo: the proof for a person, on a real control plane with a scheduler and a kubelet, all on this machine.

Each step says what is done, with which command, and what came out; what is not as said ends it with exit status 1.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

from tests.cluster.agent import DONGLE, DONGLES, Agent, Machine, with_dongles
from tests.cluster.binaries import PACKAGES, BuildError, cache_folder, ready_made
from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.credentials import ADMIN
from tests.cluster.kubelet import Kubelet, kubelet
from tests.cluster.processes import PATIENCE, wait_until, workspace

_KEY = DONGLE.replace(".", r"\.")
_NODE = f"custom-columns=NODE:.metadata.name,CAPACITY:.status.capacity.{_KEY},ALLOCATABLE:.status.allocatable.{_KEY}"
_PODS = f"custom-columns=POD:.metadata.name,DONGLES:.spec.containers[0].resources.limits.{_KEY},STATUS:.status.phase"
_EVENTS = "custom-columns=TYPE:.type,REASON:.reason,MESSAGE:.message"


class Wrong(Exception):
    """Something is not as the demo says."""


class Demo:
    """The story, told as it happens."""

    def __init__(self, cluster: Cluster, node: Kubelet, folder: Path, dongles: int) -> None:
        self._cluster = cluster
        self._node = node
        self._kubectl: list[str | Path] = [cluster.binaries["kubectl"], "--kubeconfig", cluster.kubeconfig(ADMIN)]
        self._folder = folder
        self._agent = Agent(
            cluster,
            node.name,
            folder / "agent",
            machine=Machine(folder / "machine", with_dongles(dongles)),
            kubelet=node,
        )
        self._steps = 0

    def tell(self) -> None:
        self._publish()
        three = self._a_pod_that_runs()
        two = self._a_pod_that_waits()
        self._a_dongle_less(three)
        self._room_again(three, two)
        self._take_back()

    def _publish(self) -> None:
        self.step("A machine with four dongles, and a configuration that is to publish them:")
        print(f"\n{textwrap.indent(DONGLES.rstrip(), '   ')}", flush=True)
        self.capacityd("devices", "usb")
        self.step("capacityd publishes them on its own Node, with the kubelet's credentials, and waits for the kubelet")
        said = self.capacityd("apply", "--wait", "30s")
        self.expect("+  example.com/dongle  4" in said, "four dongles are written")
        self.node("4")

    def _a_pod_that_runs(self) -> str:
        self.step("A pod that asks for three of them runs")
        pod = self._cluster.create_pod(self._node.name, {DONGLE: "3"})
        self.wait(lambda: self._cluster.pod_phase(pod) == "Running", "the pod runs")
        self.kubectl("get", "pods", "-o", _PODS)
        return pod

    def _a_pod_that_waits(self) -> str:
        self.step("A second one that asks for two has to wait; the scheduler says why")
        pod = self._cluster.create_pod(self._node.name, {DONGLE: "2"})
        self.wait(lambda: self._cluster.unschedulable(pod), "the scheduler turns it away")
        self.kubectl("get", "pods", "-o", _PODS)
        said = self.kubectl("get", "pod", pod, "-o", "jsonpath={.status.conditions[0].message}")
        self.expect(f"Insufficient {DONGLE}" in said, "it is the dongles that are missing")
        return pod

    def _a_dongle_less(self, running: str) -> None:
        self.step(
            "One dongle is pulled. capacityd lowers the capacity, the kubelet follows, and the pod goes on running"
        )
        self._agent.machine.pull("1-4")
        said = self.capacityd("apply", "--wait", "30s")
        self.expect("4 → 3" in said, "one dongle less is written")
        self.node("3")
        self.expect(self._cluster.pod_phase(running) == "Running", "the pod that runs is left alone")

    def _room_again(self, running: str, waiting: str) -> None:
        self.step("The first pod ends, and the one that waited takes its place: two of three dongles")
        self._cluster.delete_pod(running)
        self.wait(lambda: self._cluster.pod_phase(waiting) == "Running", "the second pod runs")
        self.kubectl("get", "pods", "-o", _PODS)

    def _take_back(self) -> None:
        self.step("All of it can be taken back. What happened stands in the Node's Events")
        said = self.capacityd("withdraw")
        self.expect("-  example.com/dongle  3" in said, "the key is removed")
        self.wait(lambda: DONGLE not in self._cluster.allocatable(self._node.name), "allocatable follows")
        selector = f"involvedObject.kind=Node,involvedObject.name={self._node.name},source=capacityd"
        events = self.kubectl("get", "events", "--field-selector", selector, "-o", _EVENTS)
        self.expect(events.count("CapacityChanged") == 3, "one Event for each of the three writes")

    def step(self, what: str) -> None:
        self._steps += 1
        print(f"\n{self._steps}. {what}", flush=True)

    def show(self, command: str, said: str) -> None:
        print(f"\n   $ {command}\n{textwrap.indent(said.rstrip(), '   ')}", flush=True)

    def capacityd(self, *arguments: str) -> str:
        result = self._agent.run(*arguments, status=None)
        self.show(f"capacityd {' '.join(arguments)}", result.stdout + result.stderr)
        self.expect(result.returncode == 0, f"capacityd {arguments[0]} succeeds")
        return result.stdout

    def kubectl(self, *arguments: str) -> str:
        # A home of its own, because it keeps a cache there.
        result: subprocess.CompletedProcess[str] = subprocess.run(
            [*self._kubectl, *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=os.environ | {"HOME": str(self._folder)},
        )
        self.show(shlex.join(["kubectl", *arguments]), result.stdout + result.stderr)
        self.expect(result.returncode == 0, f"kubectl {arguments[0]} succeeds")
        return result.stdout

    def node(self, dongles: str) -> None:
        """The Node's own words on how many dongles it has."""
        said = self.kubectl("get", "node", self._node.name, "-o", _NODE)
        self.expect(said.splitlines()[-1].split() == [self._node.name, dongles, dongles], f"the Node has {dongles}")

    def wait(self, condition: Callable[[], object], what: str) -> None:
        try:
            wait_until(condition, PATIENCE, what)
        except TimeoutError as error:
            raise Wrong(str(error)) from None

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            raise Wrong(f"expected, but not so: {what}")


def story(cluster: Cluster, dongles: int = 4) -> None:
    """Tells it on a new Node. Raises Wrong if anything is not as said."""
    with workspace() as folder, kubelet(cluster) as node:
        node.start()
        Demo(cluster, node, folder, dongles).tell()


def missing() -> list[str]:
    """The programs that are still to be built."""
    found = ready_made(os.environ)
    return [name for name in PACKAGES if name not in found and not (cache_folder() / name).exists()]


def main() -> int:
    if os.geteuid() != 0:
        print("the demo runs a kubelet, which only root may: sudo make demo", file=sys.stderr)
        return 1
    print("capacityd on etcd, kube-apiserver, kube-scheduler and a kubelet (on a runtime that runs nothing), all on")
    print("this machine and gone afterwards. The dongles are made up: files, bound over /sys for capacityd alone.")
    if missing():
        print("They have to be built first, once: about 6 minutes on 2 cores. Starting them takes some 15 seconds.")
    sys.stdout.flush()
    try:
        with control_plane() as cluster:
            story(cluster)
    except (Wrong, BuildError, TimeoutError, RuntimeError, subprocess.SubprocessError) as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print("\nAll was as said.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
