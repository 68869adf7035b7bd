"""A pytest plugin: writes the events of the tests as lines of JSON to the file that LANES_EVENTS names.

Under pytest-xdist only the controller writes; it receives the events of all workers.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest


class Events:
    """Each line has one of the keys collected (a number of tests), started, failed and ended (a test)."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "a", buffering=1)  # noqa: SIM115  # as long as the process
        self._seconds: dict[str, float] = {}
        self._skipped: dict[str, str] = {}

    def _write(self, **event: Any) -> None:
        self._file.write(json.dumps(event) + "\n")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:
            self._write(collected=len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._write(collected=len(ids))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(failed=report.nodeid, text=report.longreprtext)
        elif report.skipped:
            self._write(ended=report.nodeid, skipped=_reason(report), seconds=0.0)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write(started=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds = self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self._write(failed=report.nodeid, text=report.longreprtext)
        if report.skipped and not hasattr(report, "wasxfail"):
            self._skipped[report.nodeid] = _reason(report)
        if report.when == "teardown":
            self._write(ended=report.nodeid, skipped=self._skipped.get(report.nodeid), seconds=round(seconds, 2))


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get("LANES_EVENTS")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Events(path))


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    longrepr = report.longrepr
    return str(longrepr[2] if isinstance(longrepr, tuple) else longrepr).removeprefix("Skipped: ")
