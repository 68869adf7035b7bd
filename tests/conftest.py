"""Settings of all tests.

hypothesis tries the same examples in each run. HYPOTHESIS_PROFILE=quick, which "make check" sets, tries a fifth of
them; HYPOTHESIS_PROFILE=thorough tries new ones for a night. No example has a deadline, because pytest-timeout ends a
test that hangs. For root, a skipped test is a failure, because "make test" installs all tools; but not if root lacks
namespaces.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.support.forked import can_be_alone

if TYPE_CHECKING:
    import pluggy

# These tests begin first, so that none of them still runs when all others have ended.
_LONGEST = (
    "test_no_history_breaks_a_promise",
    "test_unreadable_is_never_absent",
    "test_files_that_may_end_an_error_are_watched_while_it_lasts",
)

settings.register_profile("quick", deadline=None, derandomize=True, max_examples=20)
settings.register_profile("usual", deadline=None, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=20_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.name.partition("[")[0] not in _LONGEST)


# Hook wrappers in the style of pytest 7 (Debian 12), because the package's build runs some of these tests with it.
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Generator[None, pluggy.Result[pytest.TestReport], None]:
    outcome = yield
    _fail_if_skipped(outcome.get_result())


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report() -> Generator[None, pluggy.Result[pytest.CollectReport], None]:
    outcome = yield
    _fail_if_skipped(outcome.get_result())


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Makes skipped tests failures for root, except expected failures, which pytest also reports as skipped."""
    if report.skipped and not hasattr(report, "wasxfail") and os.geteuid() == 0 and can_be_alone():
        report.outcome, report.longrepr = "failed", f"skipped, which as root is a failure: {report.longrepr}"
