"""Lists the tests for each row of the table "Requests to the API server" in docs/limits.md.

This file contains the tests that no other file has. They simulate the clock of each pass, so that no test waits for
hours. They count requests in the audit log of the real API server.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import pytest

from capacityd.linux.clock import uptime
from capacityd.model.messages import PassResult
from capacityd.model.reasons import Job, RetryCause
from capacityd.reconcile.reconcile import MAX_CONFLICTS
from tests import ROOT
from tests.cluster import (
    faults,
    test_requests,
    test_service_api_faults,
    test_service_boot,
    test_service_change,
    test_service_identity,
    test_service_repair,
)
from tests.cluster.agent import AGENT, DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.processes import PATIENCE, TIED_TO_US
from tests.cluster.proxy import Proxy
from tests.cluster.service import Service
from tests.cluster.test_requests import EVENT, GET, PATCH, WHO
from tests.cluster.webhook import webhook
from tests.support.denials import Denies
from tests.support.workers import job_line, messages_of, pass_result
from tests.unit.reconcile import test_pass
from tests.unit.service import test_schedule

_STANDING_STILL = """
import sys, time
_, agent, uptime, now, *arguments = sys.argv
clock = time.clock_gettime
time.time = lambda: float(now)
time.clock_gettime = lambda which: float(uptime) if which == time.CLOCK_BOOTTIME else clock(which)
sys.path.insert(0, agent)
from capacityd.worker.main import main
main(arguments)
"""

Test = Callable[..., None]


def test_each_row_of_the_table_has_a_test() -> None:
    page = (ROOT / "docs/limits.md").read_text()
    table = page.partition("## Requests to the API server")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)
    assert rows[0] == "when"
    assert rows[1:] == [*_TESTS]


class Passes:
    """Passes started by the test, not by a service. Each pass has a simulated clock that stands still.

    From watch() on, the Node is watched, and nobody else changes it.
    """

    def __init__(self, s: Service) -> None:
        s.runtime_directory.mkdir()
        self._s, self._uptime, self._now = s, uptime(), time.time()
        self._unchanged = False
        self.result = PassResult()

    def at(self, seconds: float, reason: str) -> list[str]:
        """Makes a pass for this reason, as if this many seconds had passed. Returns its requests."""
        s = self._s
        clocks = [str(clock + seconds) for clock in (self._uptime, self._now)]
        worker = s.worker(_STANDING_STILL, str(AGENT), *clocks)
        job = job_line(Job.RECONCILE, reason, memory=self.result.memory, node_unchanged=self._unchanged)
        made = subprocess.run(
            [*TIED_TO_US, *worker], input=job, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=True
        ).stdout
        self.result = pass_result(messages_of(made))
        return s.requested()

    def watch(self) -> None:
        """From now on, the service says that the Node has not changed since the last pass."""
        self._unchanged = True

    @property
    def next(self) -> float:
        """Seconds until the next pass, as the last pass asked."""
        assert self.result.requeue_after is not None
        return self.result.requeue_after


def test_a_denial_is_tried_again_after_a_tenth_of_its_time(cluster: Cluster, s: Service) -> None:
    passes = Passes(s)
    with webhook(cluster, s.node) as hook:
        hook.denies = (Denies(DONGLE, 403),)
        assert passes.at(0, "boot") == [WHO, GET, *3 * [PATCH], EVENT]
        passes.watch()
        assert passes.next == 60
        assert passes.at(59, "requeue") == [GET]
        for seconds, pause in ((60, 60), (1000, 100), (7000, 600)):
            heartbeat = [PATCH] if seconds > 1800 else []
            assert passes.at(seconds, "requeue") == [GET, *heartbeat, PATCH]
            assert passes.next == pytest.approx(pause)
    assert passes.at(7600, "requeue") == [GET, PATCH, PATCH, EVENT, EVENT], "the second PATCH makes the condition True"
    assert s.capacity() == "1"


def test_a_resync_renews_the_heartbeat(cluster: Cluster, s: Service) -> None:
    """It changes nothing else."""
    passes = Passes(s)
    assert passes.at(0, "boot") == [WHO, GET, PATCH, EVENT, EVENT]
    passes.watch()
    before, node = s.condition(), without_heartbeat(cluster.node(s.node))
    assert passes.at(3600, "resync") == [GET, PATCH]
    assert s.condition()["lastHeartbeatTime"] > before["lastHeartbeatTime"]
    assert without_heartbeat(cluster.node(s.node)) == node


def without_heartbeat(node: Any) -> Any:
    """The Node without the fields that every write changes."""
    for key in ("resourceVersion", "managedFields"):
        node["metadata"].pop(key, None)
    for condition in node["status"]["conditions"]:
        condition.pop("lastHeartbeatTime", None)
    return node


def test_a_pass_gives_up_after_six_conflicts(cluster: Cluster, proxy: Proxy, s: Service) -> None:
    """Another writer changes the Node before each of our PATCHes."""
    numbers = count(100)
    writes = faults.before(lambda _: cluster.set_capacity(s.node, {"example.com/theirs": str(next(numbers))}))
    s.connect(proxy.url)
    s.join(proxy.url)
    passes = Passes(s)
    assert passes.at(0, "boot") == [WHO, GET, PATCH, EVENT, EVENT]
    passes.watch()
    proxy.fault(writes, "PATCH", f"/api/v1/nodes/{s.node}/status", times=None)
    s.machine.plug("1-2", events=False)
    assert passes.at(60, "hardware") == [*MAX_CONFLICTS * [GET, PATCH], GET]
    assert passes.result.failure is not None
    assert passes.result.failure.cause is RetryCause.CONFLICT


def test_a_node_that_cannot_be_watched_costs_a_get_for_each_look(s: Service) -> None:
    passes = Passes(s)
    assert passes.at(0, "boot") == [WHO, GET, PATCH, EVENT, EVENT]
    assert passes.at(60, "poll") == [GET]
    assert passes.at(360, "poll") == [GET]


def test_denied_access_is_one_request(proxy: Proxy, s: Service) -> None:
    """A proxy counts the requests, because the audit log names no user for unknown credentials."""
    s.connect(proxy.url)
    s.join(proxy.url, token="revoked")
    passes = Passes(s)
    passes.at(0, "boot")
    assert len(proxy.requests) == 1
    assert passes.result.failure is not None
    assert passes.result.failure.cause is RetryCause.DENIED


_TESTS: Mapping[str, Sequence[Test]] = {
    "nothing changes": [
        test_service_change.test_what_does_not_concern_us_causes_no_request,
        test_service_change.test_a_resync_is_one_request,
        test_service_change.test_the_node_is_watched_over_one_connection,
        test_a_resync_renews_the_heartbeat,
        test_schedule.test_without_events_there_is_only_the_resync,
    ],
    "the service starts": [test_service_boot.test_a_start_with_nothing_to_change_writes_nothing],
    "a number differs from the Node": [
        test_service_change.test_plug_and_unplug,
    ],
    "a number keeps changing": [
        test_service_repair.test_what_another_writer_changes_is_restored_and_then_once_a_minute,
        test_pass.test_six_writes_then_one_a_minute,
    ],
    "hardware changes, but no number does": [test_service_change.test_what_does_not_concern_us_causes_no_request],
    "the API server or a policy denies a resource": [
        test_requests.test_a_denial_of_few_costs_a_patch_for_each_change,
        test_requests.test_a_denial_of_one_of_500_is_isolated_by_halves,
        test_a_denial_is_tried_again_after_a_tenth_of_its_time,
    ],
    "the kubelet restarts, or a device plugin registers a name or gives one up": [
        test_service_repair.test_the_kubelet_restarts,
        test_service_repair.test_the_kubelet_rewrites_its_checkpoint,
    ],
    "the Node cannot be watched": [
        test_a_node_that_cannot_be_watched_costs_a_get_for_each_look,
        test_schedule.test_a_node_that_is_not_watched_is_looked_at_from_time_to_time,
    ],
    "there is no kubeconfig, or a file that it names is missing": [
        test_service_boot.test_the_machine_joins,
        test_schedule.test_a_pause_is_at_most_a_tenth_of_the_time_that_it_has_been_wrong,
    ],
    "the Node does not exist yet": [test_service_boot.test_the_machine_joins],
    "no response, or HTTP 403 of an API server that has just started": [
        test_service_api_faults.test_faults_that_end_are_logged_once_and_retried,
        test_schedule.test_a_pause_is_at_most_a_tenth_of_the_time_that_it_has_been_wrong,
        test_schedule.test_a_server_that_asks_for_time_gets_it_in_addition,
    ],
    "the API server denies access (401, 403, a certificate)": [
        test_denied_access_is_one_request,
        test_service_api_faults.test_credentials_are_read_again,
        test_schedule.test_a_pause_is_at_most_a_tenth_of_the_time_that_it_has_been_wrong,
    ],
    "access to its own Node is denied (403), or the Node is missing (404)": [
        test_service_identity.test_a_user_that_may_do_nothing
    ],
    "another writer changes the Node before each PATCH": [
        test_a_pass_gives_up_after_six_conflicts,
        test_schedule.test_a_pause_is_at_most_a_tenth_of_the_time_that_it_has_been_wrong,
    ],
    "a server error (5xx) to each PATCH, while the GET succeeds (for example, the Node is too large for etcd)": [
        test_pass.test_an_error_of_a_patch_ends_the_pass,
    ],
}
"""The first column of a row -> the tests of the row's requests to the API server and of its pauses."""
