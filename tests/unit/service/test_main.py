"""The resident process of the service with shell scripts as children: when it starts them, and how it takes messages.

The tests with the real control plane run the real children.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import capacityd
from capacityd import __version__
from capacityd.model.file_codec import from_file
from capacityd.model.messages import ServiceStatus
from capacityd.model.reasons import Activity
from capacityd.service.loop import COMPARE_PERIOD
from tests import ROOT
from tests.cluster.notifications import Notifications

pytestmark = pytest.mark.slow

DEADLINE = 30.0
# Runs the service. It pauses only half a second after a failed check or pass, unless a test sets another pause.
_BOOT = """import sys
sys.path.insert(0, sys.argv[1])
from capacityd.model import pace
from capacityd.service import loop, main
loop.CHECK_RETRY_PERIOD = pause = globals().get("pause", 0.5)
pace.SHORTEST_PAUSE.update(dict.fromkeys(pace.SHORTEST_PAUSE, pause))
sys.exit(main.main(sys.argv[2:]))
"""
# Python code to run before the service.
_PRINTS_A_WARNING = """import sys
sys.path.insert(0, sys.argv[1])
from capacityd.service import loop
run = loop.Service.run
def warn_and_run(service):
    print("a library warns", file=sys.stderr, flush=True)
    return run(service)
loop.Service.run = warn_and_run
"""
# Shell commands that a child runs for a job.
_GOOD = {
    "check": """echo '["CheckResult", {"config": {"files": {"FOLDER/seats": "file"}}}]'""",
    "reconcile": """echo '["Probed", {}]'; echo '["PassResult", {"status": "1 of 1 resources published"}]'""",
}
_READ_JOB = r"""
field() { printf '%s' "$line" | sed -n "s/.*\"$1\": $2.*/\\1/p"; }
job=$(field job '"\([a-z]*\)"')
reasons=$(field reasons '\[\([^]]*\)\]' | tr -d '" ')
"""
"""Shell commands that split a child's job in the variable `line`, such as {"job": "check", "reasons": ["start"]}."""


class Running:
    """A service. stub() sets the shell commands that its children run, even while the service runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stub(**_GOOD)
        self._systemd = Notifications(folder / "notify")
        self.await_line, self.count = self._systemd.await_line, self._systemd.count
        self.program = folder / "sh"
        self.program.symlink_to("/bin/sh")
        self._agent = str(Path(capacityd.__file__).parents[1])
        self.process: subprocess.Popen[str] | None = None
        self.early = ":"
        """A shell command that a worker runs if it is started before it has a job."""

    def started_workers(self) -> list[list[str]]:
        """The PID and the arguments of each worker that was started."""
        return [line.split() for line in (self.folder / "started").read_text().splitlines()]

    def stub(self, **jobs: str) -> None:
        """Makes each child append its job to the file `ran`, and then run these commands."""
        for job, script in (_GOOD | jobs).items():
            text = script.replace("FOLDER", str(self.folder))
            new = self.folder / f"{job}.new"
            new.write_text(f"echo $job $reasons >> {self.folder}/ran\n{text}\n")
            new.rename(self.folder / f"{job}.sh")

    def start(self, before: str = "", errors: int = subprocess.PIPE) -> None:
        """Starts the service. before: Python code that runs first. errors: the service's standard error."""
        do_job = f'{_READ_JOB}. "{self.folder}/$job.sh"; [ $job = check ] || exit'
        do_jobs = f"while IFS= read -r line; do {do_job}; done"
        # The argument $1 is "early" if the worker is started before it has a job.
        worker = f'echo $$ $1 >> {self.folder}/started; [ -z "$1" ] || {self.early}; {do_jobs}'
        child = [str(self.program), "-c", worker, "stub"]
        watcher = [str(self.program), "-c", "exec sleep 1000"]
        service = [self._agent, str(self.folder), *watcher, "--", *child]
        command = [sys.executable, "-I", "-c", f"{before}{_BOOT}", *service]
        environment = {**os.environ, "NOTIFY_SOCKET": str(self.folder / "notify")}
        environment.pop("JOURNAL_STREAM", None)
        self.process = subprocess.Popen(command, stderr=errors, text=True, env=environment)

    def start_and_publish(self, before: str = "") -> None:
        """Starts the service, and waits for its first pass."""
        self.start(before)
        self.await_line("STATUS=1 of 1 resources published")

    def status_file(self) -> ServiceStatus:
        """The status that the service has written for the command `status`."""
        return from_file(ServiceStatus, (self.folder / "service.json").read_bytes(), __version__)

    def await_activity(self, activity: Activity | None) -> ServiceStatus:
        """Waits until the service has written a status with this activity, and returns the status."""
        deadline = time.monotonic() + DEADLINE
        while (status := self.status_file()).activity is not activity:
            assert time.monotonic() < deadline, status
            time.sleep(0.01)
        return status

    def await_exit(self) -> tuple[int, str]:
        """Waits until the service ends by itself. Returns its exit status and its standard error."""
        assert self.process
        _, errors = self.process.communicate(timeout=DEADLINE)
        return self.process.returncode, errors

    def signal(self, number: int) -> None:
        assert self.process
        self.process.send_signal(number)

    def await_jobs(self, count: int) -> list[str]:
        """Waits until the children have done this number of jobs. Returns all jobs."""
        deadline = time.monotonic() + DEADLINE
        path = self.folder / "ran"
        while not path.exists() or len(path.read_text().splitlines()) < count:
            assert time.monotonic() < deadline, path.read_text() if path.exists() else "none ran"
            time.sleep(0.01)
        return path.read_text().splitlines()

    def end(self) -> tuple[int, str]:
        """Ends the service as systemd does. Returns its exit status and its standard error."""
        assert self.process
        self.process.terminate()
        return self.await_exit()

    def close(self) -> None:
        self._systemd.close()
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    service = Running(tmp_path)
    yield service
    service.close()


def test_the_service_checks_passes_reloads_and_stops(running: Running) -> None:
    """After the start, a file event starts a pass, and SIGHUP starts a check. Another service cannot start."""
    running.start()
    running.await_line("READY=1")
    running.await_line("STATUS=1 of 1 resources published")
    assert running.await_jobs(2) == ["check start", "reconcile start"]
    status = running.status_file()
    first = running.process
    assert first
    assert (status.pid, status.error, status.event_source_errors) == (first.pid, "", ())
    (running.folder / "other").touch()
    (running.folder / "seats").write_text("4")
    assert running.await_jobs(3)[2:] == ["reconcile file"]
    running.await_line("STATUS=1 of 1")
    running.signal(signal.SIGHUP)
    running.await_line("RELOADING=1")
    running.await_line("READY=1")
    assert running.await_jobs(5)[3:] == ["check configuration", "reconcile configuration"]
    for _ in range(2_000):
        running.signal(signal.SIGHUP)
    assert running.await_jobs(7)[5] == "check configuration"
    running.start()
    exit_status, errors = running.await_exit()
    assert exit_status == 1
    assert "the service is already running" in errors
    running.process = first
    assert running.end() == (0, "")
    running.await_line("STOPPING=1")
    assert len([job for job in running.await_jobs(7) if job == "check configuration"]) <= 30


def test_a_service_without_its_lock_ends(running: Running) -> None:
    """Then systemd starts the service again, and recreates the runtime directory."""
    lock = running.folder / "service.lock"
    running.start_and_publish()
    lock.unlink()
    running.signal(signal.SIGHUP)
    exit_status, errors = running.await_exit()
    assert exit_status == 1
    assert f"{lock} is gone" in errors
    lock.symlink_to(lock)
    running.start()
    exit_status, errors = running.await_exit()
    assert exit_status == 1
    assert f"{lock} could not be opened: Too many levels of symbolic links; remove it" in errors


def test_a_worker_that_cannot_be_started_is_logged_and_retried(running: Running) -> None:
    """A machine may lack processes, memory or files; here the program is missing."""
    running.program.unlink()
    running.start()
    message = "the configuration check failed and is retried: could not be started: No such file or directory"
    running.await_line(f"STATUS={message}")
    running.await_line(f"STATUS={message}")
    running.program.symlink_to("/bin/sh")
    running.await_line("READY=1")
    running.await_line("STATUS=1 of 1")
    running.program.unlink()
    (running.folder / "seats").write_text("4")
    running.await_line("STATUS=the reconcile worker could not be started: No such file or directory; retrying")
    running.program.symlink_to("/bin/sh")
    running.await_line("STATUS=1 of 1")
    status, errors = running.end()
    assert (status, errors.count(message), errors.count("recovered")) == (0, 1, 2)
    assert errors.count("the reconcile worker could not be started") == 1
    assert "Traceback" not in errors


def test_an_unread_standard_error_blocks_nothing(running: Running) -> None:
    """The pipe of standard error is full, but the service and its children continue, even if a library prints.

    SIGTERM ends the service, although systemd cannot be notified.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write_end, b"x" * 4096)
    os.set_blocking(write_end, True)
    running.stub(reconcile="""echo '["PassResult", {"error": "nobody there"}]'""")
    running.start(_PRINTS_A_WARNING, errors=write_end)
    running.await_line("STATUS=nobody there")
    running.stub()
    running.await_line("STATUS=1 of 1")
    (running.folder / "notify").unlink()
    assert running.end()[0] == 0
    assert os.get_blocking(write_end)
    os.close(read_end)
    os.close(write_end)


def test_files_that_may_end_an_error_are_watched_while_it_lasts(running: Running) -> None:
    """A change of one of these files ends the pause of a minute. A new list of files starts one more pass."""
    token = running.folder / "pki" / "token"
    failed = '["PassResult", {"error": "no token", "credential_files": ["FOLDER/pki/token", "FOLDER/seats"]}]'
    running.stub(reconcile=f"echo '{failed}'")
    running.start("pause = 60.0\n")
    assert "configuration" in running.await_jobs(3)[2]
    for _ in range(3):
        running.await_line("STATUS=")
    read = '["PassResult", {"status": "1 of 1 resources published", "credential_files": ["FOLDER/kubeconfig"]}]'
    running.stub(reconcile=f"""echo '["Probed", {{}}]'; echo '{read}'""")
    token.parent.mkdir()
    token.write_text("secret")
    assert "configuration" in running.await_jobs(4)[3]
    running.await_line("STATUS=1 of 1")
    token.write_text("another")
    (running.folder / "seats").write_text("4")
    assert running.await_jobs(5)[4:] == ["reconcile file"], "the token is not watched any more"


def test_the_status_file_says_what_a_worker_does(running: Running) -> None:
    until = "until [ -e FOLDER/{} ]; do sleep 0.02; done"  # waits until the test creates this file
    probed, ended = _GOOD["reconcile"].split("; ")
    running.stub(
        check=f"{until.format('checked')}; {_GOOD['check']}",
        reconcile=f"{until.format('read')}; {probed}; {until.format('answered')}; {ended}",
    )
    running.start()
    running.await_jobs(1)
    for file, activity in (("checked", Activity.CHECK), ("read", Activity.PROBE), ("answered", Activity.NODE)):
        status = running.await_activity(activity)
        assert status.pass_running
        (running.folder / file).touch()
    status = running.await_activity(None)
    assert not status.pass_running


def test_stopping_kills_a_hanging_worker_and_its_descendants(running: Running) -> None:
    beat = running.folder / "beat"
    running.stub(reconcile=f"trap '' TERM HUP; setsid sleep 1000 < {beat} & sleep 1000")
    os.mkfifo(beat)
    running.start()
    fd = os.open(beat, os.O_WRONLY)  # waits until sleep has opened the pipe
    assert running.end()[0] == 0
    poll = select.poll()
    poll.register(fd, select.POLLERR)  # when no process has the pipe open for reading
    assert poll.poll(DEADLINE * 1000), "a descendant of the worker is still there"
    os.close(fd)


def test_a_short_watchdog_is_notified_in_half_of_its_time(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "200000")
    running.start_and_publish()
    before, deadline = running.count("WATCHDOG=1"), time.monotonic() + DEADLINE
    while running.count("WATCHDOG=1") < before + 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_systemds_watchdog_waits_longer_than_two_compare_periods() -> None:
    unit = (ROOT / "packaging/systemd/capacityd.service").read_text()
    (seconds,) = re.findall(r"^WatchdogSec=(\d+)$", unit, re.M)
    assert 0 < 2 * COMPARE_PERIOD < int(seconds)


def test_a_worker_that_waits_after_its_check_gets_the_pass_too(running: Running) -> None:
    running.start_and_publish()
    assert running.await_jobs(2) == ["check start", "reconcile start"]
    assert len(running.started_workers()) == 1
    running.signal(signal.SIGHUP)
    assert running.await_jobs(4)[2:] == ["check configuration", "reconcile configuration"]
    assert len(running.started_workers()) == 2


def test_a_worker_whose_check_has_failed_gets_no_pass(running: Running) -> None:
    """The worker ends after it has sent the result of the check."""
    failed = _GOOD["check"].replace("}}}]", '}}, "error": "no space"}]')  # adds a key to the result
    running.stub(check=f"{failed}; sleep 0.2; exit 1")
    running.start()
    running.await_line("STATUS=1 of 1")
    assert len(running.started_workers()) == 2
    assert "exited without a result" not in running.end()[1]


@pytest.mark.parametrize("early", [":", "exit 1", "kill -9 $$"])
def test_a_worker_is_started_before_its_pass_is_due_and_replaced_if_it_dies(running: Running, early: str) -> None:
    """If the worker dies before, another worker makes the pass."""
    running.early = early
    watched = """echo '["Probed", {}]'; echo '["PassResult", {"watch_target": "{}", "status": "1 of 1"}]'"""
    running.stub(reconcile=watched)
    running.start()
    running.await_line("STATUS=1 of 1")
    before = len(running.started_workers())
    (running.folder / "seats").write_text("4")
    assert running.await_jobs(3)[2:] == ["reconcile file"]
    arguments = [argument for _, *argument in running.started_workers()[before:]]
    assert arguments == ([["early"]] if early == ":" else [["early"], []])
    assert "exited without a result" not in running.end()[1]
