"""Which changes of the Node start a pass. The watcher may report them during a pass, or after the end of the pass.

"a", "b" and "c" stand for states of the Node.
"""

from __future__ import annotations

import pytest

from capacityd.service.node_comparison import NodeComparison


@pytest.mark.parametrize(
    ("during", "left", "later", "any_report", "starts_pass"),
    [
        (["b"], "b", [], False, False),  # the service's own write
        ([], "b", ["b"], False, False),
        (["b", "c"], "b", [], False, True),  # another writer's change
        (["b"], "b", ["c"], False, True),
        ([], None, ["a"], False, False),  # the pass has failed
        ([], None, ["a"], True, True),  # the API server can be reached again
        (["c"], "b", [None], True, False),  # the Node is not watched
    ],
)
def test_a_pass_follows_a_change_that_the_last_pass_has_not_seen(
    during: list[str], left: str | None, later: list[str | None], any_report: bool, starts_pass: bool
) -> None:
    """The first pass begins with the Node "a", and leaves the Node `left` (None: unknown). during, later: reports."""
    comparison = NodeComparison()
    comparison.report("a")
    comparison.pop_change(any_report=True)
    comparison.begin_pass()
    for seen in during:
        comparison.report(seen)
    comparison.end_pass(left)
    for seen_later in later:
        comparison.report(seen_later)
    assert comparison.pop_change(any_report=any_report) is starts_pass
    assert not comparison.pop_change(any_report=any_report), "each report is compared once"
