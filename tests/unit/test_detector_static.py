"""A number that the configuration gives."""

from __future__ import annotations

import pytest

from capacityd.detectors import load
from capacityd.host.recorded import RecordedHost
from capacityd.model import Evidence, ValueDetector
from capacityd.quantity import LARGEST

DETECTOR = load("static")


def test_the_number() -> None:
    assert isinstance(DETECTOR, ValueDetector)
    assert DETECTOR.read(RecordedHost({}), {"quantity": 12}) == Evidence("configuration", 12)


@pytest.mark.parametrize("raw", [-1, LARGEST + 1, True, 1.0, "1", None])
def test_what_is_no_quantity(raw: object) -> None:
    assert isinstance(DETECTOR, ValueDetector)
    with pytest.raises(ValueError, match="must be"):
        DETECTOR.settings["quantity"].kind.parse(raw)


@pytest.mark.parametrize("raw", [0, 1, LARGEST])
def test_what_is_one(raw: int) -> None:
    assert isinstance(DETECTOR, ValueDetector)
    assert DETECTOR.settings["quantity"].kind.parse(raw) == raw
