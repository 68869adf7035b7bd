"""What a worker tells the watcher to watch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.host.live import LiveHost
from capacityd.model.codec import decode_variant, encode_variant, parse
from capacityd.model.host import machine_id
from capacityd.model.messages import JobRequest
from capacityd.model.options import Selection, WorkerOptions
from capacityd.model.plan import MachineRecord
from capacityd.model.reasons import Job, RetryCause
from capacityd.model.watch import TargetError
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.kubeconfig import load
from capacityd.node.watch_target import TargetResult, WatchTarget
from capacityd.reconcile import machine_record
from capacityd.worker.main import work
from tests.support.server import failure, review, serve
from tests.unit.node.test_credentials import config, written

CONFIGURATION = """\
[resources."example.com/dongle"]
static = { quantity = 1 }

[resources."example.com/broken"]
static = { quantity = -1 }
"""
Determine = Callable[..., TargetResult]


@pytest.fixture
def determine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Determine:
    """Runs the job with these options, and returns what it prints."""
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    configuration = tmp_path / "capacityd.toml"
    configuration.write_text(CONFIGURATION)

    def run_job(**options: str) -> TargetResult:
        work(WorkerOptions(str(tmp_path), Selection(str(configuration), **options)), JobRequest(Job.TARGET))
        (line,) = capsys.readouterr().out.splitlines()
        result: TargetResult = decode_variant(TargetResult, parse(line.encode()))
        return result

    return run_job


def kubeconfig(folder: Path, server: str, **user: str) -> str:
    return written(folder, config({"server": server}, {"token": "secret", **user}))


def test_with_a_kubelets_identity_the_target_is_its_node(determine: Determine, tmp_path: Path) -> None:
    """The Node cannot be another machine's. The names include those with an error and those of the machine record."""
    machine_record.write(str(tmp_path), MachineRecord({"example.com/old": 1}, {"example.com/intended": 2}))
    with serve(lambda _: review("system:node:n1")) as server:
        path = kubeconfig(tmp_path, server.url)
        result = determine(kubeconfig=path)
    assert isinstance(result, WatchTarget)
    assert result.access == load(path)
    assert (result.node, result.user, result.machine_id) == ("n1", "system:node:n1", None)
    assert result.names == {f"example.com/{name}" for name in ("dongle", "broken", "old", "intended")}
    assert "secret" not in repr(result)


def test_the_node_of_another_identity_must_be_this_machines(determine: Determine, tmp_path: Path) -> None:
    with serve(lambda _: review("capacityd:n1")) as server:
        result = determine(kubeconfig=kubeconfig(tmp_path, server.url), node_name="n1")
    assert isinstance(result, WatchTarget)
    assert (result.node, result.user, result.machine_id) == ("n1", "capacityd:n1", machine_id(LiveHost()))


def test_a_record_that_cannot_be_read_adds_no_names(determine: Determine, tmp_path: Path) -> None:
    (tmp_path / "published.json").mkdir()
    with serve(lambda _: review("system:node:n1")) as server:
        result = determine(kubeconfig=kubeconfig(tmp_path, server.url))
    assert isinstance(result, WatchTarget)
    assert result.names == {"example.com/dongle", "example.com/broken"}


def test_each_error_has_its_cause(determine: Determine, tmp_path: Path) -> None:
    missing = determine(kubeconfig=f"{tmp_path}/nothing")
    assert isinstance(missing, TargetError)
    assert missing.cause is RetryCause.CREDENTIALS
    with serve(lambda _: failure(429, "later", headers="Retry-After: 7\r\n")) as server:
        busy = determine(kubeconfig=kubeconfig(tmp_path, server.url))
    assert isinstance(busy, TargetError)
    assert (busy.cause, busy.retry_after) == (RetryCause.UNREACHABLE, 7.0)
    with serve(lambda _: failure(401, "Unauthorized")) as server:
        denied = determine(kubeconfig=kubeconfig(tmp_path, server.url))
    assert isinstance(denied, TargetError)
    assert denied.cause is RetryCause.DENIED
    file = determine(node_file=f"{tmp_path}/node.json")
    assert file == TargetError("--node-file replaces the API server, so there is no Node to watch")


_TEXT = st.none() | st.text()


@given(
    st.builds(
        ClusterAccess,
        kubeconfig=st.text(),
        server=st.text(),
        authority=_TEXT,
        verify=st.booleans(),
        server_name=_TEXT,
        proxy=_TEXT,
        token=_TEXT,
        certificate=_TEXT,
        key=_TEXT,
        user_key=st.text(),
        files=st.lists(st.text()).map(tuple),
    ),
    _TEXT,
)
def test_a_target_arrives_as_it_was_sent(access: ClusterAccess, machine: str | None) -> None:
    target = WatchTarget(access, "n1", "u", machine, "4c4c4544", frozenset({"a", "b"}))
    line = json.dumps(encode_variant(target)).encode()
    assert decode_variant(TargetResult, parse(line)) == target
    assert b"\n" not in line
