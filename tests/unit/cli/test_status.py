"""What `status` makes of the last pass."""

from __future__ import annotations

import pytest

from capacityd.cli.commands.status import _resources
from capacityd.model.node import Change
from capacityd.worker.pass_state import NodeStatus, Outcome, PassStatus, ReadingStatus

NAME = "example.com/dongle"


@pytest.mark.parametrize(
    ("quantity", "below", "expect", "held", "action", "reported"),
    [
        (2, {NAME: (2, 3)}, 3, False, "keep", True),
        (2, {NAME: (2, 3)}, 2, False, "keep", False),
        (2, {}, 3, False, "keep", True),
        (2, {}, None, False, "keep", False),
        (2, {}, 3, True, "hold", False),
        (2, {}, 3, False, "refuse", False),
        (None, {NAME: (0, 3)}, 1, False, "keep", True),
        (None, {}, 1, False, "keep", False),
    ],
)
def test_expect_is_that_of_the_last_reload_though_the_node_was_not_read_since(
    quantity: int | None, below: dict[str, tuple[int, int]], expect: int | None, held: bool, action: str, reported: bool
) -> None:
    """There may be no kubeconfig yet, or the API server may be unreachable."""
    reading = ReadingStatus(Outcome.ABSENT if quantity is None else Outcome.QUANTITY, quantity)
    last_pass = PassStatus(
        at=1.0,
        reasons=(),
        readings={NAME: reading},
        expect={} if expect is None else {NAME: expect},
        held_until={NAME: 9.0} if held else {},
        node=NodeStatus("n1", 0.0, (Change(NAME, action, "3", "2", ""),), below_expected=below),
    )
    (row,) = _resources(last_pass, now=2.0)
    assert (row.below_expect, row.degraded) == (reported, reported or action == "refuse")
