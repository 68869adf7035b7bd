"""Decides whether a change of the Node starts a reconcile pass.

Compares two fingerprints of the Node (model/fingerprint.py): the one that the watcher last reported, and the one that
the last pass left. What a pass writes starts no other pass, even if the watcher reports the write before the pass ends.
"""

from __future__ import annotations


class NodeComparison:
    """The two fingerprints, and whether they must be compared again."""

    def __init__(self) -> None:
        self._reported: str | None = None  # the watcher's last report; None: the Node is not watched
        self._left_by_pass: str | None = None  # the Node as the last pass left it; None: unknown
        self._reported_before_pass: str | None = None  # the watcher's last report when the current pass began
        self._has_new_report = False  # whether pop_change() has not yet compared the watcher's last report

    def report(self, fingerprint: str | None) -> None:
        """Takes the fingerprint that the watcher reports; None: the Node is no longer watched."""
        self._reported = fingerprint
        self._has_new_report = fingerprint is not None

    def begin_pass(self) -> None:
        """Keeps the watcher's last report when a pass begins."""
        self._reported_before_pass = self._reported

    def end_pass(self, fingerprint: str | None) -> None:
        """Takes the fingerprint of the Node as the pass left it.

        fingerprint: None if the pass did not read the Node. Then the watcher's last report before the pass counts.
        """
        self._left_by_pass = self._reported_before_pass if fingerprint is None else fingerprint

    @property
    def is_unchanged(self) -> bool:
        """Whether the Node is watched, and has not changed since the last pass."""
        return self._reported is not None and self._reported == self._left_by_pass

    def pop_change(self, *, any_report: bool) -> bool:
        """Returns whether the watcher has reported a change of the Node since the last call.

        any_report: whether a report of an unchanged Node counts, too.
        """
        if not self._has_new_report:
            return False
        self._has_new_report = False
        return any_report or self._reported != self._left_by_pass
