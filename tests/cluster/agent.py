"""capacityd as it runs on a node: a process with the distribution's Python, on a simulated machine.

The simulated machine is a folder, mounted over /sys in a mount namespace for this process (inside the kubelet's
namespace if there is a kubelet). So capacityd neither sees nor changes the hardware of the real machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import Credentials, node_user
from tests.cluster.kubelet import STATE, Kubelet
from tests.cluster.processes import PATIENCE, TIED_TO_US
from tests.support.machines import bare, merge, usb_device, write_tree
from tests.support.trees import Recording

PYTHON = Path("/usr/bin/python3")
CLIENT = Path(os.environ.get("CAPACITYD_PYTHON") or PYTHON)
"""The Python that capacityd runs with: the distribution's, or one with another version of the client (matrix.py)."""
DONGLE = "example.com/dongle"
ANNOTATION = "capacityd/published"
CONDITION = "CapacityPublished"

DONGLES = """\
[resources."example.com/dongle"]
usb = { vendor = "0529", product = "0001" }
"""

AGENT = ROOT / "agent"
KUBECTL = ROOT / "kubectl"
_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from capacityd.__main__ import main; sys.exit(main())"
_START_KUBECTL = (
    "import sys; sys.path[:0] = sys.argv[1:3]; del sys.argv[1:3]; "
    "from kubectl_capacityd.__main__ import main; sys.exit(main())"
)
_MACHINE = 'set -eu; mount --bind "$1" /sys; shift; exec "$@"'
# If a kubelet runs on the real machine, a tmpfs hides its checkpoint from the test.
_NO_KUBELET = f"set -eu; [ ! -d {STATE} ] || mount -t tmpfs tmpfs {STATE}; " + _MACHINE.removeprefix("set -eu; ")


class Machine:
    """The contents of /sys, as real files that come and go with the devices."""

    def __init__(self, folder: Path, recording: Recording) -> None:
        self.sys = folder / "sys"
        write_tree(recording, str(folder))

    def pull(self, port: str) -> None:
        """Unplugs the USB device at this port."""
        link = self.sys / "bus/usb/devices" / port
        device = link.resolve()
        link.unlink()
        shutil.rmtree(device)


class Agent:
    """capacityd on a machine, with the identity of one Node."""

    def __init__(
        self,
        cluster: Cluster,
        node: str,
        folder: Path,
        *,
        machine: Machine | None = None,
        kubelet: Kubelet | None = None,
        server: str | None = None,
        credentials: Credentials = "token",
        python: Path = CLIENT,
    ) -> None:
        """machine: by default one with four dongles. server: the URL of a proxy, to replace the API server's."""
        folder.mkdir(exist_ok=True)
        (folder / "run").mkdir()
        self.node = node
        self.user = node_user(node)
        self.machine = machine or Machine(folder / "machine", with_dongles(4))
        self.config = folder / "capacityd.toml"
        self.kubeconfig = cluster.kubeconfig(self.user, folder / "kubeconfig", credentials=credentials, server=server)
        self._kubelet = kubelet
        self._python = python
        self._environment = {
            "PATH": os.environ["PATH"],
            "RUNTIME_DIRECTORY": str(folder / "run"),
        }
        self.configure(DONGLES)

    def configure(self, text: str) -> None:
        self.config.write_text(text)

    def command(self, *arguments: str) -> list[str | Path]:
        """The command that runs capacityd with these arguments on the machine."""
        script = _MACHINE if self._kubelet else _NO_KUBELET
        command: list[str | Path] = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
        command += [self.machine.sys, *capacityd(self._python), *arguments]
        command += ["--config", self.config, "--kubeconfig", self.kubeconfig]
        return self._kubelet.inside(command) if self._kubelet else command

    def run(self, *arguments: str, status: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Runs capacityd until it ends. status: the exit status that it must have (None: any)."""
        result = subprocess.run(
            [*TIED_TO_US, *self.command(*arguments)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=self._environment,
        )
        message = f"capacityd {' '.join(arguments)} ended with {result.returncode}:\n{result.stdout}{result.stderr}"
        assert status in (None, result.returncode), message
        return result


def capacityd(python: Path = CLIENT) -> list[str | Path]:
    """The command that runs capacityd without arguments, as the package's launcher does."""
    return [python, "-I", "-c", _START, AGENT]


def kubectl_capacityd(python: Path = CLIENT) -> list[str | Path]:
    """The command that runs `kubectl capacityd` without arguments, as its package's launcher does."""
    return [python, "-I", "-c", _START_KUBECTL, AGENT, KUBECTL]


def with_dongles(number: int) -> Recording:
    """A machine with this number of dongles and no other devices."""
    return merge(bare(), *(dongle(f"1-{n}") for n in range(1, number + 1)))


def dongle(port: str) -> Recording:
    number = int(port.rpartition("-")[2].rpartition(".")[2]) + 2
    return usb_device(port, "0529", "0001", None, "SafeNet", "Sentinel HL", "ff0000", [("ffffff", "usbfs")], number)


def condition_of(node: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The condition that capacityd set on a Node; None if it set none."""
    conditions = node["status"].get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == CONDITION), None)


def our_events(cluster: Cluster, node: str) -> list[tuple[str, str]]:
    """The reason and message of each Event by capacityd about a Node."""
    events = cluster.events_of(node)
    return [(e["reason"], e["message"]) for e in events if e["source"].get("component") == "capacityd"]
