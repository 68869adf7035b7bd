"""What a pass knows about this machine, its Node and its credentials."""

from __future__ import annotations

from dataclasses import dataclass

from capacityd.model.cluster_access import ClusterAccess


@dataclass(frozen=True, slots=True)
class Identity:
    """Which Node is this machine's, and how certain this is."""

    node: str
    is_certain: bool
    """Whether the credentials or the configuration name the Node. Otherwise, `node` is only the host name."""
    is_own_node: bool
    """Whether the credentials are those of the Node's kubelet, so that the Node counts as this machine's unchecked."""


@dataclass(frozen=True, slots=True)
class User:
    """The user of the credentials."""

    name: str = ""
    """The user's name; "" if unknown."""
    bound_node: str = ""
    """The Node that the user's token is bound to; "" if unknown."""


@dataclass(slots=True)
class CredentialsCache:
    """What a pass learns about its credentials: the identity for the next pass, and the files that the service watches
    for new credentials."""

    identity: Identity | None = None
    """The last identity; None if it is unknown, or if the API server no longer accepts it."""
    files: tuple[str, ...] = ()
    """The files with the credentials, including missing files."""
    watch_target: ClusterAccess | None = None
    """The Node and the credentials for the watcher; None until the Node is known."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What distinguishes this machine from others."""

    hostname: str
    machine_id: str | None
    """The machine ID that the Node must have; None to accept any Node. A kubelet's own Node is not checked."""
    system_uuid: str = ""
    """The firmware's UUID; "" if unknown. Clones with the same machine ID have different UUIDs."""
