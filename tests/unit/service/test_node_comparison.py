"""When a change of the Node starts a pass, whether it is reported during a pass or after its end.

"a", "b" and "c" stand for states of the Node.
"""

from __future__ import annotations

from capacityd.service.node_comparison import NodeComparison


def after_a_pass(known: str | None, *reports: str) -> NodeComparison:
    """A comparison after a first pass, which began with the Node "a" and left the Node `known` (None: it failed).

    reports: what the watcher reported during the pass.
    """
    comparison = NodeComparison()
    comparison.report("a")
    comparison.begin_pass()
    for report in reports:
        comparison.report(report)
    comparison.end_pass(known)
    return comparison


def test_a_report_of_the_services_own_write_starts_no_pass() -> None:
    assert not after_a_pass("b", "b").pop_change(any_report=False)
    late = after_a_pass("b")
    late.report("b")
    assert not late.pop_change(any_report=False)


def test_a_change_by_another_writer_starts_a_pass_during_or_after_a_pass() -> None:
    assert after_a_pass("b", "b", "c").pop_change(any_report=False)
    later = after_a_pass("b", "b")
    assert not later.pop_change(any_report=False)
    later.report("c")
    assert later.pop_change(any_report=False)
    assert not later.pop_change(any_report=False), "once"


def test_while_passes_fail_each_change_shortens_the_pause_once() -> None:
    comparison = after_a_pass(None)
    comparison.pop_change(any_report=True)
    assert not comparison.pop_change(any_report=True), "the pass has planned for this Node"
    comparison.report("a")
    assert comparison.pop_change(any_report=True), "the API server can be reached again"


def test_a_node_that_is_not_watched_starts_no_pass() -> None:
    comparison = after_a_pass("b", "c")
    comparison.report(None)
    assert not comparison.pop_change(any_report=True)
