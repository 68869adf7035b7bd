"""A commented starter configuration for a machine, with a resource for each kind of device that pods may request.

It leaves out devices that the detectors' defaults exclude (hubs, virtual functions), and devices that the detectors do
not suggest (the system's disk and interface, a mainboard's bridges).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from capacityd.cli.inventory.devices import DeviceEntry, DeviceListing
from capacityd.cli.inventory.found import FoundDevice
from capacityd.cli.inventory.selectors import key_matchers, match_tests, toml_line
from capacityd.cli.output.terminal import listed
from capacityd.schema.device import DeviceDetector
from capacityd.schema.units import Dimension
from capacityd.schema.value_types import Flag

_DOMAIN = "example.com"
"""The domain of the resources' names, which the user replaces."""
_MAX_NAMES = 8
"""Number of devices to list in a comment."""
_MAX_RESOURCE_NAME = 48
"""Characters after the domain. Kubernetes' limit is 63."""
_UNITS: Mapping[Dimension, tuple[str, int]] = {
    "size": ("GiB", 1024**3),
    "speed": ("Mbit/s", 10**6),
    "frequency": ("MHz", 10**6),
    "number": ("", 1),
}
"""Dimension of a measure -> unit to suggest, and the number of base units (bytes, bit/s, Hz) in it."""
_HEAD = """\
# Starter configuration for {host}. Delete the resources that no pod should request, rename the others,
# and replace example.com by a domain of yours. Check the result before you use it:
#   capacityd config check --config FILE
#   capacityd probe --explain --config FILE
# expect is today's quantity: below it, the Node condition CapacityPublished becomes False.
"""


def starter_configuration(hostname: str, listings: Iterable[DeviceListing]) -> str:
    """The starter configuration as TOML. hostname: the host name of the machine with the devices."""
    parts = [_HEAD.format(host=hostname)]
    used_names: set[str] = set()
    for listing in listings:
        parts.append(f"\n# {listing.detector.name}: {listing.detector.about}\n")
        if listing.error:
            parts.append(f"# not all devices could be listed: {listing.error}\n")
        elif not listing.entries:
            parts.append("# this machine has none\n")
        suggested: dict[str, DeviceEntry] = {}  # the TOML of each suggested kind -> one entry of the kind
        left_out: dict[str, list[str]] = {}  # remark -> names of the devices that are not suggested
        for entry in listing.entries:
            if remark := _left_out_remark(listing.detector, entry):
                left_out.setdefault(remark, []).append(entry.device.name)
            else:
                kind = entry.kind_selector.toml  # the same text for all devices of a kind
                suggested.setdefault(kind, entry)
        for remark, names in left_out.items():
            parts.append(f"# {remark}: {listed(names, most=_MAX_NAMES)}\n")
        for entry in suggested.values():
            resource = _resource(listing, entry, used_names)  # adds its name to used_names
            parts.append(f"\n{resource}")
    return "".join(parts)


def _left_out_remark(detector: DeviceDetector, entry: DeviceEntry) -> str:
    """Says that the device is not suggested, and why; "" if it is suggested."""
    result = match_tests(key_matchers(detector, detector.suggestion_filter), entry.device)
    if result.matches is False:  # None (a value is unknown) does not exclude the device
        test, _value = result.mismatches[0]  # match_tests() stops at the first test that fails
        return f"left out because of {test.key}"
    if not entry.kind_selector.toml:
        # No test and no default has failed, so the TOML is missing because a value is unknown.
        return f"left out because a value is unknown ({entry.kind_selector.reason})"
    return ""


def _resource(listing: DeviceListing, entry: DeviceEntry, used_names: set[str]) -> str:
    """The resource for all devices of a kind, as TOML. All lines are comments if the quantity is unknown.

    entry: an entry of the kind. used_names: the names of earlier resources, without the domain. Adds the new name.
    """
    detector = listing.detector
    # Each resource tests these flags, because they may exclude one device of a kind, such as the system's disk.
    flag_names = [key for key in detector.suggestion_filter if isinstance(detector.keys[key].kind, Flag)]
    flags = {name: detector.suggestion_filter[name] for name in flag_names}
    table = {**entry.kind_selector.table, **flags}
    counted, unknown_because = _matching_devices(listing, table)
    devices = counted or [entry.device]  # none is counted if a value of each device is unknown
    name = _resource_name(detector, devices[0], used_names)
    used_names.add(name)
    lines = [
        f'[resources."{_DOMAIN}/{name}"]',
        toml_line(detector.name, table),
        f"expect = {len(devices)}  # the number of devices now",
        *_measure_comments(detector, devices),
    ]
    if unknown_because:
        why = f"# commented out, because the count is unknown: {unknown_because}"
        lines = [why, *(f"# {line}" for line in lines)]
    title = devices[0].title or f"{detector.name} device"
    names = listed([device.name for device in devices], most=_MAX_NAMES)
    return "\n".join([f"# {title} ({len(devices)}): {names}", *lines, ""])


def _matching_devices(listing: DeviceListing, table: Mapping[str, object]) -> tuple[list[FoundDevice], str]:
    """The devices that a table matches, and why their number is unknown; "" if it is known."""
    tests = key_matchers(listing.detector, table)
    counted = []
    unknown_because = listing.error
    for entry in listing.entries:
        result = match_tests(tests, entry.device)
        if result.matches:
            counted.append(entry.device)
        elif result.matches is None and not unknown_because:  # the first reason is enough
            unknown_because = f"{entry.device.name}: {result.reason}"
    return counted, unknown_because


def _measure_comments(detector: DeviceDetector, devices: Sequence[FoundDevice]) -> Iterator[str]:
    """Yields comments about the first measure in each dimension that all these devices report, and its total."""
    used_dimensions: set[Dimension] = set()
    for key, measure in detector.measures.items():
        values = [device.get(key) for device in devices]
        all_report_it = all(values)  # neither missing nor 0
        if not all_report_it or measure.dimension in used_dimensions:
            continue
        used_dimensions.add(measure.dimension)
        unit, base_units = _UNITS[measure.dimension]
        total_in_base_units = sum(value for value in values if isinstance(value, int))
        total = total_in_base_units // base_units
        if total > 0:  # a quantity of less than one unit is useless
            yield f'# measure = "{key}"  # instead of a count; then expect = {total}'
            if unit:
                yield f'# unit = "{unit}"'


def _resource_name(detector: DeviceDetector, device: FoundDevice, used_names: Collection[str]) -> str:
    """An unused name for a resource of such devices, without the domain: usb-security-key, for example."""
    model = re.sub(r"[([].*?[)\]]", " ", device.model or device.vendor)  # without texts in brackets
    if not model.strip():
        ids = [device.get(key) for key in detector.model_keys]
        model = "-".join(str(value) for value in ids if value)
    words = re.findall("[a-z0-9]+", f"{detector.name} {model}".lower())
    lines = textwrap.wrap(" ".join(words), _MAX_RESOURCE_NAME, break_long_words=False)  # breaks between words
    name = lines[0].replace(" ", "-")
    unused_name = name
    number = 1
    while unused_name in used_names:
        number += 1
        unused_name = f"{name}-{number}"
    return unused_name
