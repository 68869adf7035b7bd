"""The kubelet's file on this machine that lists the resource names of device plugins."""

from __future__ import annotations

from typing import Any

from capacityd.model.codec import Malformed, decode, parse
from capacityd.model.device_plugins import CHECKPOINT
from capacityd.model.errors import HostError
from capacityd.model.host import Host


def device_plugin_names(host: Host) -> frozenset[str] | None:
    """Resource names that device plugins have registered, or whose devices pods still use; None if unknown.

    If the checkpoint file does not exist, no device plugin has ever registered, so the result is empty. The type Data
    in k8s.io/kubernetes, pkg/kubelet/cm/devicemanager/checkpoint, defines the file.
    """
    try:
        if host.resolve(CHECKPOINT) is None:
            return frozenset()
        text = "".join(host.lines(CHECKPOINT))  # host.text() is limited to small files
        data = parse(text.encode())["Data"]
        # Go writes null for a nil list or map.
        registered = decode(dict[str, Any], data["RegisteredDevices"] or {})  # the name of a resource -> devices
        entries = data["PodDeviceEntries"] or []
        names_in_use = decode(tuple[str, ...], [entry["ResourceName"] for entry in entries])
    except (HostError, Malformed, LookupError, TypeError):
        return None
    return frozenset([*registered, *names_in_use])
