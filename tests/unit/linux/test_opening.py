"""Which links lead to a data file. The tests run as root with links, files and folders of other users_folder."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from capacityd.linux.opening import UntrustedLink, data_exists, open_data_file
from capacityd.linux.path_walk import MAX_LINKS
from tests.support.forked import open_files

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users_folder")
ROOT, USER, OTHER = 0, 12345, 54321


def made(path: Path, owner: int, content: str = "4") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o600)
    os.chown(path, owner, owner)
    return path


def linked(path: Path, target: Path | str, owner: int) -> Path:
    path.symlink_to(target)
    os.chown(path, owner, owner, follow_symlinks=False)
    return path


def read(path: object) -> str:
    with open(open_data_file(str(path)), encoding="utf-8") as f:
        return f.read()


@pytest.mark.parametrize("position", ["last", "folder", "chain", "dots"])
@pytest.mark.parametrize("target", ["absolute", "relative"])
@pytest.mark.parametrize(
    ("link_owner", "file_owner", "followed"),
    [
        (ROOT, ROOT, True),
        (ROOT, USER, True),
        (USER, USER, True),
        (USER, ROOT, False),
        (USER, OTHER, False),
    ],
)
def test_a_link_is_followed_if_root_or_the_files_owner_made_it(
    tmp_path: Path, position: str, target: str, link_owner: int, file_owner: int, followed: bool
) -> None:
    made(tmp_path / "secret/seats", file_owner)
    to = tmp_path / "secret" if target == "absolute" else Path("../secret")
    users_folder = tmp_path / "user"
    users_folder.mkdir()
    os.chown(users_folder, USER, USER)
    if position == "last":
        path = linked(users_folder / "seats", to / "seats", link_owner)
    elif position == "folder":
        path = linked(users_folder / "in", to, link_owner) / "seats"
    elif position == "dots":
        path = linked(users_folder / "in", to, link_owner) / ".." / "secret" / "." / "seats"
    else:
        linked(users_folder / "second", to / "seats", link_owner)
        path = linked(tmp_path / "first", "user/second", ROOT)  # root's link to the link above
    if followed:
        assert read(path) == "4"
        return
    with pytest.raises(UntrustedLink) as error:
        open_data_file(str(path))
    link = users_folder / {"last": "seats", "chain": "second"}.get(position, "in")
    assert str(error.value) == (
        f"{link} may be another user's link to a file of root, so it is not followed; configure the path that it leads "
        "to"
    )


@pytest.mark.parametrize(
    ("folder_owner", "mode", "file_owner", "opened"),
    [
        (ROOT, 0o755, ROOT, True),
        (USER, 0o755, USER, True),
        (USER, 0o755, ROOT, False),
        (ROOT, 0o1777, ROOT, False),
        (ROOT, 0o775, ROOT, False),
    ],
)
def test_a_hard_link_to_a_file_of_root_is_not_opened_where_others_can_make_one(
    tmp_path: Path, folder_owner: int, mode: int, file_owner: int, opened: bool
) -> None:
    file = made(tmp_path / "secret/seats", file_owner)
    folder = tmp_path / "user"
    folder.mkdir()
    folder.chmod(mode)
    os.chown(folder, folder_owner, folder_owner)
    (folder / "seats").hardlink_to(file)
    if opened:
        assert read(folder / "seats") == "4"
    else:
        with pytest.raises(UntrustedLink, match="seats may be another user's link to a file of root"):
            open_data_file(str(folder / "seats"))
    file.unlink()
    assert read(folder / "seats") == "4", "a file with one name is no hard link"


def test_a_link_does_not_show_whether_a_file_of_root_exists(tmp_path: Path) -> None:
    users_folder = tmp_path / "user"
    users_folder.mkdir()
    os.chown(users_folder, USER, USER)
    linked(users_folder / "seats", tmp_path / "secret/file", USER)
    messages = set()
    for make in (
        lambda: None,
        lambda: (tmp_path / "secret").mkdir(mode=0o700),
        lambda: made(tmp_path / "secret/file", ROOT),
        lambda: made(tmp_path / "secret/file", OTHER),
    ):
        make()
        for action in (open_data_file, data_exists):
            with pytest.raises(UntrustedLink) as error:
                action(str(users_folder / "seats"))
            messages.add(str(error.value))
    assert len(messages) == 1


def test_another_users_text_is_in_no_message(tmp_path: Path) -> None:
    """Behind that user's link, each name is that user's choice."""
    made(tmp_path / "root", ROOT)
    users_folder = tmp_path / "user"
    chosen_by_user = users_folder / "$(reboot)"
    chosen_by_user.mkdir(parents=True)
    (chosen_by_user / "hard").hardlink_to(tmp_path / "root")
    for path in (users_folder, chosen_by_user):
        os.chown(path, USER, USER)
    linked(users_folder / "seats", "$(reboot)/hard", USER)
    with pytest.raises(UntrustedLink) as error:
        open_data_file(str(users_folder / "seats"))
    assert str(error.value).startswith(f"{users_folder / 'seats'} may be")
    assert "reboot" not in str(error.value)


def test_a_long_chain_of_links_is_followed_whoever_made_it(tmp_path: Path) -> None:
    """The targets of the links contain more names than a process may have open files."""
    made(tmp_path / "0", USER)
    (tmp_path / "a").mkdir()
    for number in range(1, MAX_LINKS + 1):
        linked(tmp_path / str(number), f"{'a/../' * 800}{number - 1}", USER)
    assert read(tmp_path / str(MAX_LINKS)) == "4"


def test_an_unrelated_error_is_not_reported_as_a_link_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, this process can open no more files."""
    linked(tmp_path / "seats", "secret", USER)

    def fail(*_: object, **__: object) -> str:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "readlink", fail)
    with pytest.raises(OSError, match="Too many open files"):
        open_data_file(str(tmp_path / "seats"))


def test_without_other_users_every_file_is_opened_as_by_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the kernel as well, and links to open files, which have no other path."""
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "a/b", ROOT)
    linked(tmp_path / "link", tmp_path / "a", ROOT)
    linked(tmp_path / "loop", "loop", ROOT)
    before = open_files()
    for path in ("a/b", "./a//b", f"{tmp_path}/a/../a/b", "link/b", "/proc/self/cwd/a/b"):
        assert read(path) == "4"
    assert read("/proc/sys/kernel/pid_max") == Path("/proc/sys/kernel/pid_max").read_text()
    with open(tmp_path / "gone", "w+") as gone:
        gone.write("7")
        gone.flush()
        os.unlink(tmp_path / "gone")
        assert read(f"/proc/self/fd/{gone.fileno()}") == "7"
    for path, error in {
        "absent": "No such file",
        "a/absent/c": "No such file",
        "a/b/c": "Not a directory",
        "loop": "Too many levels",
        "/dev/null": "Not a regular file",
        "a": "Is a directory",
    }.items():
        with pytest.raises(OSError, match=error):
            open_data_file(path)
    assert open_files() == before


def test_a_link_that_is_made_while_the_path_is_opened_is_not_followed(tmp_path: Path) -> None:
    """Again and again, a user replaces an own file with a link to root's file."""
    made(tmp_path / "secret", ROOT, "SECRET")
    folder = tmp_path / "user"
    folder.mkdir()
    made(folder / "file", USER, "4")
    linked(folder / "link", "../secret", USER)
    program = f"""
import os
while True:
    for name in ("file", "link"):
        os.link("{folder}/" + name, "{folder}/new", follow_symlinks=False)
        os.rename("{folder}/new", "{folder}/seats")
"""
    made(folder / "seats", USER, "4")
    with subprocess.Popen([sys.executable, "-c", program]) as attacker:
        try:
            contents = set()
            refusals = 0
            for _ in range(20000):
                try:
                    contents.add(read(folder / "seats"))
                except UntrustedLink:
                    refusals += 1
        finally:
            attacker.kill()
    assert contents == {"4"}
    assert refusals > 0
