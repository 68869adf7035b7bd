"""Decides whether a change of the Node starts a pass.

Compares two fingerprints of the Node (model/fingerprint.py): the one that the watcher last reported, and the one that
the last pass left. A pass's write starts no other pass, whether the watcher reports the write before or after the end
of the pass.
"""

from __future__ import annotations


class NodeComparison:
    """The two fingerprints, and whether they must be compared again."""

    def __init__(self) -> None:
        self._seen: str | None = None  # the watcher's last report; None: the Node is not watched
        self._known: str | None = None  # the Node as the last pass left it; None: unknown
        self._seen_by_pass: str | None = None  # _seen when the current pass began
        self._reported = False  # whether the watcher has reported anything since the last comparison

    def report(self, seen: str | None) -> None:
        """Takes the fingerprint that the watcher has seen; None: the Node is no longer watched."""
        self._seen = seen
        self._reported = seen is not None

    def begin_pass(self) -> None:
        """Keeps the watcher's last report when a pass begins."""
        self._seen_by_pass = self._seen

    def end_pass(self, known: str | None) -> None:
        """Takes the fingerprint of the Node as the pass left it.

        known: None if the pass did not read the Node. Then the watcher's last report before the pass counts.
        """
        self._known = self._seen_by_pass if known is None else known

    @property
    def is_unchanged(self) -> bool:
        """Whether the Node is watched, and has not changed since the last pass."""
        return self._seen is not None and self._seen == self._known

    def pop_change(self, *, any_report: bool) -> bool:
        """Returns whether the watcher has reported a change of the Node since the last call.

        any_report: whether a report of an unchanged Node counts, too.
        """
        reported, self._reported = self._reported, False
        return reported and (any_report or self._seen != self._known)
