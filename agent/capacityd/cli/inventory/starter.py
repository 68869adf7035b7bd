"""A commented starter configuration for a machine, with a resource for each kind of device that pods may request.

It leaves out devices that the detectors' defaults exclude (hubs, virtual functions), and devices that the detectors do
not suggest (the system's disk and interface, a mainboard's bridges).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from capacityd.cli.inventory.devices import DeviceEntry, DeviceListing
from capacityd.cli.inventory.selectors import key_matchers, match_values, toml_line
from capacityd.cli.output.terminal import listed
from capacityd.model.device import DeviceDetector
from capacityd.model.units import Dimension
from capacityd.model.value_types import Flag

_DOMAIN = "example.com"  # of the resources' names; the user replaces it
_MAX_NAMES = 8  # number of devices to list in a comment
_MAX_RESOURCE_NAME = 48  # characters after the domain; Kubernetes' limit is 63
_UNITS: Mapping[Dimension, tuple[str, int]] = {  # dimension -> unit to suggest, and its number of base units
    "size": ("GiB", 1024**3),
    "speed": ("Mbit/s", 10**6),
    "frequency": ("MHz", 10**6),
    "number": ("", 1),
}
_HEAD = """\
#:schema file:///usr/share/capacityd/schema.json

# Starter configuration for {host}. Delete the resources that no pod should request, rename the others,
# and replace example.com by a domain of yours. Check the result before you use it:
#   capacityd config check --config FILE
#   capacityd probe --explain --config FILE
# expect is today's quantity: below it, the Node condition CapacityPublished becomes False.
"""


@dataclass(frozen=True, slots=True)
class _Suggestion:
    """A suggested resource."""

    toml: str
    devices: tuple[DeviceEntry, ...]
    """The counted devices; if none is certain to count, one device of the kind."""
    unknown_because: str
    """Why the quantity is unknown; "" if it is known."""


def starter_configuration(hostname: str, listings: Iterable[DeviceListing]) -> str:
    """The starter configuration as TOML. hostname: the host name of the machine with the devices."""
    parts = [_HEAD.format(host=hostname)]
    used_names: set[str] = set()
    for listing in listings:
        detector = listing.detector
        parts.append(f"\n# {detector.name}: {detector.about}\n")
        parts += _left_out(listing)
        for suggestion in _suggestions(listing):
            name = _resource_name(detector, suggestion.devices[0], used_names)
            used_names.add(name)
            parts.append(f"\n{_resource(detector, suggestion, name)}")
    return "".join(parts)


def _suggestions(listing: DeviceListing) -> list[_Suggestion]:
    detector, devices = listing.detector, listing.entries
    suggested = key_matchers(detector, detector.suggest)
    flags = {key: value for key, value in detector.suggest.items() if isinstance(detector.keys[key].kind, Flag)}
    first_of_kind: dict[str, DeviceEntry] = {}
    for device in devices:
        # Also if it is unknown whether it matches: then the suggestion is commented out.
        if device.kind.toml and match_values(suggested, device.values).matches is not False:
            first_of_kind.setdefault(device.kind.toml, device)
    suggestions = []
    for first in first_of_kind.values():
        table = {**first.kind.table, **flags}
        tests = key_matchers(detector, table)
        results = [(device, match_values(tests, device.values)) for device in devices]
        counted = tuple(device for device, result in results if result.matches)
        unknown = [f"{device.name}: {result.reason}" for device, result in results if result.matches is None]
        suggestions.append(
            _Suggestion(
                toml=toml_line(detector.name, table),
                devices=counted or (first,),
                unknown_because=unknown[0] if unknown else listing.error,
            )
        )
    return suggestions


def _left_out(listing: DeviceListing) -> Iterable[str]:
    """Yields comments about the devices that are not suggested, grouped by reason."""
    detector, devices = listing.detector, listing.entries
    if listing.error:
        yield f"# not all devices could be listed: {listing.error}\n"
    elif not devices:
        yield "# this machine has none\n"
    reasons: dict[str, list[str]] = {}  # reason -> names of devices
    suggested = key_matchers(detector, detector.suggest)
    for device in devices:
        result = match_values(suggested, device.values)
        if result.matches is False:
            test, _value = result.mismatches[0]
            reasons.setdefault(f"because of {test.key}", []).append(device.name)
        elif not device.kind.toml:
            reasons.setdefault(f"because a value is unknown ({device.kind.reason})", []).append(device.name)
    for reason, names in reasons.items():
        yield f"# left out {reason}: {listed(names, _MAX_NAMES)}\n"


def _resource(detector: DeviceDetector, suggestion: _Suggestion, name: str) -> str:
    devices = suggestion.devices
    lines = [
        f'[resources."{_DOMAIN}/{name}"]',
        suggestion.toml,
        f"expect = {len(devices)}  # the number of devices now",
    ]
    for key, unit, total in _totals(detector, devices):
        lines.append(f'# measure = "{key}"  # instead of a count; then expect = {total}')
        if unit:
            lines.append(f'# unit = "{unit}"')
    if suggestion.unknown_because:
        why = f"# commented out, because the count is unknown: {suggestion.unknown_because}"
        lines = [why, *(f"# {line}" for line in lines)]
    title = devices[0].title or f"{detector.name} device"
    names = listed([device.name for device in devices], _MAX_NAMES)
    return "\n".join([f"# {title} ({len(devices)}): {names}", *lines, ""])


def _totals(detector: DeviceDetector, devices: Sequence[DeviceEntry]) -> Iterable[tuple[str, str, int]]:
    """Yields key, unit and total of the first measure in each dimension that all these devices report."""
    for dimension, (unit, factor) in _UNITS.items():
        for key, measure in detector.measures.items():
            values = [device.values.get(key) for device in devices]
            if measure.dimension == dimension and all(values):
                total = sum(value for value in values if isinstance(value, int)) // factor
                if total:
                    yield key, unit, total
                break


def _resource_name(detector: DeviceDetector, device: DeviceEntry, used: Collection[str]) -> str:
    """An unused name for devices of this kind, such as usb-security-key; without the domain."""
    model = re.sub(r"[([].*?[)\]]", " ", device.model)  # without what is in brackets
    if not model.strip():
        ids = [device.values.get(key) for key in detector.same_model]
        model = "-".join(str(value) for value in ids if value)
    words = re.findall("[a-z0-9]+", f"{detector.name} {model}".lower())
    # wrap() cuts between words.
    name = textwrap.wrap(" ".join(words), _MAX_RESOURCE_NAME, break_long_words=False)[0].replace(" ", "-")
    unused = name
    number = 1
    while unused in used:
        number += 1
        unused = f"{name}-{number}"
    return unused
