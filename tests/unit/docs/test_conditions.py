"""The page on the condition has every reason, in the order of urgency."""

from __future__ import annotations

import re

from capacityd.model.node import ConditionReason
from tests import ROOT

PAGE = (ROOT / "docs/how-to/conditions.md").read_text()


def test_the_table_has_every_reason_in_its_order() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*)\|$", PAGE, re.MULTILINE)
    assert [reason for reason, _, _ in rows] == [reason.value for reason in ConditionReason]
    for reason, meaning, action in rows:
        assert meaning, reason
        assert action or reason == ConditionReason.PUBLISHED.value, f"{reason} does not say what to do"
