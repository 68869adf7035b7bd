"""A commented starter configuration for a machine, with a resource for each kind of device that pods may request.

It leaves out devices that the detectors' defaults exclude (hubs, virtual functions), and devices that the detectors do
not suggest (the system's disk and interface, a mainboard's bridges).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence

from capacityd.cli.inventory.devices import DeviceEntry, DeviceListing
from capacityd.cli.inventory.found import FoundDevice
from capacityd.cli.inventory.selectors import key_matchers, match_tests, toml_line
from capacityd.cli.output.terminal import listed
from capacityd.schema.device import DeviceDetector
from capacityd.schema.units import Dimension
from capacityd.schema.value_types import Flag

_DOMAIN = "example.com"  # of the resources' names; the user replaces it
_MAX_NAMES = 8  # number of devices to list in a comment
_MAX_RESOURCE_NAME = 48  # characters after the domain; Kubernetes' limit is 63
# Dimension of a measure -> unit to suggest, and the number of base units (bytes, bit/s, Hz) in it.
_UNITS: Mapping[Dimension, tuple[str, int]] = {
    "size": ("GiB", 1024**3),
    "speed": ("Mbit/s", 10**6),
    "frequency": ("MHz", 10**6),
    "number": ("", 1),
}
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
        detector = listing.detector
        parts.append(f"\n# {detector.name}: {detector.about}\n")
        parts += _left_out(listing)
        parts += [f"\n{_resource(listing, first, used_names)}" for first in _suggested_kinds(listing)]
    return "".join(parts)


def _suggested_kinds(listing: DeviceListing) -> list[DeviceEntry]:
    """The first suggested device of each kind. It passes, or may pass, the tests in detector.suggested_only_if."""
    suggestion_tests = key_matchers(listing.detector, listing.detector.suggested_only_if)
    first_of_kind: dict[str, DeviceEntry] = {}
    for entry in listing.entries:
        # None: it is unknown whether the device passes. _resource() comments such a suggestion out.
        may_pass = match_tests(suggestion_tests, entry.device).matches in (True, None)
        if entry.kind_selector.toml and may_pass:
            first_of_kind.setdefault(entry.kind_selector.toml, entry)
    return [*first_of_kind.values()]


def _left_out(listing: DeviceListing) -> Iterable[str]:
    """Yields comments about the devices that are not suggested, grouped by reason."""
    detector, entries = listing.detector, listing.entries
    if listing.error:
        yield f"# not all devices could be listed: {listing.error}\n"
    elif not entries:
        yield "# this machine has none\n"
    names_by_reason: dict[str, list[str]] = {}
    suggestion_tests = key_matchers(detector, detector.suggested_only_if)
    for entry in entries:
        result = match_tests(suggestion_tests, entry.device)
        if result.matches is False:
            test, _value = result.mismatches[0]  # match_tests() stops at the first test that fails
            reason = f"because of {test.key}"
        elif not entry.kind_selector.toml:
            # No test and no default has failed, so the TOML is missing because a value is unknown.
            reason = f"because a value is unknown ({entry.kind_selector.reason})"
        else:
            continue  # the device's kind is suggested
        names_by_reason.setdefault(reason, []).append(entry.device.name)
    for reason, names in names_by_reason.items():
        yield f"# left out {reason}: {listed(names, most=_MAX_NAMES)}\n"


def _resource(listing: DeviceListing, first: DeviceEntry, used_names: set[str]) -> str:
    """The resource for all devices of a kind, as TOML. All lines are comments if the quantity is unknown.

    first: a device of the kind. used_names: the names of earlier resources, without the domain. Adds the new name.
    """
    detector, entries = listing.detector, listing.entries
    # Each resource tests these flags, because they may exclude one device of a kind, such as the system's disk.
    flags = {
        key: value for key, value in detector.suggested_only_if.items() if isinstance(detector.keys[key].kind, Flag)
    }
    table = {**first.kind_selector.table, **flags}
    tests = key_matchers(detector, table)
    results = [(entry, match_tests(tests, entry.device)) for entry in entries]
    unknown = [f"{entry.device.name}: {result.reason}" for entry, result in results if result.matches is None]
    unknown_because = unknown[0] if unknown else listing.error
    devices = [entry.device for entry, result in results if result.matches] or [first.device]
    name = _resource_name(detector, devices[0], used_names)
    used_names.add(name)
    lines = [
        f'[resources."{_DOMAIN}/{name}"]',
        toml_line(detector.name, table),
        f"expect = {len(devices)}  # the number of devices now",
    ]
    for key, unit, total in _totals(detector, devices):
        lines.append(f'# measure = "{key}"  # instead of a count; then expect = {total}')
        if unit:
            lines.append(f'# unit = "{unit}"')
    if unknown_because:
        why = f"# commented out, because the count is unknown: {unknown_because}"
        lines = [why, *(f"# {line}" for line in lines)]
    title = devices[0].title or f"{detector.name} device"
    names = listed([device.name for device in devices], most=_MAX_NAMES)
    return "\n".join([f"# {title} ({len(devices)}): {names}", *lines, ""])


def _totals(detector: DeviceDetector, devices: Sequence[FoundDevice]) -> Iterable[tuple[str, str, int]]:
    """Yields key, unit and total of the first measure in each dimension that all these devices report."""
    for dimension, (unit, factor) in _UNITS.items():
        keys = [key for key, measure in detector.measures.items() if measure.dimension == dimension]
        reported = [key for key in keys if all(device.get(key) for device in devices)]
        if not reported:
            continue
        key = reported[0]
        values = [device.get(key) for device in devices]
        total = sum(value for value in values if isinstance(value, int)) // factor
        if total:  # a quantity of less than one unit is useless
            yield key, unit, total


def _resource_name(detector: DeviceDetector, device: FoundDevice, used: Collection[str]) -> str:
    """An unused name for a resource of such devices, without the domain: usb-security-key, for example."""
    model = re.sub(r"[([].*?[)\]]", " ", device.model)  # without texts in brackets
    if not model.strip():
        ids = [device.get(key) for key in detector.model_keys]
        model = "-".join(str(value) for value in ids if value)
    words = re.findall("[a-z0-9]+", f"{detector.name} {model}".lower())
    lines = textwrap.wrap(" ".join(words), _MAX_RESOURCE_NAME, break_long_words=False)  # breaks between words
    name = lines[0].replace(" ", "-")
    unused = name
    number = 1
    while unused in used:
        number += 1
        unused = f"{name}-{number}"
    return unused
