"""The kubelet's file on this machine that lists the resource names of device plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from capacityd.model.codec import Malformed, decode, parse
from capacityd.model.device_plugins import CHECKPOINT
from capacityd.model.errors import HostError
from capacityd.model.host import Host


class _PodDevices(NamedTuple):
    ResourceName: str


class _Devices(NamedTuple):
    """None: null, as which Go writes a list or map that is nil."""

    PodDeviceEntries: tuple[_PodDevices, ...] | None
    RegisteredDevices: Mapping[str, Any] | None


class _Checkpoint(NamedTuple):
    """The fields have the kubelet's names. Source: Data in k8s.io/kubernetes,
    pkg/kubelet/cm/devicemanager/checkpoint."""

    Data: _Devices


def device_plugin_names(host: Host) -> frozenset[str] | None:
    """Resource names that device plugins have registered, or whose devices pods still use; None if unknown.

    Without a checkpoint file, no device plugin has ever registered: the result is empty.
    """
    try:
        text = "".join(host.lines(CHECKPOINT))  # not host.text(), which is for small files
        if not text:  # the file is missing or empty
            is_missing = host.resolve(CHECKPOINT) is None
            return frozenset() if is_missing else None
        checkpoint = decode(_Checkpoint, parse(text.encode()), ignore_unknown=True)
    except (HostError, Malformed):
        return None
    registered = frozenset(checkpoint.Data.RegisteredDevices or ())  # its keys are the names of resources
    names_in_use = {entry.ResourceName for entry in checkpoint.Data.PodDeviceEntries or ()}
    return registered | names_in_use
