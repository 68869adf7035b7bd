"""The only interface to Kubernetes: this machine's Node, on the API server or in a file. All errors are NodeErrors.

No type or exception of a library leaves this package, and importing it imports no library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from capacityd.model.messages import WatchTarget
from capacityd.model.node import Node


class Review(NamedTuple):
    """Who we are: the API server's SelfSubjectReview, or the user that the kubeconfig impersonates."""

    user: str
    """Our user name; "" if the API server does not report it."""
    node: str
    """The Node that the user's token is bound to; "" for none."""
    credentials: str
    """A hash of the credentials that the review is about: credentials_hash() in node/identity.py."""
    impersonated: bool = False
    """Whether the kubeconfig names this user (as), so that the credentials are another user's."""
    denied_at: float | None = None
    """When a request was last answered with HTTP 403 or 404 although the review was new, as time.monotonic().

    None: never. Soon after that time, another review would not help.
    """


@dataclass(slots=True)
class CredentialsCache:
    """What a pass learns of its credentials. The service hands the review to its next pass, and watches the files."""

    review: Review | None = None
    """The last review; None: not yet."""
    files: tuple[str, ...] = ()
    """The files with the credentials that were last used."""
    target: WatchTarget | None = None
    """What a watch of the Node needs, with the credentials that were last used; None: no request was about the Node."""


def open_node(  # noqa: PLR0913  # what identifies the Node and the machine
    kubeconfig: str | None,
    node_name: str | None,
    hostname: str,
    machine_id: str | None,
    cache: CredentialsCache | None = None,
    system_uuid: str = "",
) -> Node:
    """Returns this machine's Node on the API server, without sending a request.

    kubeconfig: None for the first existing one of the kubelet's usual paths.
    node_name: None to determine the name from the credentials or the host name.
    hostname: this machine's host name.
    machine_id: this machine's id, which the Node must have, unless the credentials are those of the Node's kubelet.
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
        cache=cache or CredentialsCache(),
        system_uuid=system_uuid,
    )


def open_node_file(path: str) -> Node:
    """Returns the Node in this JSON file; "-" is standard input."""
    from capacityd.node.file_node import FileNode

    return FileNode(path)
