"""One run: starts the services, makes the steps, and waits until every Node agrees."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

from tests.cluster.controlplane import Cluster
from tests.cluster.processes import wait_until
from tests.cluster.scale.member import Member, member
from tests.cluster.scale.others import Others
from tests.cluster.scale.steps import OfNode, RestartApiServer, RestartKubelet, Step, WriteOther, draw

Say = Callable[[str], None]

_AT_ONCE = 4  # how many services start or reload at a time
_LONGEST_PAUSE = 180.0  # seconds: 90 after an error, 60 because a resource keeps changing, and 30 more
_REPORT_AFTER = 30.0  # seconds
_LOG = 5000  # characters
_FEW = 5


@dataclass(frozen=True, slots=True)
class Scenario:
    """rate: steps a second; None: as fast as possible. resync: the interval of each service, in seconds."""

    nodes: int
    steps: int
    seed: int
    rate: float | None = None
    resync: int = 10
    lower_after: str = "1s"


class Disagreement(Exception):
    """Nodes differ from their expected state; the message contains their histories."""


class Run:
    """The Nodes of a cluster with their running services."""

    def __init__(
        self, cluster: Cluster, members: Sequence[Member], others: Others, scenario: Scenario, say: Say
    ) -> None:
        self._cluster = cluster
        self._members = members
        self._others = others
        self._scenario = scenario
        self._say = say
        self._reported_at = time.monotonic()

    def make(self) -> None:
        """Makes the run. Raises Disagreement, TimeoutError, or RuntimeError if a service has ended."""
        steps = draw(self._scenario.seed, len(self._members), self._scenario.steps)
        self._wait_agreement("when the services have started")
        self._make(steps)
        self._cluster.api_server.wait_ready()
        self._wait_agreement("after the last change")
        # A pass that began before the last change may still write. After a reload, each pass has read everything.
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(Member.reload, self._members))
        self._wait_agreement("after a reload of each service")
        for each in self._members:
            each.service.stop()
        self._wait_agreement("after the services have ended", running=False)

    def _make(self, steps: Sequence[Step]) -> None:
        for number, step in enumerate(steps):
            due = time.monotonic() + (1 / self._scenario.rate if self._scenario.rate else 0.0)
            self._nothing_due()
            while (left := due - time.monotonic()) > 0:
                time.sleep(min(0.2, left))
                self._nothing_due()
            self._progress(f"step {number} of {len(steps)}", 0)
            if isinstance(step, RestartApiServer):
                self._cluster.api_server.wait_ready()  # it may still be starting after the last restart
                self._say(f"step {number} of {len(steps)}: {step}")
                self._cluster.api_server.stop(signal.SIGKILL if step.kill else signal.SIGTERM)
                self._cluster.api_server.start()
            else:
                self._apply(step)

    def _apply(self, step: OfNode) -> None:
        concerned = self._members[step.node]
        concerned.apply(step)
        if isinstance(step, RestartKubelet | WriteOther):
            self._others.submit(concerned, step)

    def _nothing_due(self) -> bool:
        """Whether all steps have been carried out. Raises errors of the other writers and the services."""
        self._others.check()
        left = [each for each in self._members if not each.check()]
        return not left and self._others.idle()

    def _wait_agreement(self, when: str, running: bool = True) -> None:
        """Waits until all Nodes agree in a read made after all steps were carried out. Raises Disagreement."""
        reads: list[int] = []

        def agree() -> bool:
            self._others.check()
            done = not running or self._nothing_due()
            if not reads and done:
                reads.append(self._others.reads() + 2)  # a read may be under way
            self._progress(when, _FEW)
            return bool(reads) and self._others.reads() >= reads[0] and not self._disagreeing()

        try:
            wait_until(agree, 1.2 * self._scenario.resync + _LONGEST_PAUSE, f"all Nodes agree {when}")
        except TimeoutError as error:
            raise Disagreement("\n".join([f"{error}", *map(self._report, self._disagreeing())])) from None
        self._say(f"{when}: every Node agrees")

    def _progress(self, when: str, most: int) -> None:
        """Reports now and then how many Nodes agree, and how at most this many others differ."""
        if time.monotonic() - self._reported_at > _REPORT_AFTER:
            self._reported_at = time.monotonic()
            disagreeing = self._disagreeing()
            self._say(f"{when}: {len(self._members) - len(disagreeing)} of {len(self._members)} Nodes agree")
            for each in disagreeing[:most]:
                self._say(f"  {each.name}: {'; '.join(each.disagreements)}")

    def _disagreeing(self) -> list[Member]:
        return [each for each in self._members if not each.agrees]

    def _report(self, each: Member) -> str:
        """Everything known about a Node that differs from its expected state."""
        lines = [f"Node {each.name}, seed {self._scenario.seed}:", *each.disagreements, "its history:", *each.history]
        lines += ["the end of its service's log:", (each.service.folder / "service.log").read_text()[-_LOG:]]
        file = each.service.runtime_directory / "state.json"
        lines.append(f"{file.name}: {file.read_text() if file.exists() else None}")
        return "\n".join([*lines, json.dumps(self._cluster.node(each.name)), ""])


def run(cluster: Cluster, scenario: Scenario, say: Say) -> None:
    """Starts the services, a few at a time, and makes the run. Raises as Run.make()."""
    with ExitStack() as stack:
        others = stack.enter_context(Others(cluster))
        members: list[Member] = []
        for number in range(scenario.nodes):
            name = cluster.create_node()
            made = stack.enter_context(member(cluster, name, scenario.lower_after, f"{scenario.resync}s"))
            others.add(made)
            made.start()
            members.append(made)
            before = members[max(0, number + 1 - _AT_ONCE)]
            before.service.wait_notification("READY=1")
        say(f"{scenario.nodes} services have started")
        Run(cluster, members, others, scenario, say).make()
