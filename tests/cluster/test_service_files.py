"""The service's files in /run: a damaged file loses at most its own content."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.file_faults import unreadable
from tests.cluster.service import DONGLES, PROMPT, Service, service
from tests.support.machines import usb_device

OTHER = "example.com/other"
TWO = f'{DONGLES}[resources."{OTHER}"]\nstatic = {{ quantity = 3 }}\n'


def changed_byte(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content.replace(b"example.com", b"exbmple.com", 1) if b"example.com" in content else content[1:])


def replaced(by: Callable[[Path], None]) -> Callable[[Path], None]:
    """Replaces the file with something else."""

    def replace(path: Path) -> None:
        path.unlink()
        by(path)

    return replace


FAULTS: dict[str, Callable[[Path], object]] = {
    "changed byte": changed_byte,
    "folder": replaced(Path.mkdir),
    "pipe": replaced(os.mkfifo),
    "device": replaced(lambda path: path.symlink_to("/dev/zero")),
    "loop": replaced(lambda path: path.symlink_to(path)),
}
FILES = ("run/state.json", "run/config.json", "run/service.json")


@contextmanager
def faulty(s: Service, path: Path, fault: str) -> Iterator[None]:
    """The file has this fault. capacityd repairs damaged files; the test removes anything else at their path."""
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


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[Service]:
    """A service that publishes a device and another resource."""
    with service(cluster, usb_device("1-1")) as s:
        s.configure(TWO)
        s.start()
        yield s
        assert "Traceback" not in s.log()


def plug_another(s: Service) -> None:
    """Plugs in another device, and waits until it is published."""
    number = int(s.capacity() or 0)
    s.machine.plug(f"{1 + number // 9}-{1 + number % 9}")
    s.wait_capacity(str(number + 1))


@pytest.mark.parametrize("fault", [*FAULTS, "EACCES", "EIO"])
def test_whatever_is_there_a_raise_is_published(running: Service, fault: str) -> None:
    """Nothing stops, blocks or is lost. Commands work, and the service can restart. At the end, all is right again."""
    s = running
    with ExitStack() as stack:
        for name in FILES:
            stack.enter_context(faulty(s, s.folder / name, fault))
        plug_another(s)
        for command in ("status", "plan"):
            done = s.cli(command)
            assert "Traceback" not in done.stderr, command
            assert done.returncode in (0, 1, 4), (command, done.stderr)
        assert s.capacity(OTHER) == "3"
        s.stop()
        s.start(watched=False)
        plug_another(s)
        assert s.capacity(OTHER) == "3"
    s.reload()  # else the repair takes up to a minute
    s.wait(lambda: s.condition()["status"] == "True", PROMPT, "it is right again")
    assert s.last_applied() == {DONGLE: int(s.capacity() or 0), OTHER: 3}
