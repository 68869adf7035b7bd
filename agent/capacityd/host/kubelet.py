"""What the kubelet keeps on the machine: which resource names device plugins have, and since when it runs."""

from __future__ import annotations

import json

from capacityd.errors import HostError
from capacityd.host import Host

CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
"""The kubelet keeps it there whatever its root folder is. Mode 0600, in a folder that only root may enter."""

SOCKET = "/var/lib/kubelet/device-plugins/kubelet.sock"
"""The kubelet makes it anew each time it starts."""


def kubelet_began(host: Host) -> float | None:
    """When the kubelet made its socket, in seconds since the epoch; None if it has none, or that can't be seen."""
    try:
        return host.changed(SOCKET)
    except HostError:
        return None


def device_plugin_names(host: Host) -> frozenset[str] | None:
    """The names that are registered, or of which pods still hold devices; None if that can't be known.

    A kubelet that never saw a device plugin has no such file: then there are none.
    """
    try:
        text = "".join(host.lines(CHECKPOINT))
        if not text:
            return frozenset() if host.resolve(CHECKPOINT) is None else None
        data = json.loads(text)["Data"]
        registered = data["RegisteredDevices"] or {}
        held = data["PodDeviceEntries"] or []
        return frozenset(registered) | frozenset(str(entry["ResourceName"]) for entry in held)
    except (HostError, ValueError, TypeError, KeyError, RecursionError):
        return None
