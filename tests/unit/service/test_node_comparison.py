"""When a change of the Node starts a pass, whatever the order of reports and results."""

from __future__ import annotations

from capacityd.service.node_comparison import NodeComparison


def after_a_pass(known: str | None, *reports: str) -> NodeComparison:
    """A comparison after a first pass that watched "a", with these reports during the pass."""
    comparison = NodeComparison()
    comparison.report("a")
    comparison.begin_pass()
    for report in reports:
        comparison.report(report)
    comparison.end_pass(known)
    return comparison


def test_the_report_of_a_passs_own_write_starts_no_pass_before_or_after_its_end() -> None:
    assert not after_a_pass("b", "b").pop_difference(may_end_error=False)
    late = after_a_pass("b")
    late.report("b")
    assert not late.pop_difference(may_end_error=False)


def test_a_change_by_another_writer_starts_a_pass_during_or_after_a_pass() -> None:
    assert after_a_pass("b", "b", "c").pop_difference(may_end_error=False)
    later = after_a_pass("b", "b")
    assert not later.pop_difference(may_end_error=False)
    later.report("c")
    assert later.pop_difference(may_end_error=False)
    assert not later.pop_difference(may_end_error=False), "once"


def test_while_passes_fail_only_news_shortens_their_pause() -> None:
    comparison = after_a_pass(None)
    comparison.pop_difference(may_end_error=True)
    assert not comparison.pop_difference(may_end_error=True), "the pass has planned for this Node"
    comparison.report("a")
    assert comparison.pop_difference(may_end_error=True), "the API server can be reached again"


def test_a_node_that_is_not_watched_starts_no_pass() -> None:
    comparison = after_a_pass("b", "c")
    comparison.report(None)
    assert not comparison.pop_difference(may_end_error=True)
