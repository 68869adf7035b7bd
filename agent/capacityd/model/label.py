"""The names of labels. A label repeats the quantity that is published as a resource, under the resource's name.

Plans, the annotation and the machine record list labels beside the resources, as "label NAME": a label is a second
place of the same number, under the same rules.
"""

from __future__ import annotations

_PREFIX = "label "


def label_of(resource: str) -> str:
    """Returns the name of a resource's label. Because of its space, no resource can have this name."""
    return _PREFIX + resource


def is_label(name: str) -> bool:
    """Whether this is the name of a label."""
    return name.startswith(_PREFIX)


def resource_of(name: str) -> str:
    """Returns the resource that a label repeats, which is also the label's key; the name itself if it is no label's."""
    return name.removeprefix(_PREFIX)


def resources_first(name: str) -> tuple[bool, str]:
    """A key to sort names: all resources, then all labels, because a label follows what happens to its resource."""
    return is_label(name), name


def may_label(resource: str) -> bool:
    """Whether a kubelet's credentials may set a label of this name.

    The admission plugin NodeRestriction denies labels in the domains of Kubernetes (kubernetes.io, k8s.io).
    """
    domain = resource.partition("/")[0]
    return not f".{domain}".endswith((".k8s.io", ".kubernetes.io"))
