"""What is wrong with a cluster's objects beside its Nodes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from capacityd.cli.fleet.findings import Finding, Reason, is_majority, same_for_all, shown
from capacityd.model.fleet import Fleet, NodeSummary, Overlaid


def clashes(fleet: Fleet, names: Iterable[str]) -> Iterator[Finding]:
    """Yields resources that a DeviceClass also serves. names: the resources that capacityd publishes."""
    for name in names:
        for device_class in fleet.device_classes.get(name, ()):
            message = f"the DeviceClass {device_class} also serves {name} (extendedResourceName)"
            yield same_for_all(Reason.DEVICE_CLASS, message)


def overlay_differences(nodes: Iterable[NodeSummary], names: Collection[str]) -> Iterator[Finding]:
    """Yields NodeOverlays with another quantity than most of the Nodes that they are about.

    names: the resources that capacityd publishes. A Node counts if capacityd writes it and its annotation can be read.
    """
    quantities: dict[tuple[str, Overlaid], Counter[int | None]] = {}
    for node in nodes:
        if node.has_capacityd and not node.annotation_error:
            for name, overlaid in node.overlaid.items():
                if name in names:
                    quantities.setdefault((name, overlaid), Counter())[node.annotated.get(name)] += 1
    for (name, overlaid), numbers in sorted(quantities.items(), key=lambda item: (item[0][1].overlay, item[0][0])):
        of = numbers.total()
        if is_majority(numbers[overlaid.quantity], of):
            continue
        del numbers[overlaid.quantity]
        having = ", ".join(f"{number} of {of} Nodes have {shown(quantity)}" for quantity, number in numbers.items())
        message = f"{name} is {overlaid.quantity} in the NodeOverlay {overlaid.overlay}, {having}"
        yield same_for_all(Reason.OVERLAY_DIFFERS, message)
