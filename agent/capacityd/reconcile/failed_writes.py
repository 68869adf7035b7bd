"""Writes that the API server answers with a server error although reads of the Node succeed.

While the API server starts, such errors end within seconds. If they last longer, the API server rejects the content,
for example because the Node is too large for etcd. Then capacityd writes the changes in parts, so that the rejected
part does not block the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capacityd.model.errors import NodeError, NodeRejected, NodeWriteFailed
from capacityd.model.node import Event, Node, NodeState

_REJECTED_AFTER = 60.0
"""Seconds after which writes that fail count as rejected."""


def failing_since(last: float | None, error: NodeError, uptime: float) -> float | None:
    """The uptime at which writes began to fail; None if they do not fail, as far as known.

    last: the previous result of this function. error: the error that ended the pass.
    """
    if isinstance(error, NodeWriteFailed):
        return uptime if last is None else last
    return last if isinstance(error, NodeRejected) else None


def counts_as_rejection(since: float | None, uptime: float) -> bool:
    """Whether to treat a write that fails as rejected. since: the result of failing_since()."""
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
