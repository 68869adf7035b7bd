"""The only interface to Kubernetes: this machine's Node, on the API server or in a file. All errors are NodeErrors.

No type or exception of a library leaves this package, and importing it imports no library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from capacityd.model.node import Node


class Review(NamedTuple):
    """The identity of our credentials, according to the API server (SelfSubjectReview)."""

    user: str
    node: str
    """The Node that the user's token is bound to; "" for none."""
    credentials: str
    """A hash of the user's credentials."""
    impersonated: bool = False
    """Whether the credentials are another user's, which acts as this one. The kubeconfig names it (as)."""
    refused: float | None = None
    """When the review was last repeated after HTTP 403 or 404 with the same result, as time.monotonic(); None: never.
    """


@dataclass(slots=True)
class ReviewCache:
    """What a pass knows of its credentials: the last review, and the files that were last used.

    All Nodes that a pass opens share one cache.
    """

    review: Review | None = None
    files: tuple[str, ...] = ()
    """The files with the credentials that were last used."""


def open_node(  # noqa: PLR0913  # what identifies the Node and the machine
    kubeconfig: str | None,
    node_name: str | None,
    hostname: str,
    machine_id: str | None,
    cache: ReviewCache | None = None,
    system_uuid: str = "",
) -> Node:
    """Returns this machine's Node on the API server, without sending a request.

    kubeconfig: None for the first existing one of the kubelet's usual paths.
    node_name: None to determine the name from the credentials or the host name.
    hostname: this machine's host name.
    machine_id: this machine's id. The Node's must be equal, unless the credentials are those of the Node's kubelet.
    None accepts any Node.
    cache: what an earlier pass knew of the credentials; None if there was none.
    system_uuid: this machine's; "" if unknown. It tells clones with the same machine id apart.
    """
    from capacityd.node.api_node import ApiNode

    return ApiNode(
        kubeconfig=kubeconfig,
        node_name=node_name,
        hostname=hostname,
        machine_id=machine_id,
        cache=cache or ReviewCache(),
        system_uuid=system_uuid,
    )


def open_node_file(path: str) -> Node:
    """Returns the Node in this JSON file; "-" is standard input."""
    from capacityd.node.file_node import FileNode

    return FileNode(path)
