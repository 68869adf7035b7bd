"""The words that `status` has for what a pass was about."""

from __future__ import annotations

import pytest

from capacityd.model.reasons import Occasion, PassReason, occasions_of


@pytest.mark.parametrize("reason", PassReason)
def test_each_reason_has_a_word(reason: PassReason) -> None:
    (occasion,) = occasions_of([reason])
    assert (reason.value == occasion.value) or reason.value not in [word.value for word in Occasion], "one meaning"


def test_alike_reasons_are_one_word() -> None:
    reasons = [PassReason.LINKS, PassReason.DEVICES, PassReason.BOOT, PassReason.CONFIG]
    assert occasions_of(reasons) == (Occasion.CONFIGURATION, Occasion.HARDWARE, Occasion.START)
