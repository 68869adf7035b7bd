"""pool: how many addresses a range has for pods. None is asked for its use: the scheduler keeps that account."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

from capacityd.model import Evidence, ValueDetector
from capacityd.settings import Setting, Span, Spans

if TYPE_CHECKING:
    from capacityd.host import Host


def read(_: Host, settings: Mapping[str, object]) -> Evidence:
    """The addresses of all networks together, each once, without those that are excepted."""
    networks, excepted = (cast("tuple[Span, ...]", settings[key] or ()) for key in ("cidr", "except"))
    usable = [span.usable() for span in networks]
    left = _size([*usable, *excepted]) - _size(excepted)
    names = ", ".join(span.text for span in networks)
    taken = _size(usable) - left
    return Evidence(names, left, f"{taken} excepted" if taken else "")


def _size(spans: Iterable[Span]) -> int:
    """How many different addresses there are in them."""
    size, family, end = 0, 0, -1
    for span in sorted(spans, key=lambda s: (s.bits, s.first, s.last)):
        if span.bits != family:
            family, end = span.bits, -1
        size += max(0, span.last - max(span.first, end + 1) + 1)
        end = max(end, span.last)
    return size


DETECTOR = ValueDetector(
    name="pool",
    about="addresses of a range that pods may get, less those that something else has",
    settings={
        "cidr": Setting(
            Spans(networks=True),
            'the network, such as "192.0.2.0/24", or several; its own address and broadcast do not count',
            required=True,
        ),
        "except": Setting(Spans(), 'addresses, networks and ranges such as "192.0.2.1-192.0.2.9" that do not count'),
    },
    read=read,
)
