"""The key under which capacityd publishes a number: a resource, or the label that repeats the resource's number."""

from __future__ import annotations

from dataclasses import dataclass

_LABEL_PREFIX = "label "
"""The text of a label's key begins with this. No resource's name does, because names contain no space."""


@dataclass(frozen=True, slots=True)
class Key:
    """A name on the Node under which capacityd publishes a number. Keys sort resources first, then by name."""

    name: str
    """The name of the resource, and of its label."""
    is_label: bool = False
    """Whether the number is the value of a label. The number of a resource is in capacity and in allocatable."""

    def __str__(self) -> str:
        """The key as text, for people, for the annotation and for JSON."""
        return f"{_LABEL_PREFIX}{self.name}" if self.is_label else self.name

    def __lt__(self, other: Key) -> bool:
        return (self.is_label, self.name) < (other.is_label, other.name)

    @classmethod
    def from_text(cls, text: str) -> Key:
        """Restores the key from str(key)."""
        if text.startswith(_LABEL_PREFIX):
            return cls(text.removeprefix(_LABEL_PREFIX), is_label=True)
        return cls(text)

    @property
    def kind(self) -> str:
        """The key's kind in JSON."""
        return "label" if self.is_label else "resource"

    @property
    def label(self) -> Key:
        """The key of the label that repeats this resource's number."""
        return Key(self.name, is_label=True)


def may_label(resource: str) -> bool:
    """Whether a kubelet's credentials may set a label of this name.

    The admission plugin NodeRestriction denies labels in the domains of Kubernetes (kubernetes.io, k8s.io).
    """
    domain, _, _ = resource.partition("/")
    is_kubernetes = domain in ("k8s.io", "kubernetes.io") or domain.endswith((".k8s.io", ".kubernetes.io"))
    return not is_kubernetes
