"""The detector static: a number in the configuration."""

from __future__ import annotations

import pytest

from capacityd.host.recording.replay import RecordedHost
from capacityd.model.quantity import LARGEST_QUANTITY
from capacityd.model.reading import Contribution
from tests.support.readings import value_detector

DETECTOR = value_detector("static")


@pytest.mark.parametrize("number", [0, 1, LARGEST_QUANTITY])
def test_the_amount_is_the_configured_number(number: int) -> None:
    assert DETECTOR.settings["quantity"].type.parse(number) == number
    assert DETECTOR.read(RecordedHost({}), {"quantity": number}) == Contribution("configuration", number)
