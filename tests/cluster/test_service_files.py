"""Files in /run and /var are input: a damaged file loses at most its own content."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.file_faults import unreadable
from tests.cluster.processes import PATIENCE
from tests.cluster.service import DONGLES, PROMPT, Service, service
from tests.support.machines import usb_device

OTHER = "example.com/other"
TWO = f'{DONGLES}[resources."{OTHER}"]\nstatic = {{ quantity = 3 }}\n'


def renamed_key(path: Path) -> None:
    """As another build of the same version would write it."""
    content = json.loads(path.read_bytes())
    key = next(iter(content))
    path.write_text(json.dumps({f"{key}x": content.pop(key)} | content))


def changed_byte(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content.replace(b"example.com", b"exbmple.com", 1) if b"example.com" in content else content[1:])


def replaced(by: Callable[[Path], None]) -> Callable[[Path], None]:
    """Something else takes the place of the file."""

    def replace(path: Path) -> None:
        path.unlink()
        by(path)

    return replace


FAULTS: dict[str, Callable[[Path], object]] = {
    "changed byte": changed_byte,
    "renamed key": renamed_key,
    "list": lambda path: path.write_text("[1, null]"),
    "nothing": lambda path: path.write_bytes(b""),
    "deep": lambda path: path.write_text("[" * 200_000),
    "folder": replaced(Path.mkdir),
    "pipe": replaced(os.mkfifo),
    "device": replaced(lambda path: path.symlink_to("/dev/zero")),
    "loop": replaced(lambda path: path.symlink_to(path)),
}
KINDS = [*FAULTS, "EACCES", "EIO"]
FILES = ("run/state.json", "run/config.json", "run/service.json", "state/published.json")
LOCK = "run/lock"
ROUNDS = [
    {name: KINDS[(number + turn) % len(KINDS)] for number, name in enumerate(FILES)}
    | {LOCK: ("folder", "pipe", "device", "loop", "EACCES", "EIO")[turn % 6]}
    for turn in range(len(KINDS))
]
"""In these rounds each file has each fault once, and each time the others have others."""


@contextmanager
def faulty(s: Service, path: Path, fault: str) -> Iterator[None]:
    """The file has this fault. Damaged files heal themselves; anything else at their path must be removed by
    somebody."""
    if fault in FAULTS:
        FAULTS[fault](path)
        yield
        if path.is_dir():
            path.rmdir()
        elif path.is_symlink() or not path.is_file():
            path.unlink(missing_ok=True)
    else:
        with unreadable(s, path, getattr(errno, fault)):
            yield


@contextmanager
def all_faulty(s: Service, faults: Mapping[str, str]) -> Iterator[None]:
    """Each of these files has its fault; then, at a reload, all is right again."""
    with ExitStack() as stack:
        for name, fault in faults.items():
            stack.enter_context(faulty(s, s.folder / name, fault))
        yield
    s.reload()  # else it takes up to a minute and a half
    s.wait(lambda: s.condition()["status"] == "True", PROMPT, f"it is right again after {faults}")


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[Service]:
    """A service that publishes a device and another resource."""
    with service(cluster, usb_device("1-1")) as s:
        s.configure(TWO)
        s.start()
        yield s
        assert "Traceback" not in s.log()


def plug_another(s: Service) -> None:
    """A further device is published."""
    number = int(s.capacity() or 0)
    s.machine.plug(f"{1 + number // 9}-{1 + number % 9}")
    s.wait_capacity(str(number + 1))


@pytest.mark.parametrize("faults", ROUNDS, ids=lambda faults: ", ".join(faults.values()))
def test_whatever_is_there_a_raise_is_published(running: Service, faults: Mapping[str, str]) -> None:
    """Nothing stops, blocks or is lost; the commands go on, too. Afterwards all is right again."""
    s = running
    with all_faulty(s, faults):
        plug_another(s)
        for command in ("status", "apply"):
            done = s.cli(command)
            assert "Traceback" not in done.stderr, command
            assert done.returncode in (0, 1, 4), (command, done.stderr)
        assert s.capacity(OTHER) == "3"
    assert s.last_applied() == {DONGLE: int(s.capacity() or 0), OTHER: 3}


@pytest.mark.parametrize("fault", ["folder", "pipe", "device", "loop", "EACCES"])
def test_whatever_is_there_the_service_starts(running: Service, fault: str) -> None:
    """Its own lock, too, unless nobody could open it: then it says so, and systemd starts it again and again."""
    s = running
    s.stop()
    lock = s.runtime_directory / "service.lock"
    with all_faulty(s, dict.fromkeys((*FILES, LOCK), fault)):
        if fault == "EACCES":
            with unreadable(s, lock, errno.EACCES):
                s.start(ready=False, settled=False)
                assert s.process is not None
                assert s.process.process.wait(PATIENCE) == 1
                assert s.log().endswith(f"{lock} could not be opened: Permission denied; remove it\n")
        else:
            FAULTS[fault](lock)
        s.start()
        plug_another(s)
        assert s.capacity(OTHER) == "3"
    assert s.last_applied() == {DONGLE: int(s.capacity() or 0), OTHER: 3}


def test_what_is_not_configured_any_more_is_removed_after_all_that(running: Service) -> None:
    running.configure(DONGLES)
    running.reload()
    running.wait_capacity(None, OTHER)


def test_nothing_is_removed_while_the_record_cannot_be_read(s: Service) -> None:
    """It may be readable again, and then has to be right: meanwhile nothing is lowered, removed or taken over."""
    s.configure(TWO)
    s.start()
    record = s.state_directory / "published.json"
    with unreadable(s, record, errno.EIO):
        s.configure(DONGLES)
        s.reload()
        assert s.condition()["reason"] == "StateNotWritable"
        assert f"{record} could not be read: Input/output error" in s.condition()["message"]
        assert (s.capacity(OTHER), s.last_applied()) == ("3", {DONGLE: 1, OTHER: 3})
        done = s.cli("withdraw")
        assert done.returncode != 0
        assert s.capacity() == "1"
    s.wait_capacity(None, OTHER)
    assert s.condition()["status"] == "True"


def test_commands_report_a_record_that_cannot_be_read(s: Service) -> None:
    """None of them blocks, and none goes by the Node's annotation alone."""
    s.configure(TWO)
    assert s.cli("apply").returncode == 0
    record = s.state_directory / "published.json"
    record.unlink()
    os.mkfifo(record)
    for command in ("plan", "apply", "withdraw"):
        done = s.cli(command)
        assert (done.returncode, "Traceback" in done.stderr) == (1, False), command
        assert f"{record} could not be read: Not a regular file" in done.stderr
    assert (s.capacity(), s.capacity(OTHER)) == ("1", "3")
