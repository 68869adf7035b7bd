"""Hints for `config check` and `probe --explain` about settings that are valid but probably mistakes."""

from __future__ import annotations

from collections.abc import Iterator

from capacityd.config.problems import WHOLE_TABLE
from capacityd.detectors import load_detector
from capacityd.model.device_plugins import PLUGIN_DOMAINS, plugin_domain
from capacityd.schema.config import Resource
from capacityd.schema.device import DeviceDetector
from capacityd.schema.matchers import OR
from capacityd.schema.units import is_amount


def hints(resource: Resource) -> Iterator[tuple[str, str]]:
    """Yields pairs of a key in the resource's table, or WHOLE_TABLE, and a hint about it."""
    domain = plugin_domain(resource.name)
    if domain:
        _, _, name_in_domain = resource.name.partition("/")
        yield (
            WHOLE_TABLE,
            f"device plugins use names in {domain} ({PLUGIN_DOMAINS[domain]}); if one registers {resource.name}, "
            f"capacityd gives it up: use your own domain, as in example.com/{name_in_domain}",
        )
    detector = load_detector(resource.detector)
    if isinstance(detector, DeviceDetector):
        for hint in _measure_hints(resource, detector):
            yield detector.name, hint
        for hint in _exact_size_hints(resource, detector):
            yield detector.name, hint


def _measure_hints(resource: Resource, detector: DeviceDetector) -> Iterator[str]:
    """Yields a hint if the machine is the detector's only device, and the resource has neither a measure nor a test."""
    machine_is_only_device = not detector.identifying_keys  # cpu and memory
    has_table_without_test = any(not table.tests for table in resource.tables)
    if machine_is_only_device and resource.measure is None and has_table_without_test:
        yield f"without a measure this is 1 on every machine; add a measure: {', '.join(detector.measures)}"


def _exact_size_hints(resource: Resource, detector: DeviceDetector) -> Iterator[str]:
    """Yields a hint for each size without a sign such as >=, because a device rarely has exactly this size."""
    size_keys = [key for key, amount in detector.measures.items() if amount.dimension == "size"]
    for table in resource.tables:
        for test in table.tests:
            if test.key not in size_keys:
                continue
            for size in test.text.split(OR):
                has_no_sign = is_amount(size.strip())
                if has_no_sign:
                    yield f'{test.key} "{size}" matches only this exact size; for this size or more write ">={size}"'
