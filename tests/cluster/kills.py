"""Kills passes with SIGKILL within 20 ms of the moment at which their PATCH is sent or answered.

    python -m tests.cluster.kills [--kills N] [--seed N]

A proxy holds back the request or its answer, and then kills the pass. After a kill, capacity and annotation must agree
on the old or the new numbers. The next pass must publish the new numbers. The judge must find no broken promise.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

from capacityd.model.options import Selection
from capacityd.model.reading import Quantity
from tests.cluster.agent import PYTHON
from tests.cluster.binaries import pinned
from tests.cluster.controlplane import Cluster, control_plane
from tests.cluster.judged import JudgedNode
from tests.cluster.processes import PATIENCE, TIED_TO_US
from tests.cluster.proxy import Action, Exchange, Proxy, fault_proxy
from tests.cluster.releases import programs
from tests.cluster.service import Service, service_on_machine
from tests.support.judge.surroundings import Configuration, ConfiguredResource, Writer
from tests.support.machines import bare
from tests.support.workers import worker_arguments

WINDOW = 0.02
"""A kill comes at most these seconds after its Moment."""

NAMES = ("example.com/a", "example.com/b")


class Moment(Enum):
    """How far the pass has come when it is killed."""

    UNSENT = "unsent"  # the request has left the pass, but never reaches the API server
    SENT = "sent"  # the API server may be carrying it out
    UNANSWERED = "unanswered"  # the API server has carried out the request, but the answer never reaches the pass
    ANSWERED = "answered"  # the pass has the answer, and may be saving its record


class Killer:
    """Starts passes one after the other, and kills them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def start(self) -> None:
        """Starts a pass."""
        self._ask("start")

    def kill(self) -> bool:
        """Kills the pass. Returns whether it was still running."""
        return self._ask("kill") == "killed"

    def finish(self) -> None:
        """Waits until the pass ends."""
        self._ask("wait")

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        return self._process.stdout.readline().strip()


@contextmanager
def killer(service: Service) -> Iterator[Killer]:
    """A Killer for the passes of this service. The service itself must not be running."""
    arguments = worker_arguments(service.runtime_directory, Selection(str(service.config)))
    command = service.inside([PYTHON, "-I", Path(__file__).with_name("killer.py"), *arguments])
    process = subprocess.Popen([*TIED_TO_US, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        yield Killer(process)
        assert process.stdin is not None
        process.stdin.close()


def run(cluster: Cluster, proxy: Proxy, count: int, seed: int) -> Counter[Moment]:
    """Kills this many running passes. Returns the number of kills at each moment.

    Raises AssertionError if the Node is wrong afterwards.
    """
    chance = random.Random(seed)
    moments: Counter[Moment] = Counter()
    with service_on_machine(cluster, bare(), name=f"kills-{seed}") as service, killer(service) as passes:
        new = dict.fromkeys(NAMES, 0)
        _publish(service, proxy, new)
        # The judge has not seen who published these keys, so their change counts as an adoption.
        adopted = {name: ConfiguredResource(adopt=True) for name in NAMES}
        judged = JudgedNode(cluster, service.node, Configuration(adopted), at=time.monotonic)
        while moments.total() < count:
            old = new
            new = {name: chance.choice([n for n in range(9) if n != old[name]]) for name in NAMES}
            moment, delay = chance.choice([*Moment]), chance.uniform(0.0, WINDOW)
            _set_files(service, new)
            try:
                moments[moment] += _kill_one(proxy, passes, judged, new, (moment, delay))
                published = _published(service)
                assert published in (old, new), f"{old} to {new} became {published}"
                _make_next_pass(passes, judged, new)
                assert not judged.faults(), f"{judged.faults()}: {_published(service)} instead of {new}"
                assert service.condition()["status"] == "True", service.condition()
            except AssertionError as e:
                raise AssertionError(f"seed {seed}, {moment} after {delay}: {e}") from e
    return moments


def _publish(service: Service, proxy: Proxy, numbers: Mapping[str, int]) -> None:
    """Makes the service publish these numbers through the proxy, and stops it."""
    _set_files(service, numbers)
    resources = [f'[resources."{name}"]\nfile = {{ path = "{_file(service, name)}" }}\n' for name in NAMES]
    service.configure("".join(resources), lower_after="0s", lower_after_boot="0s")
    service.connect(proxy.url)
    service.join(proxy.url)
    service.start()
    service.stop()
    assert _published(service) == numbers


def _kill_one(
    proxy: Proxy, passes: Killer, judged: JudgedNode, numbers: Mapping[str, int], when: tuple[Moment, float]
) -> bool:
    """Starts a pass, and kills it this many seconds after this moment. Returns whether it was still running."""
    _judge_sees(judged, numbers)
    judged.tell_node_read()
    killed: Future[bool] = Future()
    proxy.actions[:] = [_kill(passes, judged, *when, killed)]
    passes.start()
    was_running = killed.result(PATIENCE)
    judged.tell_node_changed(Writer.CAPACITYD)
    return was_running


def _make_next_pass(passes: Killer, judged: JudgedNode, numbers: Mapping[str, int]) -> None:
    _judge_sees(judged, numbers)
    passes.start()
    passes.finish()
    judged.tell_node_changed(Writer.CAPACITYD)


def _judge_sees(judged: JudgedNode, numbers: Mapping[str, int]) -> None:
    """A pass begins without a memory, and reads these numbers."""
    judged.tell_memory_lost()
    judged.tell_pass_reads({name: Quantity(number) for name, number in numbers.items()})


def _file(service: Service, name: str) -> Path:
    return service.folder / name.partition("/")[2]


def _set_files(service: Service, numbers: Mapping[str, int]) -> None:
    for name, number in numbers.items():
        _file(service, name).write_text(str(number))


def _published(service: Service) -> Mapping[str, int] | None:
    """The quantities on which capacity and annotation agree. None: they differ."""
    stored = service.cluster.capacity(service.node)
    capacity = {name: int(stored[name]) for name in NAMES if name in stored}
    return capacity if capacity == service.published() else None


def _kill(passes: Killer, judged: JudgedNode, moment: Moment, delay: float, killed: Future[bool]) -> Action:
    """An action of the proxy that kills the pass. `killed` gets the result: whether the pass was still running."""

    def action(exchange: Exchange) -> None:
        judged.tell_patch(exchange.headers["Content-Type"], json.loads(exchange.body))
        with ThreadPoolExecutor() as pool:  # its end waits for the API server's answer
            if moment is not Moment.UNSENT:
                fetched = pool.submit(exchange.fetch)
                if moment is not Moment.SENT:
                    fetched.result()
                if moment is Moment.ANSWERED:
                    exchange.send(fetched.result())
            time.sleep(delay)
            was_running = passes.kill()
        exchange.close_connection = True
        killed.set_result(was_running)

    return action


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with control_plane(binaries=programs(pinned(), None)) as cluster, fault_proxy(cluster) as proxy:
        for moment, number in run(cluster, proxy, options.kills, options.seed).items():
            print(f"{number} kills when the PATCH was {moment.value}")


if __name__ == "__main__":
    main()
