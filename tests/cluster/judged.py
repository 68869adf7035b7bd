"""A Node on the real API server, and a judge (tests/support/judge) that sees its changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from capacityd.model.reading import Reading
from tests.cluster.controlplane import Cluster
from tests.support.judge import observations
from tests.support.judge.faults import Fault, faults
from tests.support.judge.judge import Judge
from tests.support.judge.observations import Configuration, Observation, Trouble, Writer
from tests.support.model.answers import Rejected, apply


class JudgedNode:
    """A Node that has just been registered, and its judge. at: a function that returns the judge's time in seconds."""

    def __init__(self, cluster: Cluster, name: str, configuration: Configuration, at: Callable[[], float]) -> None:
        self.judge = Judge()
        self._cluster, self._name, self._at = cluster, name, at
        self._last: Any = None
        self._tell(observations.Configured(at(), configuration))
        self._tell(observations.Begins(at(), Trouble.STOPPED))
        self.changed(Writer.OTHER)

    @property
    def document(self) -> Any:
        """The present Node."""
        return self._cluster.node(self._name)

    def has(self, readings: Mapping[str, Reading]) -> None:
        """The machine has these readings, and a pass without a memory reads them."""
        self._tell(observations.Begins(self._at(), Trouble.STOPPED))
        self._tell(observations.MachineHas(self._at(), readings))
        self._tell(observations.PassReads(self._at(), readings))

    def forgets(self) -> None:
        """capacityd has lost its memory: a pass was killed, or begins without one."""
        self._tell(observations.Forgets(self._at()))

    def seen(self) -> None:
        """capacityd reads the Node."""
        self._tell(observations.Requests(self._at()))
        self._tell(observations.Sees(self._at(), self.document))

    def asked(self, content_type: str, patch: Any) -> None:
        """capacityd sends a PATCH. The API server rejects a PATCH for another version of the Node."""
        before = self.document
        try:
            after = apply(before, content_type, patch)
        except Rejected:
            return
        self._tell(observations.Asks(self._at(), before, after))

    def changed(self, by: Writer) -> None:
        """Somebody may have changed the Node."""
        if (document := self.document) != self._last:
            self._last = document
            self._tell(observations.NodeIs(self._at(), document, by))

    def faults(self) -> frozenset[Fault]:
        """What is wrong with the Node now."""
        ghosts = self.judge.ghosts
        return faults(ghosts, self.document, ghosts.readings)

    def _tell(self, observation: Observation) -> None:
        self.judge.observe(observation)
