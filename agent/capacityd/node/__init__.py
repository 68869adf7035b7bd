"""The only interface to Kubernetes: this machine's Node, on the API server or in a file. All errors are NodeErrors.

No type or exception of a library leaves this package, and importing it imports no library.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import NamedTuple

from capacityd.model.node import Node


class Review(NamedTuple):
    """Our identity according to the API server (SelfSubjectReview)."""

    user: str
    node: str
    """The Node that the user's token is bound to, "" for none."""
    refused: float = 0.0
    """When the review was last repeated because of HTTP 403 and gave the same result, as time.monotonic(); 0: never."""


def open_node(
    kubeconfig: str | None,
    node_name: str | None,
    hostname: str,
    machine_id: str | None,
    reviews: MutableMapping[str, Review] | None = None,
) -> Node:
    """Returns this machine's Node on the API server, without sending a request.

    kubeconfig: None for the first of the kubelet's usual paths that exists.
    node_name: None to determine it from the credentials or the host name.
    hostname: this machine's.
    machine_id: this machine's, which the Node's must equal unless the credentials are those of the Node's kubelet; None
    to accept any Node.
    reviews: a cache of our identity for each user of a kubeconfig, which is updated.
    """
    from capacityd.node.api_node import ApiNode

    return ApiNode(kubeconfig, node_name, hostname, machine_id, {} if reviews is None else reviews)


def open_node_file(path: str) -> Node:
    """Returns the Node that is in this file as JSON; "-" is standard input."""
    from capacityd.node.file_node import FileNode

    return FileNode(path)
