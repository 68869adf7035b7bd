"""The fingerprint of a Node: a hash of what a plan depends on, from the Node's JSON. Pure.

The watcher and the passes compute it from the same JSON, as the API server sends it. Other writers' resources and
labels are part of it, so that it depends on no configuration: they change rarely. The watcher imports this module, so
the module imports little.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

_ANNOTATIONS = "capacityd/"
"""How the names of capacityd's annotations begin."""
_CONDITION = "CapacityPublished"
"""The type of capacityd's condition."""


def fingerprint(node: Mapping[str, object]) -> str:
    """Returns the fingerprint of a Node. Parts of an unexpected type count as missing."""
    metadata, status = _object(node, "metadata"), _object(node, "status")
    node_info = _object(status, "nodeInfo")
    annotations = _object(metadata, "annotations")
    conditions = status.get("conditions")
    content = [
        metadata.get("name"),
        metadata.get("uid"),
        metadata.get("labels"),
        {key: value for key, value in annotations.items() if key.startswith(_ANNOTATIONS)},
        status.get("capacity"),
        status.get("allocatable"),
        [condition for condition in conditions if _is_own(condition)] if isinstance(conditions, list) else None,
        node_info.get("machineID"),
        node_info.get("systemUUID"),
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _object(parent: Mapping[str, object], key: str) -> Mapping[str, object]:
    """The object under this key; an empty one if there is none."""
    value = parent.get(key)
    return value if isinstance(value, dict) else {}


def _is_own(condition: object) -> bool:
    return isinstance(condition, dict) and condition.get("type") == _CONDITION
