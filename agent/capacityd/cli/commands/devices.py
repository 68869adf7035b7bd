"""devices: lists this machine's devices, each with the TOML that matches it. Requires no cluster."""

from __future__ import annotations

from collections.abc import Sequence

from capacityd.cli.inventory.devices import DeviceEntry, DeviceListing, listing_of
from capacityd.cli.inventory.found import find_all
from capacityd.cli.inventory.starter import starter_configuration
from capacityd.cli.inventory.table import print_devices
from capacityd.cli.options import Options
from capacityd.cli.output.terminal import listed, print_json, print_message
from capacityd.detectors import detector_names, load_detector
from capacityd.model.errors import UsageError
from capacityd.schema.device import DeviceDetector
from capacityd.worker.selection import host_of


def devices(options: Options) -> int:
    """Lists the devices of the given detector, or of all that are shown by default.

    If some devices could not be listed, prints why to standard error and returns exit status 4. Raises UsageError for a
    detector without devices.
    """
    detectors = _detectors(options.detector)
    host = host_of(options.selection)
    found = find_all(host, detectors)
    listings = [listing_of(detector, found[detector.name]) for detector in detectors]
    if options.toml:
        print(starter_configuration(host.hostname(), listings), end="")
    elif options.json:
        print_json(_as_dict(listings))
    else:
        for listing in listings:
            print_devices(listing)
    incomplete = [listing for listing in listings if listing.flaws]
    for listing in incomplete:
        flaws = listed(listing.flaws, most=1)  # the first flaw, and the number of other flaws
        print_message(f"{listing.detector.name}: not everything could be listed: {flaws}")
    return 4 if incomplete else 0


def _detectors(name: str | None) -> list[DeviceDetector]:
    """The detector with this name. Without a name, all detectors that are shown by default."""
    all_detectors = map(load_detector, detector_names())
    detectors = [detector for detector in all_detectors if isinstance(detector, DeviceDetector)]
    if name is None:
        return [detector for detector in detectors if detector.shown_by_default]
    by_name = {detector.name: detector for detector in detectors}
    if name in by_name:
        return [by_name[name]]
    if name in detector_names():
        raise UsageError(f'the detector "{name}" has no devices')
    raise UsageError(f'unknown detector "{name}"; must be one of {", ".join(by_name)}')


def _as_dict(listings: Sequence[DeviceListing]) -> dict[str, object]:
    """The devices for JSON output, and why devices may be missing."""
    found: list[dict[str, object]] = []
    errors: dict[str, str] = {}
    for listing in listings:
        detector = listing.detector.name
        found += [_entry_as_dict(detector, entry) for entry in listing.entries]
        if listing.error:
            errors[detector] = listing.error
    return {"devices": found, "not_listed": errors}


def _entry_as_dict(detector: str, entry: DeviceEntry) -> dict[str, object]:
    device = entry.device
    return {
        "detector": detector,
        "device": device.name,
        "path": device.path,
        "vendor": device.vendor,
        "model": device.model,
        "values": device.values,
        "unreadable": device.unread,
        "toml": entry.unique_selector.toml or None,
        "toml_reason": entry.unique_selector.reason,
        "kind_toml": entry.kind_selector.toml or None,
        "kind_count": entry.kind_selector.count,
    }
