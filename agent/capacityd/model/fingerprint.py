"""The fingerprint of a Node: a hash of everything in the Node that a plan depends on.

The watcher and the passes compute the fingerprint from the JSON that the API server sends. The fingerprint also covers
other writers' resources and labels, because the watcher does not know which ones are configured. The watcher imports
this module, so the module imports little.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

_ANNOTATION_PREFIX = "capacityd/"
"""The start of the names of capacityd's annotations."""
_CONDITION = "CapacityPublished"
"""The type of capacityd's condition."""


def fingerprint(node: Mapping[str, object]) -> str:
    """Returns the fingerprint of a Node. Parts of an unexpected type count as missing."""
    metadata = _object(node, "metadata")
    status = _object(node, "status")
    node_info = _object(status, "nodeInfo")
    annotations = _object(metadata, "annotations")
    conditions = status.get("conditions")
    own_conditions = None
    if isinstance(conditions, list):
        own_conditions = [condition for condition in conditions if _is_own(condition)]
    content = [
        metadata.get("name"),
        metadata.get("uid"),
        metadata.get("labels"),
        {key: value for key, value in annotations.items() if key.startswith(_ANNOTATION_PREFIX)},
        status.get("capacity"),
        status.get("allocatable"),
        own_conditions,
        node_info.get("machineID"),
        node_info.get("systemUUID"),
    ]
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]  # 64 bits, enough to notice a change


def _object(parent: Mapping[str, object], key: str) -> Mapping[str, object]:
    """The object under this key; {} if it is missing or has another type."""
    value = parent.get(key)
    return value if isinstance(value, dict) else {}


def _is_own(condition: object) -> bool:
    return isinstance(condition, dict) and condition.get("type") == _CONDITION
