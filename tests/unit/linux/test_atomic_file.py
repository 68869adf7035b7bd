"""How files are replaced and read."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from capacityd.linux import atomic_file
from capacityd.linux.atomic_file import read_regular_file, replace_file
from tests.support.forked import can_be_alone, run_alone


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """What a killed process has left does not matter, nor does a link that another user has made."""
    target, unfinished = tmp_path / "f", tmp_path / "f.new"
    for number, leave_behind in enumerate((unfinished.touch, lambda: unfinished.symlink_to("other"))):
        leave_behind()
        replace_file(str(target), str(number).encode(), 0o640)
        assert (target.read_text(), target.stat().st_mode & 0o777) == (str(number), 0o640)
        assert os.listdir(tmp_path) == ["f"]
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(str(tmp_path / "folder"), b"new", 0o640)
    assert not (tmp_path / "folder.new").exists()


def test_what_is_missing_is_told_apart_from_what_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the path is not a regular file, the read does not wait, and opens no device."""
    file = tmp_path / "f"
    file.write_bytes(b"x" * 10)
    assert read_regular_file(str(file)) == b"x" * 10
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("absent")
    monkeypatch.setattr(atomic_file, "MAX_BYTES", 9)  # the file has 10
    for path, code in (
        (file, errno.EFBIG),
        (tmp_path, errno.EISDIR),
        (tmp_path / "pipe", errno.EINVAL),
        (Path("/dev/zero"), errno.EINVAL),
        (tmp_path / "loop", errno.ELOOP),
        (tmp_path / "dangling", errno.ENOENT),
        (file / "f", errno.ENOTDIR),
    ):
        with pytest.raises(OSError) as error:
            read_regular_file(str(path))
        assert error.value.errno == code


_NO_INODE = "mount -t tmpfs -o nr_inodes=40 tmpfs {0}; touch $(seq -f {0}/%g 40) 2>/dev/null || :"
_WRITE = """
import sys
from capacityd.linux.atomic_file import replace_file, write_error
print(write_error(sys.argv[1]))
try:
    replace_file(f"{sys.argv[1]}/state.json", b"{}", 0o600)
except OSError as e:
    print(e.errno)
"""


@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
@pytest.mark.parametrize(
    ("mount", "code"), [(_NO_INODE, errno.ENOSPC), ("mount -t tmpfs -o ro tmpfs {0}", errno.EROFS)]
)
def test_a_file_system_that_cannot_be_written_is_detected_without_a_write(
    tmp_path: Path, mount: str, code: int
) -> None:
    """Without a free inode, no file can be created, although there is free space. {0} stands for the mount point."""
    assert run_alone(mount.format(tmp_path), _WRITE, str(tmp_path)) == f"{code}\n{code}\n"
