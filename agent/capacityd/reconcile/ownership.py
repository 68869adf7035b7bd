"""Says which keys of the Node are capacityd's, and with which numbers. Pure."""

from __future__ import annotations

from capacityd.model.key import Key
from capacityd.model.node import NodeState
from capacityd.model.published import published_in
from capacityd.reconcile.memory import Memory


def published_before(node: NodeState, memory: Memory) -> dict[Key, int]:
    """Key -> published number, of the keys that are capacityd's: those in the Node's annotation, and those that the
    service remembers. The remembered number counts first.

    So a lost or altered annotation is restored, and a key that a restored etcd brings back is removed. Without a memory
    of this Node, the annotation is believed.
    """
    annotated = published_in(node.annotation)
    return {**annotated, **memory.published} if memory.uid == node.uid else annotated
