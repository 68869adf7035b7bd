"""One Kubernetes node in a virtual machine for the whole story, and what the story took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.processes import workspace
from tests.machine.image import debian_12, image
from tests.machine.node import CLOUD_INIT, node_files
from tests.machine.qemu import BOOT, VirtualMachine, virtual_machine
from tests.machine.story import HARDWARE, hardware
from tests.machine.watch import NodeWatch
from tests.package.packages import build_older, copy_sources

_TOOK = pytest.StashKey[dict[str, float]]()


@dataclass(frozen=True, slots=True)
class Node:
    """sources: of the package under test, of which an older version is in its image. begun: when it was switched on.

    took: for the report, in seconds. cut: by the machine's clock, when its network was cut and when it was whole again.
    """

    name: str
    vm: VirtualMachine
    cluster: Cluster
    watch: NodeWatch
    sources: Path
    begun: float
    took: dict[str, float] = field(default_factory=dict)
    cut: list[float] = field(default_factory=list)

    @property
    def user(self) -> str:
        return f"system:node:{self.name}"

    def published(self, expected: dict[str, str | None], since: float, what: str, deadline: float = BOOT) -> None:
        """Waits until the capacity holds this (None: the name is not there), and notes how long it took."""

        def fits(node: dict[str, dict[str, dict[str, str]]]) -> bool:
            capacity = node["status"].get("capacity", {})
            return {name: capacity.get(name) for name in expected} == expected

        try:
            self.took[what] = self.watch.wait(fits, deadline, f"{what}: {expected}", since) - since
        except TimeoutError as e:
            raise TimeoutError(f"{e}\n{self.vm.journal()[-6000:]}") from None


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest) -> Iterator[Node]:
    """Switched on, with the package in its image, not enabled; its first boot has just begun."""
    with ExitStack() as stack:
        folder, pool = stack.enter_context(workspace()), stack.enter_context(ThreadPoolExecutor())
        sources = copy_sources(folder / "sources")
        tree, older = pool.submit(debian_12), pool.submit(build_older, sources, folder)
        cluster = stack.enter_context(control_plane())  # in the time that those two take
        name = cluster.node_name()
        disk = image(folder / "system", tree.result(), [older.result()], node_files(cluster, name, HARDWARE))
        begun = time.monotonic()
        with virtual_machine(disk, tree.result(), hardware(folder), memory=1536, commandline=CLOUD_INIT) as vm:
            node = Node(name, vm, cluster, NodeWatch(cluster, name), sources, begun)
            request.config.stash[_TOOK] = node.took
            yield node
            node.took["all of it, from switching it on"] = time.monotonic() - begun


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    took = terminalreporter.config.stash.get(_TOOK, {})
    if took:
        terminalreporter.section("from the command to the API server's watch event, in seconds")
    for what, seconds in took.items():
        terminalreporter.write_line(f"{seconds:6.1f}  {what}")
