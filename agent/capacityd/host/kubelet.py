"""The kubelet's files on this machine: the resource names of device plugins, and the time of its start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from capacityd.model.codec import Malformed, decode, parse
from capacityd.model.errors import HostError
from capacityd.model.host import Host

CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
"""The path does not depend on the kubelet's root folder. Mode 0600, in a folder that only root may enter."""

SOCKET = "/var/lib/kubelet/device-plugins/kubelet.sock"
"""The kubelet creates it again each time it starts."""


class _PodDevices(NamedTuple):
    ResourceName: str


class _Devices(NamedTuple):
    PodDeviceEntries: tuple[_PodDevices, ...] | None
    RegisteredDevices: Mapping[str, Any] | None


class _Checkpoint(NamedTuple):
    """The kubelet's own names. Source: Data in k8s.io/kubernetes, pkg/kubelet/cm/devicemanager/checkpoint."""

    Data: _Devices


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
        data = decode(_Checkpoint, parse(text.encode("utf-8", "surrogatepass")), ignore_unknown=True).Data
    except (HostError, Malformed):
        return None
    return frozenset(data.RegisteredDevices or ()) | {entry.ResourceName for entry in data.PodDeviceEntries or ()}
