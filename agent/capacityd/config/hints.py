"""Hints for `config check` and `probe --explain` about what is valid, but more often a mistake."""

from __future__ import annotations

from collections.abc import Iterator

from capacityd.detectors import load
from capacityd.model.config import Resource, Table
from capacityd.model.device import DeviceDetector
from capacityd.model.units import is_amount
from capacityd.model.value_types import Amount


def hints(resource: Resource) -> Iterator[tuple[str, str]]:
    """Yields the key of the detector's table, "" for the table itself, and the hint."""
    detector = load(resource.detector)
    if not isinstance(detector, DeviceDetector):
        return
    counted = resource.measure is None and not detector.identity  # the machine itself is the only device
    if counted and any(_is_empty(table, detector) for table in resource.tables):
        measures = ", ".join(name for name, key in detector.keys.items() if isinstance(key.kind, Amount))
        yield "", f"without a measure this is 1 on every machine; add a measure: {measures}"
    for table in resource.tables:
        for test in table.tests:
            key = detector.keys.get(test.key)
            if key and isinstance(key.kind, Amount) and key.kind.dimension == "size":
                exact = next((text for text in test.text.split(" or ") if is_amount(text.strip())), "")
                if exact:
                    yield test.key, f'"{exact}" matches only this exact size; for this size or more write ">={exact}"'


def _is_empty(table: Table, detector: DeviceDetector) -> bool:
    """Whether a table has no tests but the detector's defaults."""
    return all(test.key in detector.defaults for test in table.tests)
