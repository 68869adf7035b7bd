"""Decides whether a change of the Node starts a pass: compares the Node as it is watched with what the last pass knew.

Pure. Each of the two is a hash of what a plan depends on in the Node. Only the hashes count, not the order of reports:
the report of a pass's own write may come before the pass has ended, or after it.
"""

from __future__ import annotations


class NodeComparison:
    """What is known of the Node, and whether it must be compared."""

    def __init__(self) -> None:
        self._seen: str | None = None  # the Node as it is watched; None: it is not watched
        self._known: str | None = None  # the Node as the last pass left it; None: no pass has known it
        self._seen_by_pass: str | None = None  # _seen when the current pass began
        self._reported = False  # whether the watcher has reported anything since the last comparison
        self._requested = False  # whether to compare although nothing was reported

    def report(self, seen: str | None) -> None:
        """The watcher reports the Node; None: the Node is no longer watched."""
        self._seen = seen
        self._reported = seen is not None

    def request(self) -> None:
        """Requests a comparison although nothing was reported: the last pass may have left the Node in another state
        than it is watched in."""
        self._requested = True

    def begin_pass(self) -> None:
        """A pass begins: it plans for the Node as it is watched, or reads it."""
        self._seen_by_pass = self._seen

    def end_pass(self, known: str | None) -> None:
        """A pass has ended. known: the Node as the pass left it; None if the pass failed.

        A failed pass knew the Node as it was watched when the pass began.
        """
        self._known = self._seen_by_pass if known is None else known

    @property
    def is_unchanged(self) -> bool:
        """Whether the Node is watched, and is as the last pass has left it."""
        return self._seen is not None and self._seen == self._known

    def pop_difference(self, *, may_end_error: bool) -> bool:
        """Whether the Node is a reason for a pass. Each report and each request counts only for the next call.

        may_end_error: whether the last pass failed with an error that any report may end.
        """
        reported, requested = self._reported, self._requested
        self._reported = self._requested = False
        if self._seen is None:
            return False
        if reported and may_end_error:
            return True
        if reported or requested:
            return self._seen != self._known
        return False
