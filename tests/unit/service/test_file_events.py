"""Watched files appear, change and are removed, also behind links.

Inotify reports before the file call returns, so that each event can be read at once.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from capacityd.model.reasons import PassReason
from capacityd.service.file_events import FileEvents

REASONS = {PassReason.FILE}  # with which each of the watched files starts a pass


@pytest.fixture
def seats(tmp_path: Path) -> Path:
    """The path of a file that does not exist yet, in a folder that exists."""
    (tmp_path / "licences").mkdir()
    return tmp_path / "licences" / "seats"


opened: list[FileEvents] = []


@pytest.fixture(autouse=True)
def close_sources() -> Iterator[None]:
    yield
    while opened:
        opened.pop().close()


def watch(*paths: Path) -> FileEvents:
    """Watches these paths until the test ends."""
    opened.append(FileEvents(dict.fromkeys(map(str, paths), PassReason.FILE)))
    return opened[-1]


def received(source: FileEvents) -> set[PassReason]:
    """The reasons of the events since the last call. Then renews the watches, as the service does before a pass."""
    reasons = source.drain()
    source.prepare_pass()
    return reasons


def check_steps(source: FileEvents, acts: Iterable[Callable[[], object]]) -> None:
    """Fails unless each act starts one pass."""
    for number, act in enumerate(acts):
        act()
        assert received(source) == REASONS, number
        assert received(source) == set(), number


def write(path: Path, text: str = "4") -> None:
    path.write_text(text)


def replace(path: Path) -> None:
    """Renames another file to this path."""
    new = path.with_name("new")
    write(new, "5")
    new.rename(path)


def test_a_file_appears_changes_is_replaced_and_removed(seats: Path) -> None:
    source = watch(seats)
    steps: tuple[Callable[[Path], object], ...] = (write, write, replace, lambda path: path.chmod(0o600), os.unlink)
    check_steps(source, [partial(step, seats) for step in steps])


def test_a_file_that_is_truncated_or_grows_starts_a_pass(seats: Path) -> None:
    """Neither of these changes closes a file, so inotify's event for closing is not enough."""
    write(seats, "40")
    source = watch(seats)
    check_steps(source, [partial(os.truncate, seats, 1), partial(replace, seats)])
    with seats.open("a") as file:
        file.write("0")
        file.flush()
        assert received(source) == REASONS


def test_a_file_with_several_names_starts_the_passes_of_each_name(tmp_path: Path) -> None:
    """All names of a file share one inotify watch."""
    write(tmp_path / "a")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    (tmp_path / "c").symlink_to("b")
    write(tmp_path / "other")
    source = FileEvents(
        {
            str(tmp_path / "a"): PassReason.FILE,
            str(tmp_path / "b"): PassReason.DEVICES,
            str(tmp_path / "c"): PassReason.NODE,
            str(tmp_path / "other"): PassReason.CONFIG,
        }
    )
    opened.append(source)
    os.truncate(tmp_path / "b", 0)
    assert received(source) == {PassReason.FILE, PassReason.DEVICES, PassReason.NODE}
    write(tmp_path / "other")
    assert received(source) == {PassReason.CONFIG}


def test_other_files_in_the_folder_are_ignored(seats: Path) -> None:
    write(seats)
    other = seats.with_name("seats.old")
    source = watch(seats)
    write(other)
    os.truncate(other, 1)
    replace(other)
    other.unlink()
    (seats.parent / "more").mkdir()
    assert received(source) == set()


def test_the_folder_appears_level_by_level(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c" / "seats"
    source = watch(path)
    for folder in (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"):
        folder.mkdir()
        assert received(source) == REASONS
        write(folder.with_name("other"))
        assert received(source) == set()
    all_levels_at_once = partial(path.parent.mkdir, parents=True)
    check_steps(source, [partial(write, path), partial(shutil.rmtree, tmp_path / "a"), all_levels_at_once])
    check_steps(source, [partial(write, path)] * 2)


def test_a_change_while_the_watches_are_set_is_found_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The folder appears just after FileEvents has found that it is missing."""
    path, add_watch = tmp_path / "a" / "seats", FileEvents._add_watch

    def add_watch_and_make_folder(self: FileEvents, watched: str, mask: int) -> int:
        descriptor = add_watch(self, watched, mask)
        if descriptor < 0 and watched == str(path.parent):
            path.parent.mkdir()
        return descriptor

    monkeypatch.setattr(FileEvents, "_add_watch", add_watch_and_make_folder)
    source = watch(path)
    assert source.compare() == REASONS
    source.prepare_pass()
    assert source.compare() == set()
    write(path)
    assert received(source) == REASONS


def test_the_folder_is_removed_or_moved_and_returns(tmp_path: Path, seats: Path) -> None:
    folder, away = seats.parent, tmp_path / "away"
    write_seats = partial(write, seats)
    steps: list[Callable[[], object]] = [partial(shutil.rmtree, folder), folder.mkdir, write_seats]
    steps += [partial(folder.rename, away), partial(away.rename, folder), write_seats]
    check_steps(watch(seats), steps)


def test_only_what_is_needed_is_watched(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "seats"
    source = watch(path)
    for _ in range(50):
        path.parent.mkdir(parents=True)
        received(source)
        shutil.rmtree(tmp_path / "a")
        received(source)
    watches = Path(f"/proc/self/fdinfo/{source.fileno()}").read_text().count("inotify wd:")
    assert watches == 1


def test_the_target_of_a_link_is_watched_too(tmp_path: Path) -> None:
    """In a projected volume, a path leads through a link to a folder, and an update replaces that link."""
    for version in ("v1", "v2"):
        (tmp_path / version).mkdir()
        write(tmp_path / version / "seats")
    (tmp_path / "data").symlink_to("v1")
    (tmp_path / "seats").symlink_to("data/seats")
    source = watch(tmp_path / "seats")
    write(tmp_path / "v1" / "seats")
    assert received(source) == REASONS
    write(tmp_path / "v2" / "seats")
    assert received(source) == set()
    (tmp_path / "new").symlink_to("v2")
    (tmp_path / "new").rename(tmp_path / "data")
    assert received(source) == REASONS
    write(tmp_path / "v2" / "seats")
    assert received(source) == REASONS
    write(tmp_path / "v1" / "seats")
    assert received(source) == set()


def test_a_link_that_is_followed_twice_is_no_loop(tmp_path: Path) -> None:
    """For example, /var/run is a link to /run, and a link in it begins with /var/run again."""
    (tmp_path / "run").mkdir()
    write(tmp_path / "run" / "real")
    (tmp_path / "var").symlink_to("run")
    (tmp_path / "run" / "seats").symlink_to(tmp_path / "var" / "real")
    source = watch(tmp_path / "var" / "seats")
    write(tmp_path / "run" / "real", "5")
    assert received(source) == REASONS


@pytest.mark.parametrize("links", [40, 41])
def test_as_many_links_are_followed_as_the_kernel_does(tmp_path: Path, links: int) -> None:
    write(tmp_path / "0")
    for number in range(1, links + 1):
        (tmp_path / f"{number}").symlink_to(f"{number - 1}")
    path = tmp_path / f"{links}"
    assert os.path.exists(path) == (links == 40)
    source = watch(path)
    write(tmp_path / "0", "5")
    assert received(source) == (REASONS if links == 40 else set())


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.s3fs", "fuseblk", "autofs", "glusterfs"])
@pytest.mark.parametrize("by_link", [False, True])
@pytest.mark.parametrize("name", ["licences", "dead server", "back\\slash"])
def test_a_file_system_that_may_hang_is_not_accessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, by_link: bool, name: str
) -> None:
    """An access would hang the service if the server of the file system is gone."""
    mount_point, link, table = tmp_path / name, tmp_path / "link", tmp_path / "mountinfo"
    escaped = str(mount_point).replace("\\", r"\134").replace(" ", r"\040")
    local = f"25 1 8:1 / {tmp_path} rw shared:1 - ext4 /dev/sda1 rw\n"
    table.write_text(f"{local}30 25 0:50 / {escaped} rw - {kind} server:/export rw\n")
    monkeypatch.setattr("capacityd.service.file_events.MOUNT_TABLE", str(table))
    (mount_point / "deep").mkdir(parents=True)
    write(mount_point / "deep" / "seats")
    link.symlink_to(mount_point / "deep")
    accessed: list[str] = []
    readlink = os.readlink

    def record(path: str) -> str:
        accessed.append(path)
        return readlink(path)

    monkeypatch.setattr(os, "readlink", record)
    source = watch((link if by_link else mount_point / "deep") / "seats")
    write(mount_point / "deep" / "seats")
    assert received(source) == set()
    assert [path for path in accessed if path.startswith(str(mount_point))] == []
    table.write_text(local)
    mount_point.rename(tmp_path / "elsewhere")
    assert received(source) == REASONS


def test_an_overflow_starts_a_pass_and_the_source_continues(tmp_path: Path) -> None:
    path, other = tmp_path / "seats", tmp_path / "other"
    source = watch(path)
    queue_size = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for _ in range(queue_size // 3 + 1):  # each iteration queues three events: created, closed, deleted
        other.touch()
        other.unlink()
    assert received(source) == REASONS
    assert received(source) == set()
    write(path)
    assert received(source) == REASONS


@pytest.mark.parametrize(
    ("function", "error", "limit"),
    [
        ("inotify_init1", errno.EMFILE, "max_user_instances"),
        ("inotify_add_watch", errno.ENOSPC, "max_user_watches"),
        ("inotify_add_watch", errno.ENOMEM, "max_user_watches"),
    ],
)
def test_a_limit_of_inotify_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, error: int, limit: str
) -> None:
    def fail(*_: object) -> int:
        ctypes.set_errno(error)
        return -1

    libc = SimpleNamespace(inotify_init1=ctypes.CDLL(None).inotify_init1)
    setattr(libc, function, fail)
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: libc)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match=limit):
        watch(tmp_path / "seats")
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_path_is_looked_at_only_before_a_pass_and_only_after_its_own_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look follows all links on the path, so it may take long. The file, or another file beside it, may change all
    the time."""
    seats = tmp_path / "seats"
    source = watch(seats)
    looks: list[str] = []

    def look(path: str, _: object) -> list[str]:
        looks.append(path)
        return [path]

    monkeypatch.setattr("capacityd.service.file_events.watched_paths", look)
    write(tmp_path / "other")
    assert received(source) == set()
    for _ in range(5):
        replace(seats)
        assert source.drain() == REASONS
        assert source.compare() == set()
    assert looks == []
    for _ in range(2):
        source.prepare_pass()
    assert looks == [str(seats)]


LINKS: dict[str, tuple[int, int, bool]] = {  # uid of the link, of the target (-1: none), is the target watched?
    "root's link to another's file": (0, 1234, True),
    "another's link to that user's file": (1234, 1234, True),
    "another's link to root's file": (1234, 0, False),
    "another's link to a third user's file": (1234, 4321, False),
    "another's link to nothing": (1234, -1, False),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("kind", LINKS)
def test_a_link_is_followed_only_if_a_detector_would_follow_it(tmp_path: Path, kind: str) -> None:
    """Otherwise, another user would learn when a file changes that only root can see."""
    link_owner, target_owner, followed = LINKS[kind]
    target, link = tmp_path / "secret" / "seats", tmp_path / "link"
    target.parent.mkdir()
    if target_owner >= 0:
        write(target)
        os.chown(target, target_owner, target_owner)
    link.symlink_to(target)
    os.lchown(link, link_owner, link_owner)
    source = watch(link)
    write(target)
    os.truncate(target, 0)
    assert received(source) == (REASONS if followed else set())
    link.unlink()
    assert received(source) == REASONS, "the link itself is watched in any case"
