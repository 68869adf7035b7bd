"""A Node on the real API server, and a judge (tests/support/judge) that sees its changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from capacityd.model.reading import Reading
from tests.cluster.controlplane import Cluster
from tests.support.judge.faults import Fault, faults
from tests.support.judge.judge import Judge
from tests.support.judge.surroundings import Configuration, Trouble, Writer
from tests.support.model.answers import Rejected, apply


class JudgedNode:
    """A Node that has just been registered, and its judge. Each method tell_…() tells the judge what has happened.

    at: a function that returns the judge's time in seconds.
    """

    def __init__(self, cluster: Cluster, name: str, configuration: Configuration, at: Callable[[], float]) -> None:
        self.judge = Judge()
        self._cluster, self._name, self._at = cluster, name, at
        self._last: Any = None
        self.judge.configuration_becomes(at(), configuration)
        self.judge.trouble_begins(at(), Trouble.STOPPED)
        self.tell_node_changed(Writer.OTHER)

    @property
    def document(self) -> Any:
        """The present Node."""
        return self._cluster.node(self._name)

    def tell_pass_reads(self, readings: Mapping[str, Reading]) -> None:
        """The machine has new readings, and a pass without a memory reads them."""
        self.judge.trouble_begins(self._at(), Trouble.STOPPED)
        self.judge.readings_become(self._at(), readings)
        self.judge.pass_reads(self._at(), readings)

    def tell_memory_lost(self) -> None:
        """capacityd has lost its memory: a pass was killed, or begins without one."""
        self.judge.capacityd_forgets(self._at())

    def tell_node_read(self) -> None:
        """capacityd reads the Node."""
        self.judge.pass_requests(self._at())
        self.judge.pass_sees(self._at(), self.document)

    def tell_patch(self, content_type: str, patch: Any) -> None:
        """capacityd sends a PATCH. The API server rejects a PATCH for another version of the Node."""
        before = self.document
        try:
            after = apply(before, content_type, patch)
        except Rejected:
            return
        self.judge.pass_patches(self._at(), before, after)

    def tell_node_changed(self, by: Writer) -> None:
        """Somebody may have changed the Node."""
        if (document := self.document) != self._last:
            self._last = document
            self.judge.node_becomes(self._at(), document, by)

    def faults(self) -> frozenset[Fault]:
        """What is wrong with the Node now."""
        memory = self.judge.memory
        return faults(memory, self.document, memory.readings)
