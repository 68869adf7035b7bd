"""The interface to Kubernetes: this machine's Node, on the API server or in a file.

All errors are NodeErrors. Types and exceptions of libraries stay inside this package. Importing this package imports no
library.
"""

from __future__ import annotations

from dataclasses import dataclass

from capacityd.model.node import Node
from capacityd.model.watch_target import WatchTarget


@dataclass(frozen=True, slots=True)
class Identity:
    """Which Node is this machine's, and how certain this is."""

    node: str
    is_certain: bool
    """Whether the credentials or the configuration name the Node. Otherwise, `node` is only the host name."""
    is_own_node: bool
    """Whether the credentials are those of the Node's kubelet. The Node is then this machine's without a check."""
    basis: str
    """A text that changes if the Node must be determined again."""


@dataclass(slots=True)
class CredentialsCache:
    """What a pass learns about its credentials. The next pass gets the identity. The service watches the files."""

    identity: Identity | None = None
    """The last identity; None if it is unknown, or if the API server no longer accepts it."""
    files: tuple[str, ...] = ()
    """The files with the credentials, including missing files."""
    target: WatchTarget | None = None
    """The Node and the credentials for the watcher; None until the Node is known."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What distinguishes this machine from others."""

    hostname: str
    machine_id: str | None
    """The machine ID that the Node must have; None to accept any Node. A kubelet's own Node is not checked."""
    system_uuid: str = ""
    """The firmware's UUID; "" if unknown. Clones with the same machine ID have different UUIDs."""


def open_node(
    kubeconfig: str | None, node_name: str | None, machine: Machine, cache: CredentialsCache | None = None
) -> Node:
    """Returns this machine's Node on the API server, without sending a request.

    kubeconfig: the path; None for the first of the kubelet's usual paths that exists.
    node_name: None to determine the name from the credentials or the host name.
    cache: what an earlier pass learned about the credentials; None if there was no earlier pass.
    """
    from capacityd.node.api_node import ApiNode

    return ApiNode(kubeconfig, node_name, machine, cache or CredentialsCache())


def import_client() -> None:
    """Imports the modules for requests in advance, because the import takes longer than a request."""
    from capacityd.node import api_node  # noqa: F401
    from capacityd.node.client import import_library

    import_library()


def open_node_file(path: str, node_name: str | None = None) -> Node:
    """Returns the Node in a JSON file; "-" is standard input. node_name: the name that the Node must have, if given."""
    from capacityd.node.file_node import FileNode

    return FileNode(path, node_name)
