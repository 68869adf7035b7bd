"""The steps that change the Nodes, one after the other. They depend on a seed, so that a run can be repeated. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

DONGLE, SEATS, SLOTS = OURS = ("example.com/dongle", "example.com/seats", "example.com/slots")
"""The resources that capacityd may be configured to publish: USB devices, a number in a file, and a fixed number."""

FOREIGN = "vendor.example/card"
MOST_DONGLES = 4

Resources: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetDongles:
    """This number of dongles is plugged in from now on."""

    node: int
    number: int


@dataclass(frozen=True, slots=True)
class SetSeats:
    """This number is in the file; None: the file contains no number, so the quantity is unknown."""

    node: int
    number: int | None


@dataclass(frozen=True, slots=True)
class Reload:
    """The configuration changes to these resources, and the service reloads. slots: the fixed number."""

    node: int
    resources: Resources
    slots: int


@dataclass(frozen=True, slots=True)
class RestartKubelet:
    """The kubelet creates its socket anew. zeroes: whether it sets all extended resources to 0.

    late: how many turns (of one second) pass before it first writes its Node.
    """

    node: int
    zeroes: bool
    late: int


@dataclass(frozen=True, slots=True)
class WriteOther:
    """A second writer sets a key of the Node's capacity, or removes it (None)."""

    node: int
    name: str
    value: int | None


@dataclass(frozen=True, slots=True)
class RestartService:
    """kill: stop by SIGKILL, with all its children, as systemd does; else by SIGTERM.

    reboot: the service starts again without /run, and the hardware has changed without an event.
    """

    node: int
    kill: bool
    reboot: bool
    dongles: int


@dataclass(frozen=True, slots=True)
class RestartApiServer:
    """kill: stop by SIGKILL; else by SIGTERM."""

    kill: bool


OfNode: TypeAlias = SetDongles | SetSeats | Reload | RestartKubelet | WriteOther | RestartService
Step: TypeAlias = OfNode | RestartApiServer

_API_SERVER = 0.012  # the share of restarts of the API server among the steps
_AGAIN = 0.5  # the share of steps for one of the last few Nodes, so that changes overlap
_LAST = 3


_PERCENT: Mapping[type[OfNode], int] = {
    SetDongles: 30,
    SetSeats: 20,
    Reload: 12,
    RestartKubelet: 10,
    WriteOther: 16,
    RestartService: 12,
}


def draw(seed: int, nodes: int, number: int) -> list[Step]:
    """This number of steps for this number of Nodes. The same seed gives the same steps."""
    source = random.Random(seed)
    lately: list[int] = []
    steps: list[Step] = []
    while len(steps) < number:
        if source.random() < _API_SERVER:
            steps.append(RestartApiServer(kill=source.random() < 0.5))
            continue
        again = lately and source.random() < _AGAIN
        node = source.choice(lately) if again else source.randrange(nodes)
        lately = [*lately, node][-_LAST:]
        (kind,) = source.choices(list(_PERCENT), weights=list(_PERCENT.values()))
        steps.append(_step(source, kind, node))
    return steps


def _step(source: random.Random, kind: type[OfNode], node: int) -> OfNode:
    """A step of this kind, for this Node."""
    if kind is SetDongles:
        return SetDongles(node, source.randint(0, MOST_DONGLES))
    if kind is SetSeats:
        return SetSeats(node, None if source.random() < 0.3 else source.randint(0, 9))
    if kind is Reload:
        resources: Sequence[str] = source.sample(OURS, source.randint(1, len(OURS)))
        return Reload(node, tuple(sorted(resources)), source.randint(1, 9))
    if kind is RestartKubelet:
        return RestartKubelet(node, source.random() < 0.75, source.randint(0, 4))
    if kind is RestartService:
        kill, reboot = source.random() < 0.7, source.random() < 0.3
        return RestartService(node, kill, reboot, source.randint(0, MOST_DONGLES))
    # Half of these steps remove the key, so that capacityd can publish a key again that it left to the second writer.
    name = source.choice((*OURS, FOREIGN, FOREIGN, FOREIGN))
    return WriteOther(node, name, None if source.random() < 0.5 else source.randint(0, 12))
