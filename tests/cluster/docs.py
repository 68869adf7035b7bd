"""Runs each page that needs a control plane on a new one. As a command, it rewrites the outputs on the pages.

The Node is n1. Its kubelet starts no containers, so a pod is running at once. The service is a process of the test, not
a systemd unit. In outputs, paths and the address of the API server are replaced by those that a reader would see.

A page has directives in comments (tests/support/pages.py). Besides those of recorded pages, there are:
- plug PORT and unplug PORT (a dongle);
- service start, stop or reload;
- kubelet restart, or zero (it sets extended resources to 0);
- gone NAME (leaves a device plugin's key as the kubelet does five minutes after the plugin has left);
- until NAME=QUANTITY (waits until this quantity is allocatable);
- node delete NAME, credentials wrong or right, api away or back.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.cluster.agent import capacityd, kubectl_capacityd
from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.kubelet import Kubelet, kubelet
from tests.cluster.processes import PATIENCE, TIED_TO_US, wait_until
from tests.cluster.service import Service, service_on_machine
from tests.support.machines import usb_device
from tests.support.pages import pages, place, play, same

_PATIENCE = 90.0  # seconds within which a command that only reads must print the output on the page
_SETTLE = 6.0  # the same, if the page shows no output yet
_PAUSE = 1.0  # seconds between two tries; a command takes half a second of CPU time
_ONLY_READS = re.compile(
    r"kubectl (get|describe|events)\b|--dry-run=server\b|capacityd (status|devices|probe|plan|fleet|template)\b"
)


class Shell:
    """A user's shell with kubectl and capacityd.

    hidden: texts in outputs, and what a reader sees instead. paths: paths on the pages, and where they are here.
    """

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.folder = folder
        self.admin = cluster.admin_kubeconfig
        self.config = folder / "etc/capacityd/conf.d"
        self.paths = {
            "/etc/capacityd": f"{folder}/etc/capacityd",
            "/usr/share/capacityd/examples/kubernetes": str(ROOT / "packaging/kubernetes"),
        }
        self.hidden = {str(folder): "", cluster.url: "https://10.0.0.1:6443"}
        self._status = 0
        for path in (folder / "bin", folder / "home", self.config):
            path.mkdir(parents=True)
        (folder / "bin/kubectl").symlink_to(cluster.binaries["kubectl"])
        self.install(kubectl_capacityd(), "kubectl-capacityd")

    def install(self, command: Iterable[str | Path], name: str = "capacityd", options: Sequence[str] = ()) -> None:
        """Creates a program in this shell that runs a command. options: added for subcommands that have them."""
        script = self.folder / "bin" / name
        program = shlex.join(map(str, command))
        without_options = f'case "$1" in devices | record | status | --*) exec {program} "$@" ;; esac'
        script.write_text(f'#!/bin/sh\n{without_options}\nexec {program} "$@" {shlex.join(options)}\n')
        script.chmod(0o755)

    def file(self, name: str, text: str) -> None:
        path = self.folder / name.removeprefix("/") if name.startswith("/") else self.folder / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, command: str, shown: str) -> str:
        """Returns the command's output. Repeats a command that only reads until it prints what the page shows."""
        if command == "echo $?":
            return f"{self._status}\n"
        end = time.monotonic() + (_PATIENCE if shown else _SETTLE)
        output = self.run_once(command)
        while _ONLY_READS.search(command) and same(output) != same(shown) and time.monotonic() < end:
            time.sleep(_PAUSE)
            output = self.run_once(command)
        return output

    def run_once(self, command: str) -> str:
        """Returns the command's output."""
        for on_page, here in self.paths.items():
            command = command.replace(on_page, here)
        done = subprocess.run(
            [*TIED_TO_US, "sh", "-c", re.sub(r"\bsudo ", "", command)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=2 * PATIENCE,
            cwd=self.folder / "home",
            env={
                "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
                "HOME": str(self.folder / "home"),
                "KUBECONFIG": str(self.admin),
                "COLUMNS": "120",
            },
        )
        self._status = done.returncode
        output = done.stdout
        for here, on_page in self.hidden.items():
            output = output.replace(here, on_page)
        return output


class ClusterWorld:
    """A node with a kubelet, a machine and the service, and a user with kubectl. Only the API server starts at once."""

    def __init__(self, cluster: Cluster, stack: ExitStack) -> None:
        self._cluster = cluster
        self._stack = stack
        self._shell = Shell(cluster, cluster.folder / "world")
        self._machine = ROOT / "conf/examples/tour/machine.json"
        self._kubelet: Kubelet | None = None
        self._service: Service | None = None
        self.file = self._shell.file

    def directive(self, *words: str) -> None:
        do = getattr(self, f"_do_{words[0]}", None)
        if do is None:
            raise ValueError(f"<!-- docs: {' '.join(words)} --> is unknown here")
        do(*words[1:])

    def run(self, command: str, shown: str) -> str:
        assert self.service, "capacityd is installed"
        return self._shell.run(command, shown)

    @property
    def service(self) -> Service:
        """The service on the machine, not started yet."""
        if self._service is None:
            node = self.kubelet()
            recording = json.loads(self._machine.read_text())
            created = service_on_machine(self._cluster, recording, kubelet=node)
            self._service = running = self._stack.enter_context(created)
            self._shell.hidden[str(running.kubeconfig)] = "/etc/kubernetes/kubelet.conf"
            options = [f"--config={self._shell.config}", f"--kubeconfig={running.kubeconfig}"]
            running.command = [*capacityd(), "run", *options]
            self._shell.install(running.inside(capacityd()), options=options)
        return self._service

    def kubelet(self) -> Kubelet:
        """The node's kubelet, running."""
        if self._kubelet is None:
            self._kubelet = self._stack.enter_context(kubelet(self._cluster, "n1"))
            self._kubelet.start()
        return self._kubelet

    def _do_machine(self, file: str) -> None:
        if self._service is not None:
            raise ValueError("a page has one machine: name it before any directive that uses the service")
        self._machine = ROOT / file

    def _do_plug(self, port: str) -> None:
        texts: dict[str, Any] = {"serial": None, "manufacturer": "SafeNet", "model": "Sentinel HL"}
        kind: dict[str, Any] = {"device_class": "ff0000", "interfaces": [("ffffff", "usbfs")]}
        device = usb_device(port, "0529", "0001", number=int(port[-1]) + 2, **texts, **kind)
        self.service.machine.plug(port, device=device)

    def _do_unplug(self, port: str) -> None:
        self.service.machine.unplug(port)

    def _do_service(self, what: str) -> None:
        running = self.service
        act: dict[str, Callable[[], object]] = {"start": running.start, "reload": running.reload, "stop": running.stop}
        act[what]()

    def _do_publish(self) -> None:
        """Publishes the recording's numbers with kubectl, because the service would read this machine's hardware."""
        plan = f"capacityd plan --patch --machine {self._machine}"
        patch = f"{plan} | kubectl patch node n1 --subresource=status --patch-file=/dev/stdin"
        self._shell.run_once(f"until {patch}; do sleep 1; done")  # the kubelet may not have registered the Node yet

    def _do_kubelet(self, what: str) -> None:
        self.kubelet().restart(zeroing={"restart": False, "zero": True}[what])

    def _do_gone(self, name: str) -> None:
        self._cluster.set_capacity("n1", {name: "0"})
        self._do_until(f"{name}=0")

    def _do_until(self, condition: str) -> None:
        name, _, quantity = condition.partition("=")
        wait_until(lambda: self._cluster.allocatable("n1").get(name) == quantity, _PATIENCE, condition)

    def _do_node(self, what: str, name: str) -> None:
        if what != "delete":
            raise ValueError(f"node {what} is unknown here")
        self._cluster.admin.delete(f"/api/v1/nodes/{name}")

    def _do_credentials(self, what: str) -> None:
        self.service.join(token={"right": None, "wrong": "of-another-cluster"}[what])

    def _do_api(self, where: str) -> None:
        {"away": self.service.disconnect, "back": self.service.connect}[where]()


@contextmanager
def cluster_world(binaries: Mapping[str, Path] | None = None) -> Iterator[ClusterWorld]:
    """A world on a new control plane, so that the outputs do not depend on other tests."""
    with control_plane(binaries=binaries) as cluster, ExitStack() as stack:
        yield ClusterWorld(cluster, stack)


def main(names: list[str]) -> None:
    """Rewrites the outputs on the pages with these names, or on all pages."""
    for page in pages():
        text = page.read_text()
        if place(text) == "cluster" and (not names or page.stem in names):
            with cluster_world() as world:
                page.write_text(play(text, world))


if __name__ == "__main__":
    main(sys.argv[1:])
