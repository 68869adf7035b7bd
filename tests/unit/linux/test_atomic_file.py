"""A file is replaced whole, and, if durable, only by what is on the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from capacityd.linux.atomic_file import replace_file


@pytest.mark.parametrize("durable", [False, True])
def test_what_must_survive_a_power_failure_is_on_the_disk_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    target, done = tmp_path / "f", list[str]()
    sync, replace = os.fsync, os.replace

    def synced(fd: int) -> None:
        done.append(f"sync {Path(f'{target}.new').read_text()}")
        sync(fd)

    def replaced(path: str, by: str) -> None:
        done.append("replace")
        replace(path, by)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    replace_file(str(target), b"new", 0o640, durable=durable)
    assert done == (["sync new"] if durable else []) + ["replace"]
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new", 0o640)
    assert os.listdir(tmp_path) == ["f"]
