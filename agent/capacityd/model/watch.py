"""The watched Node: what the watcher saves for the passes, what counts as a change of it, and why it is not watched."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from capacityd.model.label import resource_of
from capacityd.model.node import Condition, NodeState, annotated_quantities
from capacityd.model.reasons import RetryCause


@dataclass(frozen=True, slots=True)
class WatchedNode:
    """watched.json: the Node as the API server last sent it. The file exists only while the Node is watched."""

    state: NodeState | None
    """None: no Node of this name exists."""
    name: str
    """The Node's name."""
    connected_at: float
    """The uptime in seconds at which this connection was opened. Its first event is the Node as it was then."""
    names: frozenset[str] = frozenset()
    """The resources in the configuration, and the resources and labels in the machine record, as of the start of the
    watch."""
    server: str = "the API server"
    """The API server, as messages call it."""
    named_by_credentials: bool = False
    """Whether the credentials are those of this Node's kubelet, so that they decide the name."""


@dataclass(frozen=True, slots=True)
class TargetError:
    """The Node to watch could not be determined."""

    reason: str
    """What is wrong, and how to fix it."""
    cause: RetryCause = RetryCause.OTHER
    """The cause decides how soon the service retries."""
    retry_after: float | None = None
    """The API server's Retry-After in seconds; None if there is none."""


def fingerprint(state: NodeState | None, names: Collection[str]) -> str:
    """Returns a hash of everything in the Node that a plan depends on; "" if the Node does not exist.

    names: the resources in the configuration, and the resources and labels in the machine record. Those in the
    annotation are added.
    """
    if state is None:
        return ""
    relevant = {*names, *annotated_quantities(state.annotation)}
    content = [
        state.name,
        state.uid,
        state.machine_id,
        _only(state.capacity, relevant),
        _only(state.allocatable, relevant),
        _only(state.labels, {resource_of(name) for name in relevant}),  # a label's key is its resource's name
        state.has_annotations,
        state.annotation,
        state.configuration,
        _document(state.condition),
        [_document(duplicate) for duplicate in state.duplicate_conditions],
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _only(values: Mapping[str, str] | None, keys: Collection[str]) -> Mapping[str, str] | None:
    """The map with only these keys; None if the Node has no such map."""
    if values is None:
        return None
    return {key: value for key, value in values.items() if key in keys}


def _document(condition: Condition | None) -> Mapping[str, object] | None:
    """The condition as the API server has sent it, for JSON."""
    return condition.document if condition else None
