"""Writes that the API server answers with a server error although it lets the Node be read.

While the API server starts, that ends within seconds. What lasts longer is a rejection of what is written, for example
of a Node that is too large for etcd. Then the changes are written in parts, so that what is rejected blocks no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capacityd.model.errors import NodeError, NodeRejected, NodeWriteFailed
from capacityd.model.node import Event, Node, NodeState

_REJECTED_AFTER = 60.0
"""Seconds after which writes that fail count as rejected."""


def failing_since(last: float | None, error: NodeError, uptime: float) -> float | None:
    """Since when writes fail, after a pass that has ended with this error; None: they don't, as far as is known.

    last: the same before the pass.
    """
    if isinstance(error, NodeWriteFailed):
        return uptime if last is None else last
    return last if isinstance(error, NodeRejected) else None


def counts_as_rejection(since: float | None, uptime: float) -> bool:
    """Whether a write that fails is rejected. since: as failing_since() returns it."""
    return since is not None and uptime - since >= _REJECTED_AFTER


class RejectingNode:
    """A Node whose writes raise NodeRejected instead of NodeWriteFailed."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def name(self) -> str:
        """The Node's name."""
        return self._node.name

    def read(self) -> NodeState:
        """Reads the Node."""
        return self._node.read()

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        """Writes the Node. Raises NodeError, but not NodeWriteFailed."""
        try:
            return self._node.write(patch)
        except NodeWriteFailed as e:
            raise e.rejection from e

    def report(self, event: Event, state: NodeState) -> None:
        """Creates an Event."""
        self._node.report(event, state)
