"""The service as a process of its own on a machine of its own: Debian's Python, a real netlink, a real API server."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.cluster.audit import Request
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import node_user
from tests.cluster.machine import Machine, machine
from tests.cluster.processes import PATIENCE, TIED_TO_US, Daemon, Moment, wait_until
from tests.support.machines import Recording

DONGLE = "example.com/dongle"
DONGLES = f'[resources."{DONGLE}"]\nusb = {{ vendor = "0403" }}\n'
CONDITION = "CapacityPublished"
SLACK = 3.0
"""Seconds that a slow machine may take beside what is promised."""

AGENT = str(Path(__file__).parents[2] / "agent")
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from capacityd.__main__ import main; sys.exit(main(sys.argv[2:]))"
)
PYTHON = "/usr/bin/python3"
COMMAND = [PYTHON, "-I", "-c", _START, AGENT]
_FORGET = "FORGET=1"


class Service:
    """Made by service(). It is not started yet, has no configuration, and its kubeconfig does not exist."""

    def __init__(self, cluster: Cluster, node: str, folder: Path, machine: Machine) -> None:
        self.cluster = cluster
        self.node = node
        self.machine = machine
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.config = folder / "capacityd.toml"
        self.state = folder / "state"
        self.kept = folder / "kept"  # what outlives a reboot
        self.command: Sequence[str | Path] = [*COMMAND, "--config", self.config, "run"]
        self.process: Daemon | None = None
        self._told: list[tuple[Moment, str]] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._listener.bind(str(folder / "notify"))
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        self._position = cluster.audit.mark()

    def configure(self, resources: str = DONGLES, kubernetes: str = "", **service: str) -> None:
        """resources, kubernetes: TOML. service: durations for the table of that name, "" for the default."""
        service = {"lower_after": "1s", **service}
        lines = [resources, "[service]", *(f'{key} = "{value}"' for key, value in service.items() if value)]
        self.config.write_text("\n".join([*lines, "[kubernetes]", f'kubeconfig = "{self.kubeconfig}"', kubernetes, ""]))

    def join(self, server: str | None = None, ca_file: Path | None = None, token: str | None = None) -> None:
        """The machine gets its kubelet's credentials. server: a proxy's URL instead of the API server's."""
        with_new = self.kubeconfig.with_name("kubeconfig.new")
        user = node_user(self.node)
        self.cluster.kubeconfig(user, with_new, server=server, ca_file=ca_file, token=token)
        with_new.rename(self.kubeconfig)

    def reach(self, url: str | None = None) -> None:
        """The machine can reach this server from now on."""
        self.machine.relay.open(_port(url or self.cluster.url))

    def unreach(self, url: str | None = None) -> None:
        """Connections to it are refused from now on."""
        self.machine.relay.shut(_port(url or self.cluster.url))

    def start(self, ready: bool = True, settled: bool = True) -> None:
        """Until it is ready and its first look is over, unless told not to wait."""
        command = self.machine.inside(["env", "-i", *self._environment(), *self.command])
        self._forget()
        self.process = Daemon(command, self.folder / "service.log")
        if ready:
            self.wait_told("READY=1", PATIENCE)
        if settled:
            self.wait_looks(1)

    def reload(self) -> None:
        """Until it has taken the configuration as it is now, and has asked its Node."""
        assert self.process is not None
        ready, passes = len(self.told("READY=1")), self.looks()
        self.process.send(signal.SIGHUP)
        self.wait_told("READY=1", 5 + SLACK, ready + 1)
        self.wait_looks(2, passes)  # the check counts as one

    def stop(self, number: signal.Signals = signal.SIGTERM, deadline: float = PATIENCE) -> float:
        """Ends it; seconds that it took, as a Moment has them."""
        assert self.process is not None
        began = Moment.now()
        self.process.stop(number, deadline)
        return Moment.now().since(began)

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a command by hand on the same machine."""
        command = [*TIED_TO_US, *self.by_hand(*arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)

    def by_hand(self, *arguments: str) -> list[str | Path]:
        """The command that does that."""
        options: list[str | Path] = [*COMMAND, "--config", self.config, *arguments]
        return self.inside(options)

    def inside(self, command: Sequence[str | Path]) -> list[str | Path]:
        """The command that runs this one on the machine, in the service's environment; systemd does not hear it."""
        return self.machine.inside(["env", "-i", *self._environment()[:-1], *command])

    def status(self) -> Any:
        """What the command status says."""
        return json.loads(self.cli("status", "--json").stdout)

    def seen(self) -> dict[str, Any]:
        """The file behind the command status: what the last look left."""
        try:
            found: dict[str, Any] = json.loads((self.state / "status.json").read_text())
        except FileNotFoundError:
            return {}
        return found

    def log(self) -> str:
        assert self.process is not None
        return self.process.output()

    # What it tells systemd

    def told(self, line: str) -> list[Moment]:
        """When it told this: a whole line, or its beginning with "=" at its end."""
        return [at for at, text in list(self._told) if text == line or (line.endswith("=") and text.startswith(line))]

    def wait_told(self, line: str, deadline: float, times: int = 1) -> None:
        """Until it has told this so many times."""
        self.wait(lambda: len(self.told(line)) >= times, deadline, f"it tells {line} ({times})")

    def looks(self) -> int:
        """How many children have ended since it was started, the first check left out."""
        return max(0, len(self.told("STATUS=")) - 1)

    def wait_looks(self, more: int, since: int = 0, deadline: float = PATIENCE) -> None:
        self.wait(lambda: self.looks() >= since + more, deadline, f"{more} looks after {since}")

    # What comes of it

    def wait(self, condition: Callable[[], Any], deadline: float, what: str) -> Any:
        assert self.process is not None
        return self.process.wait_for(condition, deadline, what)

    def capacity(self, name: str = DONGLE) -> str | None:
        return self.cluster.capacity(self.node).get(name)

    def wait_capacity(self, quantity: str | None, deadline: float, name: str = DONGLE) -> float:
        """Until the Node says so; seconds that it took."""
        began = time.monotonic()
        self.wait(lambda: self.capacity(name) == quantity, deadline, f"{name} is {quantity}")
        return time.monotonic() - began

    def record(self) -> dict[str, int]:
        """What we published, as the Node says."""
        found: dict[str, int] = json.loads(
            self.cluster.node(self.node)["metadata"].get("annotations", {}).get("capacityd/published", "{}")
        )
        return found

    def condition(self) -> dict[str, str]:
        conditions = self.cluster.node(self.node)["status"].get("conditions", [])
        return next((c for c in conditions if c["type"] == CONDITION), {})

    def events(self) -> list[str]:
        """The messages of its Events about its Node, oldest first."""
        return [e["message"] for e in self.cluster.events_of(self.node) if e.get("reportingComponent") == "capacityd"]

    def requests(self) -> list[Request]:
        """Those that it made since the last call, whatever became of them; a look that is under way makes its own."""
        wait_until(lambda: set(self.machine.processes()) <= {self._pid()}, PATIENCE, "no look is under way")
        begin, self._position = self._position, self.cluster.audit.mark()
        between = self.cluster.audit.between(begin, self._position)
        found = [r for r in between if r.user_agent.startswith("capacityd/")]
        return [r for r in found if self.node in (r.name, r.user.removeprefix("system:node:"))]

    def asked(self) -> list[str]:
        """The same, such as "get nodes"."""
        return [f"{r.verb} {'/'.join(filter(None, (r.resource, r.subresource)))}" for r in self.requests()]

    def _pid(self) -> int | None:
        return self.process.pid if self.process else None

    def _environment(self) -> list[str]:
        return [
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG=C.UTF-8",
            "SYSTEMD_DEVICE_VERIFY_SYSFS=0",
            f"RUNTIME_DIRECTORY={self.state}",
            f"STATE_DIRECTORY={self.kept}",
            f"NOTIFY_SOCKET={self.folder}/notify",
        ]

    def _listen(self) -> None:
        while message := self._listener.recv(65536):
            self._told += [(Moment.now(), line) for line in message.decode().splitlines()]

    def _forget(self) -> None:
        """What was told before, also what is still to be heard of that."""
        self._tell(_FORGET.encode())
        wait_until(lambda: self.told(_FORGET), PATIENCE, "all that was told is heard")
        self._told.clear()

    def _tell(self, message: bytes) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.sendto(message, str(self.folder / "notify"))

    def end(self) -> None:
        if self.process is not None and self.process.process.poll() is None:
            self.process.stop()
        self._tell(b"")  # ends the thread
        self._thread.join()
        self._listener.close()


def _port(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


PUBLISHED = ["get nodes", "patch nodes/status", "create events"]
"""The requests that a change makes."""


@contextmanager
def service(
    cluster: Cluster,
    *parts: Recording,
    node: str | None = None,
    name: str = "service",
    around: Sequence[str | Path] = (),
    uptime: float | None = None,
) -> Iterator[Service]:
    """A machine with these devices, whose Node exists unless it is named, that can reach the API server.

    name: another one's for a second machine with the same Node.
    """
    node = node or cluster.create_node()
    folder = cluster.folder / f"{name}-{node}"
    folder.mkdir()
    with machine(folder, *parts, around=around, uptime=uptime) as made:
        running = Service(cluster, node, folder, made)
        try:
            running.reach()
            running.configure()
            running.join()
            yield running
        finally:
            running.end()
