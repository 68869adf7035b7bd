"""Files that the kernel denies to root without capabilities, and the advice that capacityd prints."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from capacityd.linux.permissions import why_unreadable_to_root
from tests.support.reachable import make_reachable

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")
AS_SERVICE = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--clear-groups")
OTHER = 1234  # the uid and gid of another user


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file in a folder."""
    make_reachable(tmp_path)
    (tmp_path / "folder").mkdir(0o755)
    path = tmp_path / "folder" / "kubelet.conf"
    path.write_text("x")
    return path


@pytest.mark.parametrize(
    ("owner", "mode", "folder_owner", "folder_mode", "expected"),
    [  # expected: "STATE|REMEDY", or "" if the file is readable
        ((0, 0), 0o600, (0, 0), 0o700, ""),
        ((0, OTHER), 0o400, (0, OTHER), 0o100, ""),
        ((OTHER, OTHER), 0o644, (OTHER, OTHER), 0o755, ""),
        ((OTHER, 0), 0o640, (OTHER, 0), 0o710, ""),
        ((OTHER, OTHER), 0o640, (0, 0), 0o755, "FILE (owner uid 1234, mode 0640)|chown root FILE"),
        ((OTHER, 0), 0o604, (0, 0), 0o755, "FILE (owner uid 1234, mode 0604)|chown root FILE"),
        ((0, 0), 0o044, (0, 0), 0o755, "FILE (owner root, mode 0044)|chmod u+r FILE"),
        ((0, 0), 0o600, (OTHER, OTHER), 0o750, "FOLDER (owner uid 1234, mode 0750)|chmod o+x FOLDER"),
        ((0, 0), 0o600, (0, 0), 0o655, "FOLDER (owner root, mode 0655)|chmod u+x FOLDER"),
        ((OTHER, OTHER), 0o600, (OTHER, OTHER), 0o700, "FOLDER (owner uid 1234, mode 0700)|chmod o+x FOLDER"),
    ],
)
def test_the_reason_why_root_without_capabilities_may_not_read_has_a_remedy_that_helps(
    file: Path, owner: tuple[int, int], mode: int, folder_owner: tuple[int, int], folder_mode: int, expected: str
) -> None:
    for path, (uid, gid), bits in ((file, owner, mode), (file.parent, folder_owner, folder_mode)):
        os.chown(path, uid, gid)
        path.chmod(bits)
    reason = why_unreadable_to_root(str(file))
    state, _, remedy = expected.replace("FILE", str(file)).replace("FOLDER", str(file.parent)).partition("|")
    assert reason == (
        f"{state} is not readable by the service, which is root without capabilities: {remedy}" if remedy else ""
    )
    read = subprocess.run([*AS_SERVICE, "cat", file], capture_output=True)
    assert (read.returncode == 0) == (expected == ""), "the kernel decides the same"
    if remedy:
        program, *arguments = remedy.split()
        subprocess.run([program, *arguments], check=True)
        assert why_unreadable_to_root(str(file)) != reason, "the advice helps"


def test_the_reason_is_that_of_the_target_of_a_link_and_a_missing_file_has_none(file: Path, tmp_path: Path) -> None:
    os.chown(file, OTHER, OTHER)
    file.chmod(0o600)
    (tmp_path / "link").symlink_to(file)
    assert str(file) in why_unreadable_to_root(str(tmp_path / "link"))
    assert why_unreadable_to_root(str(tmp_path / "none")) == ""
