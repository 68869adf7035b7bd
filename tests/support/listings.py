"""Lists the devices of a detector like the command `devices`, but in this process."""

from __future__ import annotations

from capacityd.cli.inventory.devices import DeviceListing, listing_of
from capacityd.cli.inventory.found import find
from capacityd.model.host import Host
from capacityd.schema.device import DeviceDetector


def list_devices(host: Host, detector: DeviceDetector) -> DeviceListing:
    """All devices of a detector that can be enumerated."""
    return listing_of(detector, find(host, detector))
