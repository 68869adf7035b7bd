"""What the watcher watches, and with which credentials. A worker determines it, because that takes more memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from capacityd.model.watch import TargetError
from capacityd.node.cluster_access import ClusterAccess


@dataclass(frozen=True, slots=True)
class WatchTarget:
    """The Node to watch. Contains the credentials, so it may only be sent through a private pipe."""

    access: ClusterAccess
    node: str
    """The Node's name."""
    user: str = ""
    """Our user name according to the API server; "" if unknown. Only for messages."""
    machine_id: str | None = None
    """This machine's. The Node's must be equal; None accepts any Node."""
    system_uuid: str = ""
    """This machine's; "" if unknown. The Node's must not show that the Node is another machine's."""
    names: frozenset[str] = frozenset()
    """The resources in the configuration, and the resources and labels in the machine record. The watcher reports
    changes that concern them."""


TargetResult: TypeAlias = WatchTarget | TargetError
"""What the worker prints, as a line of JSON."""
