"""The watcher as a process: its messages, its file, and when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event

import psutil
import pytest

from capacityd.model.messages import WATCHED_NODE, NodeSeen
from capacityd.model.reasons import RetryCause
from capacityd.model.watch import TargetError
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.watch import Limits
from capacityd.node.watch_target import WatchTarget
from tests.support.forked import still_alive
from tests.support.server import Request, failure
from tests.support.watch_server import DEADLINE, Stream, WatchServer, target_of, version, watch_server
from tests.support.watching import Target, Watching, watching

pytestmark = pytest.mark.slow

BRIEF = Limits(connect=5.0, header=1.0, first_event=0.3, idle=1.5)


@pytest.fixture
def server() -> Iterator[WatchServer]:
    with watch_server() as running:
        yield running


@pytest.fixture
def target(tmp_path: Path, server: WatchServer) -> Target:
    made = Target(tmp_path)
    made.set(replace(target_of(server), names=frozenset({"example.com/dongle"})))
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "run"
    made.mkdir()
    return made


def accept(server: WatchServer, number: int = 1, **capacity: str) -> Stream:
    """Accepts the next watch, and sends the Node."""
    stream = server.accept().begin()
    stream.send("ADDED", version(number, **capacity))
    return stream


def test_the_file_has_each_version_and_a_message_only_what_concerns_a_plan(
    server: WatchServer, target: Target, folder: Path
) -> None:
    (folder / WATCHED_NODE).write_text("of an earlier watcher")
    with watching(folder, target.command) as watcher:
        stream = server.accept().begin()
        watcher.wait(lambda: not (folder / WATCHED_NODE).exists(), "the old file is removed")
        stream.send("ADDED", version(1, dongle="1"))
        first = watcher.wait_seen(1)
        assert watcher.resource_version == "1"
        assert (folder / WATCHED_NODE).stat().st_mode & 0o777 == 0o600
        assert watcher.node is not None
        assert watcher.node.names == {"example.com/dongle"}
        assert 0 < watcher.node.connected_at < time.clock_gettime(time.CLOCK_BOOTTIME)
        stream.send("MODIFIED", version(2, dongle="1", other="5"))
        watcher.wait(lambda: watcher.resource_version == "2", "the second version")
        stream.send("BOOKMARK", {"kind": "Node"})
        stream.send("MODIFIED", version(3, dongle="2"))
        second = watcher.wait_seen(2)
        assert watcher.resource_version == "3"
        stream.send("DELETED", version(4, dongle="2"))
        assert watcher.wait_seen(3) == NodeSeen("")
        assert watcher.node is not None
        assert watcher.node.state is None
        stream.send("ADDED", version(5, dongle="1"))
        assert watcher.wait_seen(4) == first != second


@pytest.mark.parametrize("end", [Stream.end, Stream.close, Stream.reset])
def test_a_cut_is_not_reported_if_the_next_connection_works(
    server: WatchServer, target: Target, folder: Path, end: Callable[[Stream], object]
) -> None:
    """A proxy that cuts each connection causes no pass: the content is the same."""
    with watching(folder, target.command) as watcher:
        stream = accept(server)
        watcher.wait_seen(1)
        Event().wait(1.0)  # a connection that lasts shorter is not followed by another one at once
        end(stream)
        accept(server, 2)
        assert watcher.wait_seen(2) == watcher.messages[0]
        assert watcher.resource_version == "2"
        assert target.calls == 1


def test_a_silent_connection_is_replaced_at_the_idle_limit(server: WatchServer, target: Target, folder: Path) -> None:
    with watching(folder, target.command, BRIEF) as watcher:
        silent = accept(server)
        watcher.wait_seen(1)
        silent.wait_closed()
        accept(server)
        assert watcher.wait_seen(2) == watcher.messages[0]


def test_an_unreachable_server_is_reported_once(target: Target, folder: Path, server: WatchServer) -> None:
    """The reason is reported once, and the file does not exist until the server is back."""
    server.refuse = lambda _: failure(503, "starting")
    with watching(folder, target.command) as watcher:
        assert "(HTTP 503): starting" in watcher.wait_not_watched(1)
        watcher.wait(lambda: len(server.requests) >= 3, "it tries again")
        assert len(watcher.messages) == 1
        assert watcher.node is None
        server.refuse = lambda _: None
        stream = accept(server)
        watcher.wait_seen(2)
        server.refuse = lambda _: failure(500, "broken")
        stream.reset()
        watcher.wait(lambda: "broken" in str(watcher.messages[-1]), "the new reason")
        assert watcher.node is None
        assert target.calls == 1


def test_retry_after_is_obeyed(server: WatchServer, target: Target, folder: Path) -> None:
    times: list[float] = []

    def refuse(_: object) -> bytes | None:
        times.append(time.monotonic())
        return failure(429, "later", headers="Retry-After: 3\r\n") if len(times) == 1 else None

    server.refuse = refuse
    with watching(folder, target.command) as watcher:
        assert "(HTTP 429)" in watcher.wait_not_watched(1)
        accept(server)
        watcher.wait_seen(2)
    assert times[1] - times[0] >= 3


def test_damaged_events_are_no_fast_loop(server: WatchServer, target: Target, folder: Path) -> None:
    times: list[float] = []

    def script(stream: Stream) -> None:
        times.append(time.monotonic())
        stream.begin().write(b"garbage\n")
        stream.end()

    server.script = script
    with watching(folder, target.command) as watcher:
        assert "an event is not JSON" in watcher.wait_not_watched(1)
        watcher.wait(lambda: len(times) >= 4, "four attempts")
    assert times[3] - times[0] >= 0.5 / 2 + 1 / 2 + 2 / 2
    assert len(watcher.messages) == 1


def test_a_node_that_is_nested_too_deeply_is_not_watched(server: WatchServer, target: Target, folder: Path) -> None:
    """It can be parsed, but not be saved."""
    node = version()
    nested: object = 1
    for _ in range(600):
        nested = {"x": nested}
    node["status"]["conditions"].append({"type": "CapacityPublished", "status": "True", "deep": nested})
    with watching(folder, target.command) as watcher:
        server.accept().begin().send("ADDED", node)
        assert "nested too deeply" in watcher.wait_not_watched()


FINAL: dict[str, tuple[bytes, str]] = {
    "401": (failure(401, "Unauthorized"), "rejected the credentials"),
    "403": (failure(403, 'User "u" cannot watch resource "nodes"', {"kind": "nodes"}), 'may not watch Node "n1"'),
    "400": (failure(400, "no"), "refused to watch nodes"),
}


@pytest.mark.parametrize("status", FINAL)
def test_the_watcher_ends_if_it_is_refused(server: WatchServer, target: Target, folder: Path, status: str) -> None:
    response, reason = FINAL[status]
    server.refuse = lambda _: response
    with watching(folder, target.command) as watcher:
        assert reason in watcher.wait_not_watched()
        assert watcher.wait_ended() == 0
    assert len(server.requests) == 1


def test_the_watcher_ends_if_a_proxy_holds_the_responses_back(
    server: WatchServer, target: Target, folder: Path
) -> None:
    with watching(folder, target.command, BRIEF) as watcher:
        assert "hold responses back" in watcher.wait_not_watched()
        assert watcher.wait_ended() == 0


def test_a_watch_that_is_held_back_after_the_node_was_seen_may_work_again(
    server: WatchServer, target: Target, folder: Path
) -> None:
    """An overloaded API server may respond to a GET, but to the next watch too late."""
    with watching(folder, target.command, BRIEF) as watcher:
        stream = accept(server)
        watcher.wait_seen(1)
        stream.end()
        server.accept()
        watcher.wait(lambda: "hold responses back" in str(watcher.messages[-1]), "held back")
        accept(server)
        watcher.wait(lambda: watcher.messages[-1] == watcher.messages[0], "seen again")


def test_the_watcher_ends_if_the_node_is_another_machines(server: WatchServer, target: Target, folder: Path) -> None:
    target.set(replace(target_of(server), machine_id="ours"))
    node = version()
    node["status"]["nodeInfo"] = {"machineID": "ours"}
    with watching(folder, target.command) as watcher:
        stream = server.accept().begin()
        stream.send("ADDED", node)
        watcher.wait_seen()
    node["status"]["nodeInfo"] = {"machineID": "theirs"}
    with watching(folder, target.command) as watcher:
        stream = server.accept().begin()
        stream.send("ADDED", node)
        assert "belongs to another machine" in watcher.wait_not_watched()
        assert watcher.wait_ended() == 0


def test_new_credentials_are_read_when_the_old_ones_are_refused(
    server: WatchServer, target: Target, folder: Path
) -> None:
    accepted = "Bearer old"

    def refuse(request: Request) -> bytes | None:
        return None if request.headers["authorization"] == accepted else failure(401, "Unauthorized")

    server.refuse = refuse
    target.set(target_of(server, token="old"))
    with watching(folder, target.command) as watcher:
        stream = accept(server)
        watcher.wait_seen(1)
        accepted = "Bearer new"
        target.set(target_of(server, token="new"))
        Event().wait(1.0)
        stream.end()
        accept(server)
        assert watcher.wait_seen(2) == watcher.messages[0]
        assert target.calls == 2


def test_a_denial_after_the_node_was_seen_may_be_temporary(server: WatchServer, target: Target, folder: Path) -> None:
    with watching(folder, target.command) as watcher:
        stream = accept(server)
        watcher.wait_seen(1)
        server.refuse = lambda _: failure(403, 'User "u" cannot watch resource "nodes"', {"kind": "nodes"})
        stream.end()
        watcher.wait(lambda: "may not watch" in str(watcher.messages[-1]), "denied")
        server.refuse = lambda _: None
        accept(server)
        watcher.wait(lambda: watcher.messages[-1] == watcher.messages[0], "seen again")


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (TargetError("no kubeconfig", RetryCause.CREDENTIALS), "no kubeconfig"),
        (TargetError("a defect"), "a defect"),
        (WatchTarget(ClusterAccess("/k", "https://h", authority="x"), "n1"), "contains no usable certificate"),
    ],
)
def test_the_watcher_ends_without_usable_credentials(
    target: Target, folder: Path, result: TargetError | WatchTarget, reason: str
) -> None:
    target.set(result)
    with watching(folder, target.command) as watcher:
        assert reason in watcher.wait_not_watched()
        assert watcher.wait_ended() == 0


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 3", "ended without a result (exit status 3)"),
        ("kill -9 $$", "ended without a result (exit status -9)"),
        ("""echo garbage; echo '["Other", {}]'; echo '["WatchTarget", {"node": 1}]'""", "ended without a result"),
        ("cat /dev/zero", "the worker that reads the credentials printed more than 4 MiB"),
        ("""echo '["TargetError", {"reason": "overloaded", "cause": "unreachable"}]'""", "overloaded"),
    ],
)
def test_a_worker_that_fails_is_started_again(
    server: WatchServer, target: Target, folder: Path, script: str, reason: str
) -> None:
    succeeds = folder.parent / "succeeds"
    whole = f'[ ! -e "$0" ] || exec "$@"; {script}'
    with watching(folder, ["/bin/sh", "-c", whole, succeeds, *target.command]) as watcher:
        assert reason in watcher.wait_not_watched(1)
        succeeds.touch()
        accept(server)
        watcher.wait_seen(2)


def test_a_target_program_that_is_not_there_is_reported(folder: Path) -> None:
    with watching(folder, ["/nonexistent"]) as watcher:
        assert "could not be run" in watcher.wait_not_watched(1)


def test_the_worker_may_write_to_standard_error(server: WatchServer, target: Target, folder: Path) -> None:
    watcher = Watching(folder, ["/bin/sh", "-c", 'echo oops >&2; exec "$@"', "sh", *target.command])
    try:
        accept(server)
        watcher.wait_seen()
    finally:
        assert watcher.end() == "oops\n"


def test_a_file_that_cannot_be_written_is_reported_and_tried_again(
    server: WatchServer, target: Target, folder: Path
) -> None:
    (folder / WATCHED_NODE).mkdir()
    with watching(folder, target.command) as watcher:
        server.script = lambda stream: stream.begin().send("ADDED", version()).wait_closed()
        assert watcher.wait_not_watched(1) == f"{folder}/{WATCHED_NODE} could not be written: Is a directory"
        (folder / WATCHED_NODE).rmdir()
        watcher.wait_seen(2)
        folder.rename(folder.with_name("gone"))
        server.streams[-1].send("MODIFIED", version(2))
        assert "could not be written: No such file or directory" in watcher.wait_not_watched(3)
        folder.mkdir()
        watcher.wait_seen(4)
        (folder.with_name("gone") / WATCHED_NODE).unlink()


def test_a_storm_of_changes_that_concern_no_plan_is_one_message(
    server: WatchServer, target: Target, folder: Path
) -> None:
    with watching(folder, target.command) as watcher:
        stream = accept(server, 0, dongle="1")
        for number in range(1, 1000):
            stream.send("MODIFIED", version(number, dongle="1"))
        watcher.wait(lambda: watcher.resource_version == "999", "the last version")
        assert len(watcher.messages) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_watcher(server: WatchServer, target: Target, folder: Path, number: signal.Signals) -> None:
    with watching(folder, target.command) as watcher:
        accept(server)
        watcher.wait_seen()
        watcher.process.send_signal(signal.SIGHUP)
        watcher.process.send_signal(number)
        assert watcher.wait_ended() == 0
        assert watcher.node is None


def test_a_signal_ends_the_worker_as_well(folder: Path) -> None:
    marker = f"{folder}/marker"
    begun = folder / "begun"
    with watching(folder, ["/bin/sh", "-c", f": {marker}; touch {begun}; sleep 1000"]) as watcher:
        watcher.wait(begun.exists, "the worker runs")
        watcher.process.terminate()
        assert watcher.wait_ended() == 0
    assert still_alive(marker) == []


_PARENT = """
import os, subprocess, sys
reads, writes = os.pipe()
child = subprocess.Popen(sys.argv[1:], stdout=writes, stderr=subprocess.DEVNULL)
os.close(writes)
print(os.read(reads, 10000).decode(), flush=True)
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("stopped", [False, True])
def test_the_watcher_does_not_outlive_the_service(
    server: WatchServer, target: Target, folder: Path, stopped: bool
) -> None:
    """The service is killed: while the watcher waits for an event, or while it waits for the next attempt."""
    if stopped:
        server.refuse = lambda _: failure(429, "later", headers="Retry-After: 3000\r\n")
    start = "import sys; from capacityd.watcher.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", _PARENT, sys.executable, "-c", start, str(folder), *target.command]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        if not stopped:
            accept(server)
        assert parent.stdout is not None
        assert ("NotWatched" if stopped else "NodeSeen") in parent.stdout.readline()
        parent.stdout.readline()
        watcher = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        parent.wait()  # then the watcher is a child of this process, if another test has made this process a subreaper
        watcher.wait(DEADLINE)
    assert [*folder.iterdir()] == []


_MOUNTED = 'mount -t tmpfs -o size=64k tmpfs "$0"; exec "$@"'


def test_a_full_file_system_is_reported_and_tried_again(server: WatchServer, target: Target, folder: Path) -> None:
    root = [] if os.geteuid() == 0 else ["-r"]
    around = ["unshare", *root, "-m", "--propagation", "private", "sh", "-ec", _MOUNTED, str(folder)]
    watcher = Watching(folder, target.command, around=around)
    try:
        server.script = lambda stream: stream.begin().send("ADDED", version()).wait_closed()
        watcher.wait_seen(1)
        with suppress(OSError), open(watcher.folder / "fill", "wb", buffering=0) as f:
            while True:
                f.write(bytes(4096))
        server.streams[-1].send("MODIFIED", version(2))
        assert watcher.wait_not_watched(2) == f"{folder}/{WATCHED_NODE} could not be written: No space left on device"
        assert [file.name for file in watcher.folder.iterdir()] == ["fill"]
        (watcher.folder / "fill").unlink()
        watcher.wait_seen(3)
    finally:
        assert watcher.end() == ""
