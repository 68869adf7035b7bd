"""What a pass knows of its Node before it sends a request, and which parts of the Node concern capacityd. Pure."""

from __future__ import annotations

from capacityd.model.node import NodeState
from capacityd.model.plan import MachineRecord
from capacityd.model.watch import WatchedNode
from capacityd.reconcile.memory import Memory
from capacityd.schema.config import Config


def known_node(watched: WatchedNode, memory: Memory) -> NodeState | None:
    """The newer of the watched Node and the last pass's Node. None: the Node must be read, or does not exist.

    The first event of a connection is the Node as it is when the connection is opened. Within a connection, the greater
    version is the newer one (https://kep.k8s.io/5504). Versions of two connections may not be comparable: a restored
    etcd counts from an older version.
    """
    last = memory.node
    if last is None or memory.node_at < watched.connected_at:
        return watched.state
    if watched.state is None:  # the last pass has found a Node, so only a read can tell whether it still exists
        return None
    watched_version = watched.state.resource_version
    last_version = last.resource_version
    if watched_version.isdecimal() and last_version.isdecimal():
        return watched.state if int(watched_version) >= int(last_version) else last
    # Other versions can only be compared for equality.
    return watched.state if watched_version == last_version else None


def watched_names(config: Config, record: MachineRecord | None) -> frozenset[str]:
    """The names of the configured and of the recorded resources: those that a plan depends on, besides the annotated
    ones."""
    # config.broken: the configured resources with an error
    configured = {resource.name for resource in config.resources} | config.broken.keys()
    recorded = record.all_names if record else frozenset[str]()
    return recorded | configured
