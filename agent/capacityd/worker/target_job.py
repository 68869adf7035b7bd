"""The job that determines what the watcher watches: reads the credentials, and determines the Node.

Its result contains the credentials, so the watcher runs it with a private pipe.
"""

from __future__ import annotations

from capacityd.model.errors import NodeError, NodeUnreachable, StateError, UsageError
from capacityd.model.options import WorkerOptions
from capacityd.model.plan import MachineRecord
from capacityd.model.watch import TargetError
from capacityd.node import CredentialsCache
from capacityd.node.api_node import ApiNode
from capacityd.node.watch_target import WatchTarget
from capacityd.reconcile import machine_record
from capacityd.reconcile.known_node import watched_names
from capacityd.worker import pass_memory, send_message
from capacityd.worker.active_config import active_config
from capacityd.worker.selection import host_of, node_of


def determine_target(options: WorkerOptions, memory: str) -> int:
    """Sends what the watcher watches, or why that cannot be determined. Returns the exit status.

    memory: that of the last pass.
    """
    try:
        send_message(_target(options, memory))
    except NodeError as e:
        retry_after = e.retry_after if isinstance(e, NodeUnreachable) else None
        send_message(TargetError(str(e), e.cause, retry_after=retry_after))
    return 0


def _target(options: WorkerOptions, memory: str) -> WatchTarget:
    config = active_config(options).config
    cache = CredentialsCache(pass_memory.from_text(memory).review)
    node = node_of(options.selection, config, host_of(options.selection), cache)
    if not isinstance(node, ApiNode):
        raise UsageError("--node-file replaces the API server, so there is no Node to watch")
    return node.watch_target(watched_names(config, _record()))


def _record() -> MachineRecord | None:
    try:
        return machine_record.read(machine_record.state_directory())
    except StateError:  # each pass reports this error
        return None
