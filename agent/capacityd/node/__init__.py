"""The only interface to Kubernetes: this machine's Node, on the API server or in a file. All errors are NodeErrors.

No type or exception of a library leaves this package, and importing it imports no library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from capacityd.model.node import Node


class Review(NamedTuple):
    """The identity of our credentials, according to the API server (SelfSubjectReview)."""

    user: str
    node: str
    """The Node that the user's token is bound to; "" for none."""
    refused: float = 0.0
    """When the review was last repeated after HTTP 403 with the same result, as time.monotonic(); 0: never."""


class ReviewCache:
    """Known reviews, by a hash of the user's credentials. All Nodes that a pass opens share one cache."""

    def __init__(self, reviews: Mapping[str, Review] | None = None) -> None:
        self._reviews = dict(reviews or {})

    @property
    def reviews(self) -> Mapping[str, Review]:
        """The reviews, as the initial content for the next pass."""
        return dict(self._reviews)

    def get(self, key: str) -> Review | None:
        """Returns this user's review; None if it is not known."""
        return self._reviews.get(key)

    def replace(self, key: str, review: Review) -> None:
        """Replaces all reviews with this user's review."""
        self._reviews = {key: review}

    def clear(self) -> None:
        """Forgets all reviews."""
        self._reviews = {}

    def mark_refused(self, at: float) -> None:
        """Records that the API server refused a request of these users at this time (time.monotonic())."""
        self._reviews = {key: review._replace(refused=at) for key, review in self._reviews.items()}

    def refused_within(self, seconds: float, now: float) -> bool:
        """Whether a refusal was recorded within these seconds before now. A later time comes from an earlier boot."""
        return any(0 <= now - review.refused < seconds for review in self._reviews.values() if review.refused)


def open_node(
    kubeconfig: str | None,
    node_name: str | None,
    hostname: str,
    machine_id: str | None,
    cache: ReviewCache | None = None,
) -> Node:
    """Returns this machine's Node on the API server, without sending a request.

    kubeconfig: None for the first existing one of the kubelet's usual paths.
    node_name: None to determine the name from the credentials or the host name.
    hostname: this machine's host name.
    machine_id: this machine's id. The Node's must be equal, unless the credentials are those of the Node's kubelet.
    None accepts any Node. cache: reviews of earlier Nodes, None for none.
    """
    from capacityd.node.api_node import ApiNode

    return ApiNode(kubeconfig, node_name, hostname, machine_id, cache or ReviewCache())


def open_node_file(path: str) -> Node:
    """Returns the Node in this JSON file; "-" is standard input."""
    from capacityd.node.file_node import FileNode

    return FileNode(path)
