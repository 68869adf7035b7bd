"""The cost of the run, as lines of text. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.cluster.audit import Request
from tests.cluster.scale.steps import RestartApiServer, RestartKubelet, RestartService, Step, WriteOther


@dataclass(frozen=True, slots=True)
class Figures:
    """requests: what was asked, such as "patch nodes/status", and its answer's code -> how often.

    seconds: CPU time of all services and their children from the first change to the agreement. peak: the most memory
    of a resident process, in KiB. converged: of each Node, seconds from its last change until it agreed.
    """

    nodes: int
    steps: Sequence[Step]
    requests: Mapping[tuple[str, int], int]
    seconds: float
    duration: float
    peak: int
    converged: Sequence[float]

    def lines(self) -> list[str]:
        kinds = Counter(map(kind, self.steps))
        changes = sum(not isinstance(step, RestartApiServer) for step in self.steps)
        made = sum(self.requests.values())
        refused = {code: sum(n for (_, c), n in self.requests.items() if c == code) for code in (409, 422)}
        return [
            f"Nodes: {self.nodes}; changes of a Node: {changes} in {self.duration:.0f} s",
            *(f"  {name}: {number}" for name, number in sorted(kinds.items())),
            f"requests: {made}, {made / changes:.1f} for each change",
            *(f"  {what} {code}: {number}" for (what, code), number in sorted(self.requests.items())),
            f"  conflicts: {refused[409]} with 409, {refused[422]} with 422",
            f"CPU time: {self.seconds:.0f} s, {1000 * self.seconds / changes:.0f} ms for each change",
            f"resident processes: at most {self.peak / 1024:.1f} MiB",
            "from the last change of a Node until it agreed: "
            f"median {statistics.median(self.converged):.0f} s, at most {max(self.converged):.0f} s",
        ]


def kind(step: Step) -> str:
    """The name of a step in the figures."""
    match step:
        case RestartApiServer(kill):
            return f"API server restarted by {'SIGKILL' if kill else 'SIGTERM'}"
        case RestartService(kill=kill):
            return f"service restarted by {'SIGKILL' if kill else 'SIGTERM'}"
        case RestartKubelet(zeroes=zeroes):
            return f"kubelet restarted, {'zeroing' if zeroes else 'without zeroing'}"
        case WriteOther(name=name):
            return f"second writer, {name}"
        case _:
            return {"SetDongles": "dongles", "SetSeats": "seats", "Reload": "configuration reloaded"}[
                type(step).__name__
            ]


def count(requests: Iterable[Request]) -> dict[tuple[str, int], int]:
    """How often each was made, by its answer."""
    return Counter((f"{r.verb} {'/'.join(filter(None, (r.resource, r.subresource)))}", r.code) for r in requests)
