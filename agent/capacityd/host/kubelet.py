"""The kubelet's files on this machine: the resource names of device plugins, and the time of its start."""

from __future__ import annotations

import json

from capacityd.model.errors import HostError
from capacityd.model.host import Host

CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
"""The path does not depend on the kubelet's root folder. Mode 0600, in a folder that only root may enter."""

SOCKET = "/var/lib/kubelet/device-plugins/kubelet.sock"
"""The kubelet creates it again each time it starts."""


def kubelet_started_at(host: Host) -> float | None:
    """When the kubelet created its socket, in seconds since the epoch; None if there is none, or it can't be read."""
    try:
        return host.ctime(SOCKET)
    except HostError:
        return None


def device_plugin_names(host: Host) -> frozenset[str] | None:
    """The names of resources that device plugins have registered, or of which pods still hold devices; None if unknown.

    A kubelet that has never had a device plugin has no such file: then there are no names.
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
