"""Tests the types of a setting's value: the notation of durations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.schema.setting_types import Duration, duration_value

ANY_DURATION = Duration(least=0, most=10**9)


@pytest.mark.parametrize(
    ("seconds", "value"),
    [
        (0, "0s"),
        (0.001, "1ms"),
        (0.5, "500ms"),
        (1.5, "1500ms"),
        (90, "90s"),
        (300, "5min"),
        (7200, "2h"),
        (86400, "1d"),
        (1234567, "1234567s"),
    ],
)
def test_a_duration_is_written_in_the_largest_unit_of_which_it_is_a_whole_number(seconds: float, value: str) -> None:
    assert duration_value(seconds) == value


@given(st.integers(0, 10**9))
def test_a_written_duration_can_be_parsed(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert ANY_DURATION.parse(duration_value(seconds)) == pytest.approx(seconds)
