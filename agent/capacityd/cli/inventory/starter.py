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
from capacityd.model.value_types import Amount, Flag

_DOMAIN = "example.com"
_MAX_NAMES = 8  # devices to list in a comment
_MAX_RESOURCE_NAME = 48  # characters after the domain; Kubernetes' limit is 63
_UNITS: Mapping[Dimension, tuple[str, int]] = {
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
    """The counted devices."""
    doubt: str
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
    kinds: dict[str, DeviceEntry] = {}
    for device in devices:
        if device.kind.toml and match_values(suggested, device.values).matches is not False:
            kinds.setdefault(device.kind.toml, device)
    suggestions = []
    for first in kinds.values():
        table = {**first.kind.table, **flags}
        tests = key_matchers(detector, table)
        results = [(device, match_values(tests, device.values)) for device in devices]
        counted = tuple(device for device, result in results if result.matches)
        doubt = next((f"{device.name}: {r.reason}" for device, r in results if r.matches is None), listing.error)
        suggestions.append(_Suggestion(toml_line(detector.name, table), counted or (first,), doubt))
    return suggestions


def _left_out(listing: DeviceListing) -> Iterable[str]:
    """Yields comments about the devices that are not suggested, grouped by reason."""
    detector, devices = listing.detector, listing.entries
    if listing.error:
        yield f"# not all devices could be listed: {listing.error}\n"
    elif not devices:
        yield "# this machine has none\n"
    reasons: dict[str, list[str]] = {}
    suggested = key_matchers(detector, detector.suggest)
    for device in devices:
        result = match_values(suggested, device.values)
        if result.matches is False:
            reasons.setdefault(f"because of {result.mismatches[0][0].key}", []).append(device.name)
        elif not device.kind.toml:
            reasons.setdefault(f"because a value is unknown ({device.kind.reason})", []).append(device.name)
    yield from (f"# left out {reason}: {listed(names, _MAX_NAMES)}\n" for reason, names in reasons.items())


def _resource(detector: DeviceDetector, suggestion: _Suggestion, name: str) -> str:
    devices = suggestion.devices
    lines = [
        f'[resources."{_DOMAIN}/{name}"]',
        suggestion.toml,
        f"expect = {len(devices)}  # the number of devices now",
    ]
    for key, unit, total in _totals(detector, devices):
        lines.append(f'# measure = "{key}"  # instead of a count; then expect = {total}')
        lines += [f'# unit = "{unit}"'] if unit else []
    if suggestion.doubt:
        lines = [f"# commented out, because the count is unknown: {suggestion.doubt}", *(f"# {line}" for line in lines)]
    title = devices[0].title or f"{detector.name} device"
    return "\n".join([f"# {title} ({len(devices)}): {listed([d.name for d in devices], _MAX_NAMES)}", *lines, ""])


def _totals(detector: DeviceDetector, devices: Sequence[DeviceEntry]) -> Iterable[tuple[str, str, int]]:
    """Yields key, unit and total of the first measure in each dimension that all these devices report."""
    for dimension, (unit, factor) in _UNITS.items():
        for name, key in detector.keys.items():
            values = [device.values.get(name) for device in devices]
            if isinstance(key.kind, Amount) and key.kind.dimension == dimension and all(values):
                if total := sum(v for v in values if isinstance(v, int)) // factor:
                    yield name, unit, total
                break


def _resource_name(detector: DeviceDetector, device: DeviceEntry, used: Collection[str]) -> str:
    """An unused name for devices of this kind."""
    model = re.sub(r"[([].*?[)\]]", " ", device.model)
    ids = "-".join(str(device.values.get(key)) for key in detector.alike if device.values.get(key))
    words = re.findall("[a-z0-9]+", f"{detector.name} {model if model.strip() else ids}".lower())
    name = textwrap.wrap(" ".join(words), _MAX_RESOURCE_NAME, break_long_words=False)[0].replace(" ", "-")
    number = 1
    while (unique := name if number == 1 else f"{name}-{number}") in used:
        number += 1
    return unique
