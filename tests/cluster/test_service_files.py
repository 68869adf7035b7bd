"""What lies in /run and /var is input: whatever is there costs at most what the file remembered."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.agent import DONGLE, PYTHON
from tests.cluster.processes import PATIENCE, Daemon
from tests.cluster.service import DONGLES, PROMPT, Service
from tests.support import fuse

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


@contextmanager
def unreadable(s: Service, path: Path, code: int) -> Iterator[None]:
    """A file that answers with this error, by FUSE."""
    server = Daemon(s.machine.inside([PYTHON, "-I", fuse.__file__, path, str(code)]), s.folder / "fuse.log")
    server.wait_for_line("mounted", PATIENCE)
    try:
        yield
    finally:
        s.machine.run("umount", "--lazy", path)
        server.stop()


@contextmanager
def faulty(s: Service, path: Path, fault: str) -> Iterator[None]:
    """The file has this fault. What is damaged mends itself; what is in its place, somebody has to remove."""
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


@pytest.mark.parametrize(
    "faults",
    [
        [("run/state.json", "changed byte"), ("state/published.json", "changed byte"), ("run/config.json", "deep")],
        [("run/state.json", "renamed key"), ("state/published.json", "pipe"), ("run/service.json", "list")],
        [("run/state.json", "pipe"), ("state/published.json", "loop"), ("run/config.json", "nothing")],
        [("run/state.json", "EIO"), ("state/published.json", "folder"), ("run/service.json", "pipe")],
        [("run/state.json", "folder"), ("state/published.json", "EACCES"), ("run/config.json", "device")],
    ],
    ids=lambda faults: ", ".join(f"{Path(name).stem} {fault}" for name, fault in faults),
)
def test_whatever_is_there_a_raise_is_published(s: Service, faults: list[tuple[str, str]]) -> None:
    """Nothing stops, blocks or is lost; the commands go on, too. Afterwards all is right again."""
    s.configure(TWO)
    s.start()
    for number, (name, fault) in enumerate(faults, 2):
        with faulty(s, s.folder / name, fault):
            s.machine.plug(f"1-{number}")
            s.wait_capacity(str(number))
            for command in ("status", "plan"):
                done = s.cli(command)
                assert "Traceback" not in done.stderr, (name, fault)
                assert done.returncode in (0, 1, 4), (name, fault, done.stderr)
            assert s.capacity(OTHER) == "3"
        s.reload()  # else it takes up to a minute and a half
        s.wait(lambda: s.condition()["status"] == "True", PROMPT, f"it is right again after {name}: {fault}")
    assert s.last_applied() == {DONGLE: len(faults) + 1, OTHER: 3}
    assert "Traceback" not in s.log()
    s.configure(DONGLES)
    s.reload()
    s.wait_capacity(None, OTHER)


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
