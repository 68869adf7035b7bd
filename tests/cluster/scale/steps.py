"""The steps that change the Nodes, one after the other: drawn from a seed, so that a run can be repeated. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

DONGLE, SEATS, SLOTS = OURS = ("example.com/dongle", "example.com/seats", "example.com/slots")
"""The resources that capacityd may be configured to publish: USB devices, a number in a file, and a fixed number."""

FOREIGN = "vendor.example/card"
MOST_DONGLES = 4

Resources: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetDongles:
    """So many are plugged in from now on."""

    node: int
    number: int


@dataclass(frozen=True, slots=True)
class SetSeats:
    """The number in the file; None: what is in it is no number, so it is unknown."""

    node: int
    number: int | None


@dataclass(frozen=True, slots=True)
class Reload:
    """The configuration names other resources, and the service is reloaded. slots: the fixed number."""

    node: int
    resources: Resources
    slots: int


@dataclass(frozen=True, slots=True)
class RestartKubelet:
    """It makes its socket anew. zeroes: whether it sets all extended resources to 0.

    late: after so many reads of its Node, each second, it writes it for the first time.
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
    """kill: by SIGKILL, with all its children, as systemd does; else by SIGTERM.

    reboot: it comes back without /run, and the hardware has changed without an event.
    """

    node: int
    kill: bool
    reboot: bool
    dongles: int


@dataclass(frozen=True, slots=True)
class RestartApiServer:
    """kill: by SIGKILL; else by SIGTERM."""

    kill: bool


OfNode: TypeAlias = SetDongles | SetSeats | Reload | RestartKubelet | WriteOther | RestartService
Step: TypeAlias = OfNode | RestartApiServer

_API_SERVER = 0.012  # the share of its restarts among the steps
_AGAIN = 0.5  # how often a step concerns a Node of the last few, so that changes meet on their way
_LAST = 3


def draw(seed: int, nodes: int, number: int) -> list[Step]:
    """So many steps for so many Nodes; the same ones for the same seed."""
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
        (kind,) = source.choices(list(_KINDS), weights=list(_KINDS.values()))
        steps.append(kind(source, node))
    return steps


def _dongles(source: random.Random, node: int) -> OfNode:
    return SetDongles(node, source.randint(0, MOST_DONGLES))


def _seats(source: random.Random, node: int) -> OfNode:
    return SetSeats(node, None if source.random() < 0.3 else source.randint(0, 9))


def _reload(source: random.Random, node: int) -> OfNode:
    resources: Sequence[str] = source.sample(OURS, source.randint(1, len(OURS)))
    return Reload(node, tuple(sorted(resources)), source.randint(1, 9))


def _kubelet(source: random.Random, node: int) -> OfNode:
    return RestartKubelet(node, source.random() < 0.75, source.randint(0, 4))


def _foreign(source: random.Random, node: int) -> OfNode:
    return WriteOther(node, FOREIGN, _value(source))


def _ours(source: random.Random, node: int) -> OfNode:
    return WriteOther(node, source.choice(OURS), _value(source))


def _value(source: random.Random) -> int | None:
    """Half of them remove the key: so one of ours that was given up to the second writer can be had again."""
    return None if source.random() < 0.5 else source.randint(0, 12)


def _service(source: random.Random, node: int) -> OfNode:
    kill, reboot = source.random() < 0.7, source.random() < 0.3
    return RestartService(node, kill, reboot, source.randint(0, MOST_DONGLES))


_KINDS: Mapping[Callable[[random.Random, int], OfNode], int] = {
    _dongles: 30,
    _seats: 20,
    _reload: 12,
    _kubelet: 10,
    _foreign: 8,
    _ours: 8,
    _service: 12,
}
"""The function that draws each step, and its percentage."""
