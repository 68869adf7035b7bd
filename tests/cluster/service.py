"""The service as its own process on its own machine: Debian's Python, a real netlink, a real API server."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from capacityd.linux.subreaper import children
from capacityd.worker import runtime_files
from capacityd.worker.pass_state import PassStatus
from tests.cluster.agent import CLIENT, DONGLE, capacityd, condition_of, our_events, published_on
from tests.cluster.audit import Request
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import node_user
from tests.cluster.kubelet import Kubelet
from tests.cluster.machine import Machine, machine
from tests.cluster.notifications import Notifications
from tests.cluster.processes import PATIENCE, TIED_TO_US, Daemon, wait_until
from tests.support.machines import Recording
from tests.support.reachable import make_reachable

DONGLES = f'[resources."{DONGLE}"]\nusb = {{ vendor = "0403" }}\n'
PROMPT = 35.0
"""Seconds to wait for the effect of an event. It is less than the 40 s after which a retry would come without an event
(unless the API server could not be reached)."""


class Service:
    """The service on a machine, not started yet. service_on_machine() creates it."""

    def __init__(self, cluster: Cluster, node: str, folder: Path, machine: Machine) -> None:
        self.cluster = cluster
        self.node = node
        self.machine = machine
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.config = folder / "capacityd.toml"
        make_reachable(folder)  # like /etc, so that messages may quote the configuration
        self.runtime_directory = folder / "run"
        self.command: Sequence[str | Path] = [*capacityd(), "run", "--config", self.config]
        self.python = CLIENT
        self.process: Daemon | None = None
        self.notifications = Notifications(folder / "notify")
        self._position = cluster.audit.mark()

    def configure(self, resources: str = DONGLES, kubernetes: str = "", **service: str) -> None:
        """Writes a configuration. resources, kubernetes: TOML. service: durations for [service] ("": the default)."""
        # The machine of the tests may have just booted.
        service = {"lower_after": "1s", "lower_after_boot": "1s", **service}
        lines = [resources, "[service]", *(f'{key} = "{value}"' for key, value in service.items() if value)]
        self.config.write_text("\n".join([*lines, "[kubernetes]", f'kubeconfig = "{self.kubeconfig}"', kubernetes, ""]))

    def join(self, server: str | None = None, token: str | None = None) -> None:
        """Writes the kubelet's credentials to the machine. server: the URL of a proxy, in place of the API server's."""
        new = self.kubeconfig.with_name("kubeconfig.new")
        self.cluster.kubeconfig(node_user(self.node), new, server=server, token=token)
        new.rename(self.kubeconfig)

    def connect(self, url: str | None = None) -> None:
        """From now on, connections from the machine to this server (default: the API server) succeed."""
        self.machine.forward(_port(url or self.cluster.url))

    def disconnect(self) -> None:
        """From now on, connections from the machine to the API server are refused."""
        self.machine.refuse(_port(self.cluster.url))

    def start(self, wait: bool = True) -> None:
        """Starts the service. wait: until its first pass has ended and, unless the pass failed, it watches its Node."""
        command = self.machine.inside(
            ["env", "-i", *self._environment(), f"NOTIFY_SOCKET={self.folder}/notify", *self.command]
        )
        self.notifications.clear()
        self.process = Daemon(command, self.folder / "service.log")
        if wait:
            self.wait(lambda: self.notifications.count("READY=1"), PATIENCE, "the service is ready")
            self.wait_passes(1)
            self.wait_watched()

    def reload(self) -> None:
        """Reloads the service.

        Waits until it has checked the present configuration, made a pass with it, and watches its Node again.
        """
        assert self.process is not None
        self.wait_idle()
        ready = self.notifications.count("READY=1")
        self.process.send(signal.SIGHUP)

        def has_passed() -> bool:
            lines = self.notifications.all()
            if lines.count("READY=1") <= ready:
                return False
            last_check = max(at for at, line in enumerate(lines) if line == "READY=1")
            # The first STATUS is that of the configuration check, the second that of the pass after the reload.
            return sum(line.startswith("STATUS=") for line in lines[last_check:]) >= 2

        self.wait(has_passed, PATIENCE, "the service has reloaded")
        self.wait_watched()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ends the service."""
        assert self.process is not None
        self.process.stop(number)

    def cli(self, *arguments: str, status: int | None = None) -> subprocess.CompletedProcess[str]:
        """Runs a capacityd command on the machine, once no worker is running.

        status: the expected exit status. None: any.
        """
        self.wait_idle()
        options = [] if arguments[0] == "status" else [f"--config={self.config}"]
        command = self.inside([*capacityd(self.python), *arguments, *options])
        done = subprocess.run([*TIED_TO_US, *command], capture_output=True, text=True, timeout=PATIENCE)
        message = f"capacityd {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        assert status in (None, done.returncode), message
        return done

    def inside(self, command: Sequence[str | Path]) -> list[str | Path]:
        """Wraps a command to run on the machine, in the service's environment without NOTIFY_SOCKET."""
        return self.machine.inside(["env", "-i", *self._environment(), *command])

    def last_pass(self) -> PassStatus:
        """The last pass's state for `capacityd status`, once no worker is running."""
        self.wait_idle()
        return runtime_files.read_state(str(self.runtime_directory))

    def log(self) -> str:
        assert self.process is not None
        return self.process.output()

    @property
    def watched(self) -> bool:
        """Whether the service watches its Node."""
        assert self.process is not None
        folder = Path(f"/proc/{self.process.pid}/root{self.runtime_directory}")  # it may be a mount of the machine
        status = runtime_files.read_service(str(folder))
        return status is not None and status.watched_since is not None

    def wait_watched(self) -> None:
        """Waits until the service watches its Node, unless its last pass has failed."""
        self.wait(lambda: self.watched or self.last_pass().error, PATIENCE, "the service watches its Node")

    # Notifications to systemd

    def passes(self) -> int:
        """Waits until no worker is running. Returns the number of passes since the start."""
        self.wait_idle()
        return self._ended_passes()

    def wait_passes(self, more: int, since: int = 0) -> None:
        """Waits until this many passes more than `since` (from passes()) have ended."""
        self.wait(lambda: self._ended_passes() >= since + more, PATIENCE, f"{more} passes after {since}")

    def _ended_passes(self) -> int:
        return max(0, self.notifications.count("STATUS=") - 1)  # the first STATUS is that of the configuration check

    def wait_idle(self) -> None:
        """Waits until no worker is running, and the service has done everything that it does after a worker.

        So all effects of the last pass are there: Events, files, log entries, notifications.
        """
        daemon = self.process
        if daemon is None or daemon.process.poll() is not None:
            return
        # A worker that has ended remains a child until the service has reaped it (wait(2)).
        self.wait(lambda: not set(children(daemon.pid)) - watchers(daemon.pid), PATIENCE, "no worker is under way")
        turns = self.notifications.count("WATCHDOG=1")

        def has_turned() -> bool:
            # The signal makes the main loop turn once more, without a pass. Send it repeatedly: a signal that arrives
            # during a turn starts no further turn, and the next turn may be due in a minute.
            daemon.send(signal.SIGCHLD)
            return self.notifications.count("WATCHDOG=1") > turns

        self.wait(has_turned, PATIENCE, "its main loop turns")

    # Results

    def wait(self, condition: Callable[[], Any], deadline: float, what: str) -> Any:
        assert self.process is not None
        return self.process.wait_for(condition, deadline, what)

    def capacity(self, name: str = DONGLE) -> str | None:
        return self.cluster.capacity(self.node).get(name)

    def wait_error(self, text: str) -> None:
        """Waits until the last pass has failed with this text."""
        self.wait(lambda: text in self.last_pass().error, PROMPT, text)

    def wait_capacity(self, quantity: str | None, name: str = DONGLE) -> None:
        """Waits until the Node has this quantity. None: until it has no such key."""
        self.wait(lambda: self.capacity(name) == quantity, PROMPT, f"{name} is {quantity}")

    def published(self) -> dict[str, int]:
        """The names and numbers in the annotation of the Node."""
        return published_on(self.cluster.node(self.node))

    def condition(self) -> dict[str, Any]:
        """capacityd's condition on the Node, or {}."""
        return condition_of(self.cluster.node(self.node))

    def wait_true(self, dongles: str | None = None) -> None:
        """Waits until the condition is True. dongles: the number that must also be published and allocatable."""

        def is_true() -> bool:
            node = self.cluster.node(self.node)
            numbers = {node["status"][key].get(DONGLE) for key in ("capacity", "allocatable")}
            return condition_of(node).get("status") == "True" and (dongles is None or numbers == {dongles})

        self.wait(is_true, PROMPT, f"the condition is True (dongles: {dongles})")

    def events(self) -> list[str]:
        """The messages of the service's Events about its Node, oldest first, once no pass is running."""
        self._wait_no_worker()
        return our_events(self.cluster, self.node)

    def requests(self) -> list[Request]:
        """The service's requests since the last call, failed ones included, once no pass is running.

        A watch is included once it has ended.
        """
        self._wait_no_worker()
        begin, self._position = self._position, self.cluster.audit.mark()
        between = self.cluster.audit.between(begin, self._position)
        ours = [r for r in between if r.user_agent.startswith("capacityd/")]
        return [r for r in ours if self.node in (r.name, r.user.removeprefix("system:node:"))]

    def _wait_no_worker(self) -> None:
        """Waits until no worker is running, not even an orphan of a killed service."""
        service = self.process.pid if self.process else 0

        def is_quiet() -> bool:
            return set(self.machine.processes()) <= {service, *watchers(service)}

        wait_until(is_quiet, PATIENCE, "nothing but the service runs")
        self.wait_idle()

    def _environment(self) -> list[str]:
        """The service's environment without NOTIFY_SOCKET."""
        return [
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG=C.UTF-8",
            "SYSTEMD_DEVICE_VERIFY_SYSFS=0",
            f"RUNTIME_DIRECTORY={self.runtime_directory}",
        ]

    def end(self) -> None:
        if self.process is not None and self.process.process.poll() is None:
            self.process.stop()
        self.notifications.close()


def watchers(service: int) -> set[int]:
    """The PID of a service's watcher. Empty: it is still starting, and reads its credentials."""
    pids = set()
    for pid in children(service):
        with suppress(OSError):
            if b"capacityd.watcher" in Path(f"/proc/{pid}/cmdline").read_bytes() and not children(pid):
                pids.add(pid)
    return pids


def _port(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


@contextmanager
def service_on_machine(
    cluster: Cluster, *parts: Recording, node: str | None = None, kubelet: Kubelet | None = None, name: str = "service"
) -> Iterator[Service]:
    """The service, not started, on a machine with these devices that can reach the API server.

    node: an existing Node (default: a new one). kubelet: the kubelet of the machine, whose Node is used. name: a name
    for a second machine with the same Node.
    """
    if kubelet:
        node = kubelet.name
    elif node is None:
        node = cluster.create_node()
    folder = cluster.folder / f"{name}-{node}"
    folder.mkdir()
    with machine(folder, *parts, around=kubelet.inside([]) if kubelet else ()) as on_machine:
        running = Service(cluster, node, folder, on_machine)
        try:
            running.connect()
            running.configure()
            running.join()
            yield running
        finally:
            running.end()
