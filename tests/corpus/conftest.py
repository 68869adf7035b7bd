"""Prints the table of machines and readings at the end of a run."""

from __future__ import annotations

import pytest

from tests.corpus.page import table


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Whatever was tested of it, unless it was only collected."""
    if not terminalreporter.config.option.collectonly:
        terminalreporter.write_sep("=", "the corpus: machines and what is read on them")
        terminalreporter.write_line(table())
