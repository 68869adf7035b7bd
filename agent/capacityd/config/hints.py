"""Hints for `config check` and `probe --explain` about settings that are valid but probably mistakes."""

from __future__ import annotations

from collections.abc import Iterator

from capacityd.config.problems import Place, Problem
from capacityd.detectors import load_detector
from capacityd.model.device_plugins import PLUGIN_DOMAINS, plugin_domain
from capacityd.schema.config import Resource
from capacityd.schema.device import DeviceDetector
from capacityd.schema.matchers import OR
from capacityd.schema.units import is_amount


def hints(resource: Resource, place: Place) -> Iterator[Problem]:
    """Yields the hints about a resource. place: the resource's table."""
    if text := _name_hint(resource.name):
        yield place.problem("", text, warning=True)
    detector = load_detector(resource.detector)
    if isinstance(detector, DeviceDetector):
        table = place.below(detector.name)
        yield from _measure_hints(resource, detector, table)
        yield from _exact_size_hints(resource, detector, table)


def _measure_hints(resource: Resource, detector: DeviceDetector, place: Place) -> Iterator[Problem]:
    """Yields a hint if the machine is the detector's only device, and the resource has neither a measure nor a test."""
    machine_is_only_device = not detector.identifying_keys  # cpu and memory
    has_table_without_test = any(not table.tests for table in resource.tables)
    if machine_is_only_device and resource.measure is None and has_table_without_test:
        measures = ", ".join(detector.measures)
        text = f"without a measure this is 1 on every machine; add a measure: {measures}"
        yield place.problem("", text, warning=True)


def _exact_size_hints(resource: Resource, detector: DeviceDetector, place: Place) -> Iterator[Problem]:
    """Yields a hint for each test that compares a size for equality."""
    sizes = [key for key, amount in detector.measures.items() if amount.dimension == "size"]
    for table in resource.tables:
        for test in table.tests:
            comparisons = test.text.split(OR)
            # An amount without a sign such as >= is compared for equality.
            exact_sizes = [comparison for comparison in comparisons if is_amount(comparison.strip())]
            if test.key in sizes and exact_sizes:
                size = exact_sizes[0]
                text = f'"{size}" matches only this exact size; for this size or more write ">={size}"'
                yield place.problem(test.key, text, warning=True)


def _name_hint(name: str) -> str:
    """A hint about a name in a device plugin's domain, because the plugin may register it; "" for any other name."""
    domain = plugin_domain(name)
    if not domain:
        return ""
    _, _, after_domain = name.partition("/")
    return (
        f"device plugins use names in {domain} ({PLUGIN_DOMAINS[domain]}); if one registers {name}, capacityd gives it "
        f"up: use your own domain, as in example.com/{after_domain}"
    )
