"""Hints for `config check` and `probe --explain` about settings that are valid but probably mistakes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from capacityd.detectors import load
from capacityd.linux.mountinfo import is_inside
from capacityd.model.address_ranges import parsed_networks
from capacityd.model.config import Resource
from capacityd.model.device import DeviceDetector
from capacityd.model.device_plugins import PLUGIN_DOMAINS, plugin_domain
from capacityd.model.units import is_amount

_KERNEL_FOLDERS = ("/proc", "/sys")
"""Where files have the time at which the kernel created them, not at which their content changed."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A hint about a resource."""

    path: tuple[str, ...]
    """The keys that lead from the resource's table to the setting; () if the hint concerns the whole table."""
    text: str


def hints(resource: Resource) -> Iterator[Hint]:
    """Yields the hints about a resource."""
    for text in name_hints([resource]):
        yield Hint(path=(), text=text)
    yield from _kernel_date_hints(resource)
    yield from _pool_hints(resource)
    detector = load(resource.detector)
    if not isinstance(detector, DeviceDetector):
        return
    machine_is_only_device = not detector.identity
    only_defaults = any(all(test.key in detector.defaults for test in table.tests) for table in resource.tables)
    if machine_is_only_device and resource.measure is None and only_defaults:
        measures = ", ".join(detector.measures)
        yield Hint((detector.name,), f"without a measure this is 1 on every machine; add a measure: {measures}")
    sizes = [key for key, amount in detector.measures.items() if amount.dimension == "size"]
    for test in (test for table in resource.tables for test in table.tests if test.key in sizes):
        written = test.text.split(" or ")  # config/tables.py joins the values of a list in this way
        exact_sizes = [text for text in written if is_amount(text.strip())]
        if exact_sizes:
            size = exact_sizes[0]
            text = f'"{size}" matches only this exact size; for this size or more write ">={size}"'
            yield Hint((detector.name, test.key), text)


def _kernel_date_hints(resource: Resource) -> Iterator[Hint]:
    """Yields a hint for each age limit of a file that the kernel dates."""
    for table in resource.tables:
        path = os.path.normpath(str(table.settings.get("path", "")))
        has_max_age = table.settings.get("max_age") is not None
        if has_max_age and any(is_inside(path, folder) for folder in _KERNEL_FOLDERS):
            yield Hint(
                (resource.detector, "max_age"),
                f"the kernel does not date {path} when its number changes, so the resource will be unknown; "
                "leave out max_age",
            )


def _pool_hints(resource: Resource) -> Iterator[Hint]:
    """Yields a hint for each table of a pool with exceptions that are in none of its networks."""
    if resource.detector != "pool":
        return
    for table in resource.tables:
        networks = parsed_networks(table.settings["cidr"])
        excepted = parsed_networks(table.settings["except"])
        outside = [part for part in excepted if not any(part.overlaps(network) for network in networks)]
        if outside:
            text = f"{', '.join(map(str, outside))} excludes nothing, because no network of cidr contains it"
            yield Hint((resource.detector, "except"), text)


def name_hints(resources: Iterable[Resource]) -> Iterator[str]:
    """Yields a hint for each name that a device plugin may register: device plugins use its domain."""
    for resource in resources:
        if domain := plugin_domain(resource.name):
            _, _, after_domain = resource.name.partition("/")
            yield (
                f"device plugins use names in {domain} ({PLUGIN_DOMAINS[domain]}); if one registers {resource.name}, "
                f"capacityd gives it up: use your own domain, as in example.com/{after_domain}"
            )
