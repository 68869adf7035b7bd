"""The one door to Kubernetes: this machine's Node, on the API server or in a file. Errors are NodeError.

No library's type or exception comes through it, and importing it loads none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Protocol

from capacityd.capacity import Event, NodeState


class Node(Protocol):
    """A Node. Every method, and the name, may ask the API server and raise NodeError."""

    @property
    def name(self) -> str:
        """The Node's name; on the API server that whose identity this is."""

    def read(self) -> NodeState:
        """What the Node says now."""

    def write(self, patch: Sequence[Mapping[str, object]]) -> NodeState:
        """Applies a JSON Patch to the Node and its status, all of it or nothing; what the Node says then.

        Raises NodeConflict if a guard in it does not hold.
        """

    def report(self, event: Event, state: NodeState) -> None:
        """Tells this of the Node to those who look at it. state: as last read or written."""


def open_node(
    kubeconfig: str | None,
    node_name: str | None,
    node_file: str | None,
    hostname: str,
    machine_id: str | None,
    reviews: MutableMapping[str, Sequence[str]] | None = None,
) -> Node:
    """The Node to work on; asks nobody yet.

    kubeconfig: None for the first of the kubelet's usual places that exists. node_name: None to have it found out.
    node_file: a Node as JSON instead of the API server, "-" for standard input. hostname: this machine's. machine_id:
    this machine's, which the Node's must equal unless the API server itself tells us that the Node is ours; None if
    any Node will do. reviews: what the API server has said of whom credentials are, so that it is asked once for each;
    what it says is added.
    """
    if node_file is not None:
        from capacityd.node.file import FileNode

        return FileNode(node_file)
    from capacityd.node.api import ApiNode

    return ApiNode(kubeconfig, node_name, hostname, machine_id, {} if reviews is None else reviews)
