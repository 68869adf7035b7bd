"""pool: the number of addresses that a range provides for pods, in use or not: the scheduler subtracts the used
ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from capacityd.model.address_ranges import AddressRange, AddressRanges
from capacityd.model.device import ValueDetector
from capacityd.model.host import Host
from capacityd.model.reading import Contribution
from capacityd.model.setting_types import Setting


def read(_: Host, settings: Mapping[str, object]) -> Contribution:
    """The number of addresses in all networks, each counted once, without the excluded ones."""
    networks, excepted = (cast("tuple[AddressRange, ...]", settings[key] or ()) for key in ("cidr", "except"))
    usable = [span.usable() for span in networks]
    remaining = _size([*usable, *excepted]) - _size(excepted)
    excluded = _size(usable) - remaining
    return Contribution(
        ", ".join(span.text for span in networks), remaining, f"{excluded} excepted" if excluded else ""
    )


def _size(spans: Iterable[AddressRange]) -> int:
    """The number of distinct addresses in the ranges."""
    size, family, end = 0, 0, -1
    for span in sorted(spans, key=lambda s: (s.bits, s.first, s.last)):
        if span.bits != family:
            family, end = span.bits, -1
        size += max(0, span.last - max(span.first, end + 1) + 1)
        end = max(end, span.last)
    return size


DETECTOR = ValueDetector(
    name="pool",
    about="addresses of a range for pods, without those that other machines or programs use",
    settings={
        "cidr": Setting(
            AddressRanges(networks=True),
            'the network, such as "192.0.2.0/24", or several; network and broadcast addresses do not count',
            required=True,
        ),
        "except": Setting(
            AddressRanges(), 'addresses, networks and ranges such as "192.0.2.1-192.0.2.9" that do not count'
        ),
    },
    read=read,
)
