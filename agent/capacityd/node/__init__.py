"""The only interface to Kubernetes: this machine's Node, on the API server or in a file.

All errors are NodeErrors. No type or exception of a library leaves this package. Importing it imports no library.
"""

from __future__ import annotations

from dataclasses import dataclass

from capacityd.model.node import Node
from capacityd.model.watch_target import WatchTarget


@dataclass(frozen=True, slots=True)
class Identity:
    """The Node that our credentials, the configuration or the host name determines."""

    node: str
    is_certain: bool
    """Whether the credentials or the configuration name the Node. Otherwise, node is only the host name."""
    is_own_node: bool
    """Whether the credentials are those of this Node's kubelet, so that the Node must be this machine's."""
    basis: str
    """What the identity was determined from: basis_of() in node/identity.py."""


@dataclass(slots=True)
class CredentialsCache:
    """What a pass learns of its credentials. The service hands the identity to its next pass, and watches the files."""

    identity: Identity | None = None
    """The last identity; None if there was none, or if the API server no longer accepts it."""
    files: tuple[str, ...] = ()
    """The files that were read or missing when the credentials were last read."""
    target: WatchTarget | None = None
    """What a watch of the Node needs, with the credentials that were last used; None until the Node is known."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What distinguishes this machine from others."""

    hostname: str
    machine_id: str | None
    """The id that the Node must have, unless the credentials are those of the Node's kubelet. None accepts any Node."""
    system_uuid: str = ""
    """The firmware's UUID; "" if unknown. It differs even between clones with the same machine id."""


def open_node(
    kubeconfig: str | None, node_name: str | None, machine: Machine, cache: CredentialsCache | None = None
) -> Node:
    """Returns this machine's Node on the API server, without sending a request.

    kubeconfig: None for the first existing one of the kubelet's usual paths.
    node_name: None to determine the name from the credentials or the host name.
    cache: what an earlier pass learned of the credentials; None if there was no earlier pass.
    """
    from capacityd.node.api_node import ApiNode

    return ApiNode(kubeconfig, node_name, machine, cache or CredentialsCache())


def import_client() -> None:
    """Imports what a request needs, so that the first request need not wait for it."""
    from capacityd.node import api_node  # noqa: F401
    from capacityd.node.client import import_library

    import_library()


def open_node_file(path: str, node_name: str | None = None) -> Node:
    """Returns the Node in this JSON file; "-" is standard input. node_name: the name that it must have, if given."""
    from capacityd.node.file_node import FileNode

    return FileNode(path, node_name)
