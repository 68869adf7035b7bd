"""make demo: capacityd on a real control plane with a scheduler and a kubelet, step by step.

Each step prints a sentence, the command and its output. A result other than the one described ends the demo with exit
status 1.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.cluster.agent import DONGLE, DONGLES, capacityd, dongle
from tests.cluster.binaries import PACKAGES, BuildError, programs
from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.credentials import ADMIN
from tests.cluster.kubelet import kubelet
from tests.cluster.processes import PATIENCE, TIED_TO_US, wait_until, workspace
from tests.cluster.service import Service, service

_CONFIG = f"{DONGLES}expect = 4\n"
_KEY = DONGLE.replace(".", r"\.")
_NODE = f"custom-columns=CAPACITY:.status.capacity.{_KEY},ALLOCATABLE:.status.allocatable.{_KEY}"
_EVENTS = "custom-columns=TIME:.lastTimestamp,REASON:.reason,MESSAGE:.message"
_THREE, _TWO = "three-dongles", "two-dongles"
_WIDTH = 100


class UnexpectedResult(Exception):
    """A step had another result than the one described."""


class Demo:
    """The steps, on a machine whose service has not been started."""

    def __init__(self, cluster: Cluster, service: Service, folder: Path) -> None:
        self._cluster = cluster
        self._service = service
        self._folder = folder
        self._admin = cluster.kubeconfig(ADMIN, folder / "admin.conf")
        self._steps = 0
        self._log_shown = 0

    def run(self) -> None:
        self._probe()
        self._start()
        self._pods()
        self._pull()
        self._replace()
        self._events()
        self._fleet()

    def _probe(self) -> None:
        self._step(
            "A machine has four USB dongles. The configuration names them as a resource and expects four. "
            "capacityd finds them:"
        )
        _print_indented(_CONFIG)
        self._show("capacityd probe", self._service.cli("probe"))

    def _start(self) -> None:
        self._step(
            "With the kubelet's credentials, the service writes them to its own Node, to capacity and allocatable "
            "in one request. So pods can get them at once."
        )
        self._service.start()
        self._show_log("$ capacityd run &\n")
        self._expect(self._service.capacity() == "4", "four dongles are published")
        self._show_node("4")

    def _pods(self) -> None:
        self._step(
            "A pod that requests three dongles runs. "
            "Another one requests two: it stays Pending, and the scheduler reports the reason."
        )
        self._cluster.create_pod(self._service.node, {DONGLE: "3"}, name=_THREE)
        self._wait(lambda: self._cluster.pod_phase(_THREE) == "Running", "the first pod runs")
        self._cluster.create_pod(self._service.node, {DONGLE: "2"}, name=_TWO)
        self._wait(lambda: self._cluster.unschedulable(_TWO), "the scheduler rejects the second pod")
        self._kubectl("get", "pods")
        message = self._kubectl("get", "pod", _TWO, "-o", "jsonpath={.status.conditions[0].message}")
        self._expect(f"Insufficient {DONGLE}" in message, "the second pod waits for dongles")

    def _pull(self) -> None:
        self._step(
            "Somebody pulls a dongle. Nobody runs a command: the service receives the event from udev, waits 10 s in "
            "case the dongle comes back (lower_after), and lowers the capacity. The first pod keeps running."
        )
        self._service.machine.unplug("1-4")
        # Without the event, a pass for another reason might notice as well that the dongle is gone.
        self._wait(lambda: f"{DONGLE}: 4 → 3: held back for" in self._service.log(), "an event from udev starts a pass")
        self._wait(lambda: f"{DONGLE}: 3, expected 4\n" in self._service.log(), "the service lowers the capacity")
        self._show_log()
        self._show_node("3")
        self._expect(self._cluster.pod_phase(_THREE) == "Running", "the first pod keeps running")

    def _replace(self) -> None:
        self._step("The first pod is deleted. The second one now runs: it has two of the three dongles.")
        self._kubectl("delete", "pod", _THREE)
        self._wait(lambda: self._cluster.pod_phase(_TWO) == "Running", "the second pod runs")
        self._kubectl("get", "pods")

    def _events(self) -> None:
        self._step("The Node's Events show what capacityd changed, oldest first.")
        self._wait(lambda: len(self._service.events()) >= 3, "capacityd has created three Events")
        selector = f"source=capacityd,involvedObject.name={self._service.node}"
        command = ("get", "events", "--sort-by=.lastTimestamp", f"--field-selector={selector}", "-o", _EVENTS)
        reasons = [line.split()[1] for line in self._kubectl(*command).splitlines()[1:]]
        # The last two are created in the same second, and Events have no finer time.
        in_order = [*reasons[:1], *sorted(reasons[1:])]
        self._expect(
            in_order == ["CapacityChanged", "CapacityBelowExpected", "CapacityChanged"], "three Events in order"
        )

    def _fleet(self) -> None:
        self._step(
            "With the kubeconfig that kubectl uses, an administrator lists all Nodes that need attention. "
            "If there are any, the exit status is 4."
        )
        shown = self._show("capacityd fleet", self._run([*capacityd(), "fleet"]), status=4)
        self._expect("1 needs attention" in shown and "BelowExpected" in shown, "the Node needs attention")

    def _step(self, sentence: str) -> None:
        self._steps += 1
        lead = f"{self._steps}. "
        print(f"\n{textwrap.fill(sentence, _WIDTH, initial_indent=lead, subsequent_indent='   ')}", flush=True)

    def _show(self, command: str, done: subprocess.CompletedProcess[str], status: int = 0) -> str:
        """Prints a command and its output, which it returns. The exit status must be this one."""
        output = done.stdout + done.stderr
        _print_indented(f"$ {command}\n{output}")
        self._expect(done.returncode == status, f'exit status {status} of "{command}"')
        return output

    def _show_log(self, command: str = "") -> None:
        """Prints what the service has logged since the last call."""
        log = self._service.log()
        _print_indented(command + log[self._log_shown :])
        self._log_shown = len(log)

    def _show_node(self, dongles: str) -> None:
        """Waits until so many dongles are allocatable, and prints the Node."""
        node = self._service.node
        self._wait(lambda: self._cluster.allocatable(node).get(DONGLE) == dongles, f"{dongles} are allocatable")
        shown = self._kubectl("get", "node", node, "-o", _NODE)
        self._expect(shown.splitlines()[-1].split() == [dongles, dongles], f"the Node has {dongles}")

    def _kubectl(self, *arguments: str) -> str:
        done = self._run([self._cluster.binaries["kubectl"], *arguments])
        return self._show(shlex.join(["kubectl", *arguments]), done)

    def _run(self, command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
        """Runs a command as the administrator would."""
        # kubectl writes a cache to the home folder.
        environment = os.environ | {"HOME": str(self._folder), "KUBECONFIG": str(self._admin)}
        return subprocess.run(
            [*TIED_TO_US, *command], capture_output=True, text=True, timeout=PATIENCE, env=environment
        )

    def _wait(self, condition: Callable[[], object], what: str) -> None:
        try:
            wait_until(condition, PATIENCE, what)
        except TimeoutError as error:
            raise UnexpectedResult(str(error)) from None

    def _expect(self, holds: bool, what: str) -> None:
        if not holds:
            raise UnexpectedResult(f"expected: {what}")


def _print_indented(text: str) -> None:
    print(f"\n{textwrap.indent(text.rstrip(), '   ')}", flush=True)


def run_demo(cluster: Cluster, dongles: int = 4) -> None:
    """Runs the demo on a new Node. Raises UnexpectedResult."""
    parts = [dongle(f"1-{number}") for number in range(1, dongles + 1)]
    with workspace() as folder, kubelet(cluster) as node:
        node.start()
        with service(cluster, *parts, node=node.name, around=node.inside([])) as made:
            made.configure(_CONFIG, lower_after="")  # the default
            Demo(cluster, made, folder).run()


def main() -> int:
    if os.geteuid() != 0:
        print("the demo runs a kubelet, which needs root: sudo make demo", file=sys.stderr)
        return 1
    print("A real etcd, kube-apiserver, kube-scheduler and kubelet run on this machine until the demo ends.")
    print("Two things are simulated: the dongles, and the container runtime, which starts no containers.")
    if programs().missing(PACKAGES):
        print("The programs have to be built first, once: about 6 minutes on 2 cores.")
    sys.stdout.flush()
    try:
        with control_plane() as cluster:
            run_demo(cluster)
    except (UnexpectedResult, BuildError, TimeoutError, RuntimeError, subprocess.SubprocessError) as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print("\nEvery step had the result described.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
