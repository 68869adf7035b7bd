"""Who could change a file, and the command that ends this. Another user tries it: the kernel decides the same."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from capacityd.linux.trust import (
    SERVICE_TRUST,
    NotTrusted,
    flaw_of,
    open_trusted,
    trust_in,
    trust_of_current_user,
    trusted_names,
)
from tests import ROOT
from tests.support.forked import forked, open_files
from tests.support.reachable import make_reachable

OTHER = 12345  # the uid and gid of another user
FOLDER_OF_ROOT = "use a folder that only root may write"
pytestmark = pytest.mark.other_user
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of root, which other users can reach, two folders below another one."""
    make_reachable(tmp_path)
    path = tmp_path / "above" / "folder" / "file"
    path.parent.mkdir(parents=True)
    path.write_text("root's")
    return path


def change_owner(path: Path, uid: int = OTHER, gid: int = OTHER, mode: int | None = None) -> None:
    os.chown(path, uid, gid, follow_symlinks=False)
    if mode is not None:
        path.chmod(mode)


def add_acl_entry(path: Path) -> None:
    """Does what setfacl -m u:12345:rw does. The entries are owner, named user, group, mask, others (acl(5))."""
    entries = [(1, 6, 0xFFFFFFFF), (2, 6, OTHER), (4, 4, 0xFFFFFFFF), (16, 6, 0xFFFFFFFF), (32, 4, 0xFFFFFFFF)]
    packed = (2).to_bytes(4, "little")
    for tag, permissions, user in entries:
        packed += tag.to_bytes(2, "little") + permissions.to_bytes(2, "little") + user.to_bytes(4, "little")
    os.setxattr(path, "system.posix_acl_access", packed)


def put_behind_a_link(file: Path, *, links_owner: int = 0, folders_mode: int = 0o755) -> None:
    """Moves the file away and makes a link in its place."""
    target = file.parents[2] / "target"
    file.rename(target)
    file.symlink_to(target)
    change_owner(file, links_owner, links_owner)
    file.parent.chmod(folders_mode)


def put_behind_a_link_to_another(file: Path) -> None:
    put_behind_a_link(file)
    change_owner(file.resolve())


def put_in_a_sticky_folder(file: Path) -> None:
    change_owner(file)
    file.parent.chmod(0o1777)


# what is done to the file, and the remedy; "" if no other user can change what its path leads to
CASES: dict[str, tuple[Callable[[Path], object], str]] = {
    "root's alone": (lambda f: None, ""),
    "readable by its group and by all": (lambda f: f.chmod(0o755), ""),
    "another's": (change_owner, "chown root FILE"),
    "another's, and read-only": (lambda f: change_owner(f, mode=0o444), "chown root FILE"),
    "of another's group, which may only read": (lambda f: change_owner(f, 0, OTHER, 0o640), ""),
    "of another's group, which may write": (lambda f: change_owner(f, 0, OTHER, 0o664), "chmod go-w FILE"),
    "writable by all": (lambda f: f.chmod(0o646), "chmod go-w FILE"),
    "writable by an ACL": (add_acl_entry, "chmod go-w FILE"),
    "in another's folder": (lambda f: change_owner(f.parent), FOLDER_OF_ROOT),
    "in a folder of another's group": (lambda f: change_owner(f.parent, 0, OTHER, 0o775), "chmod go-w FOLDER"),
    "in a folder that all may write": (lambda f: f.parent.chmod(0o777), "chmod go-w FOLDER"),
    "below a folder such as /tmp": (lambda f: f.parents[1].chmod(0o1777), ""),
    "in another's folder such as /tmp": (lambda f: change_owner(f.parent, mode=0o1777), FOLDER_OF_ROOT),
    "another's, in a folder such as /tmp": (put_in_a_sticky_folder, FOLDER_OF_ROOT),
    "below another's folder": (lambda f: change_owner(f.parents[1]), FOLDER_OF_ROOT),
    "below a folder that all may write": (lambda f: f.parents[1].chmod(0o777), "chmod go-w ABOVE"),
    "behind a link of root": (put_behind_a_link, ""),
    "behind a link of another in a folder such as /tmp": (
        lambda f: put_behind_a_link(f, links_owner=OTHER, folders_mode=0o1777),
        FOLDER_OF_ROOT,
    ),
    "behind a link in a folder that all may write": (
        lambda f: put_behind_a_link(f, folders_mode=0o777),
        "chmod go-w FOLDER",
    ),
    "behind a link to another's file": (put_behind_a_link_to_another, "chown root TARGET"),
}


def changed_by_another(file: Path) -> bool:
    """Whether another user changes what the path leads to: writes it, or replaces it, or a folder above it."""

    def attempt() -> None:
        os.setgroups([])
        os.setgid(OTHER)
        os.setuid(OTHER)
        for path in (file, file.parent, file.parents[1]):
            try:
                path.rename(f"{path}.away")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("another's")
            except OSError:
                continue
            return
        try:
            if file.stat().st_uid == OTHER:  # an owner may always change the mode
                file.chmod(0o600)
            file.write_text("another's")
        except OSError:
            pass

    forked(attempt)
    return file.read_text() != "root's"


@as_root
@pytest.mark.parametrize(("change", "remedy"), CASES.values(), ids=CASES)
def test_a_file_that_another_user_could_change_has_a_remedy_that_helps(
    file: Path, change: Callable[[Path], object], remedy: str
) -> None:
    change(file)
    places = {"FILE": file, "FOLDER": file.parent, "ABOVE": file.parents[1], "TARGET": file.parents[2] / "target"}
    for word, place in places.items():
        remedy = remedy.replace(word, str(place))
    flaw = flaw_of(str(file), SERVICE_TRUST)
    assert (flaw.remedy if flaw else "") == remedy
    if flaw:
        state = subprocess.run(["stat", "-c", "%a", flaw.path], capture_output=True, text=True, check=True).stdout
        assert f"mode {int(state, 8):04o})" in flaw.problem
        if flaw.remedy != FOLDER_OF_ROOT:
            subprocess.run(shlex.split(flaw.remedy), check=True)
            assert flaw_of(str(file), SERVICE_TRUST) is None, "the remedy helps"
        return
    assert not changed_by_another(file)


@as_root
@pytest.mark.parametrize("case", [case for case, (_, remedy) in CASES.items() if remedy])
def test_no_file_is_refused_that_another_user_cannot_change(file: Path, case: str) -> None:
    CASES[case][0](file)
    assert changed_by_another(file)


@as_root
def test_a_name_that_another_user_could_create_is_not_trusted(file: Path) -> None:
    """The user may create it in the meantime. In a folder such as /tmp, interpreters load what is beside a script, and
    a hard link may be another user's choice of a file of root."""
    folder = file.parent
    file.with_name("second").hardlink_to(file)
    assert flaw_of(f"{folder}/missing/program", SERVICE_TRUST) is None
    assert sorted(trusted_names(str(folder), SERVICE_TRUST)) == ["file", "second"]
    for mode, remedy in ((0o1777, FOLDER_OF_ROOT), (0o777, f"chmod go-w {folder}")):
        folder.chmod(mode)
        with pytest.raises(NotTrusted) as raised:
            trusted_names(str(folder), SERVICE_TRUST)
        flaws = [raised.value.flaw, flaw_of(str(file), SERVICE_TRUST)]
        flaws += [flaw_of(f"{folder}/{name}", SERVICE_TRUST) for name in ("missing", "missing/program")]
        assert {(flaw.path, flaw.remedy) for flaw in flaws if flaw} == {(str(folder), remedy)}
        assert all(flaws)


@as_root
def test_only_what_has_content_counts(file: Path) -> None:
    """Nothing special is opened. A folder that is only named may be another user's."""
    os.mkfifo(file.parent / "pipe", 0o600)
    (file.parent / "theirs").mkdir()
    change_owner(file.parent / "theirs")
    for path in ("/dev/null", str(file.parent / "pipe"), str(file.parent / "theirs")):
        assert flaw_of(path, SERVICE_TRUST) is None
        with pytest.raises(OSError, match=r"Not a regular file|Is a directory"):
            open_trusted(path, SERVICE_TRUST)
    assert flaw_of(f"{file.parent}/theirs/x", SERVICE_TRUST) is not None
    (file.parent / "pipe").chmod(0o666)
    assert flaw_of(f"{file.parent}/pipe", SERVICE_TRUST) is not None, "others may write what is read from it"


def test_a_trusted_file_is_opened_and_a_missing_one_is_an_error(file: Path) -> None:
    before = open_files()
    with open(open_trusted(str(file), trust_of_current_user()), encoding="utf-8") as f:
        assert f.read() == "root's"
    with pytest.raises(FileNotFoundError):
        open_trusted(f"{file}.missing", trust_of_current_user())
    with pytest.raises(ValueError, match="null"):
        open_trusted("\0", trust_of_current_user())
    assert open_files() == before


def test_a_path_that_leads_nowhere_has_no_flaw(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "file").touch()
    for name in ("loop", "dangling", "none", "file/below"):
        assert flaw_of(str(tmp_path / name), trust_of_current_user()) is None
    assert flaw_of("/", trust_of_current_user()) is None
    assert flaw_of(f"{tmp_path}/../{tmp_path.name}/./file", trust_of_current_user()) is None


@as_root
def test_two_dots_leave_the_folder_that_a_link_leads_to(file: Path) -> None:
    """The kernel does so, too. It does not return to the folder that holds the link."""
    (file.parents[2] / "link").symlink_to(file.parent)
    change_owner(file.parents[1])
    for path in (f"{file.parents[2]}/link/../folder/file", f"{file.parents[2]}/link/../../above"):
        flaw = flaw_of(path, SERVICE_TRUST)
        assert flaw is not None
        assert flaw.path == str(file.parents[1])


# the owner and the mode of the folder and of the file, the user who asks, and the flaw
OF_USERS = {
    "a user's own files": (OTHER, 0o755, OTHER, 0o644, OTHER, ""),
    "the files of a third user": (OTHER, 0o755, OTHER, 0o644, OTHER + 1, f"mode 0755): {FOLDER_OF_ROOT}"),
    "a folder that hides its content": (OTHER, 0o700, 0, 0o644, OTHER + 1, f"mode 0700): {FOLDER_OF_ROOT}"),
    "the user's own group, as with Ubuntu's umask": (0, 0o755, OTHER, 0o664, OTHER, ""),
    "the group of a file of root, for root": (0, 0o755, 0, 0o664, 0, "is writable by its group"),
}


@as_root
@pytest.mark.parametrize(("folder", "folder_mode", "owner", "mode", "user", "why"), OF_USERS.values(), ids=OF_USERS)
def test_a_user_trusts_root_and_their_own_files(
    file: Path, folder: int, folder_mode: int, owner: int, mode: int, user: int, why: str
) -> None:
    change_owner(file, owner, owner, mode)
    change_owner(file.parent, folder, folder, folder_mode)

    def flaw() -> str:
        os.setgid(user)
        os.setuid(user)
        return str(flaw_of(str(file), trust_of_current_user()))

    found = forked(flaw)
    assert (why in found) if why else found == "None"


@as_root
def test_the_owner_of_a_named_file_is_trusted(file: Path) -> None:
    change_owner(file, OTHER, OTHER, 0o664)
    assert flaw_of(str(file), trust_in(str(file))) is None
    assert trust_in(f"{file}.missing").users == trust_of_current_user().users
    change_owner(file.parent, 0, 0, 0o1777)
    assert flaw_of(str(file), trust_in(str(file))) is None, "such as /tmp/try.toml"
    change_owner(file, OTHER, OTHER, 0o666)
    assert flaw_of(str(file), trust_in(str(file))) is not None


@as_root
def test_in_the_services_user_namespace_the_flaws_are_the_same(file: Path) -> None:
    """In this namespace, all other users have one uid."""
    change_owner(file.parent, 0, OTHER, 0o775)
    code = "import sys; from capacityd.linux.trust import *; print(flaw_of(sys.argv[1], trust_of_current_user()))"
    command = ["unshare", "--map-root-user", sys.executable, "-c", code, str(file)]

    def answer() -> str:
        done = subprocess.run(command, cwd=ROOT / "agent", capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert answer() == f"{file.parent} is writable by its group (owner root, mode 0775): chmod go-w {file.parent}"
    change_owner(file.parent, OTHER, 0, 0o755)
    why = f"{file.parent} does not belong to root (owner another user, mode 0755): {FOLDER_OF_ROOT}"
    assert answer() == why
    change_owner(file.parent, 0, 0)
    assert answer() == "None"
