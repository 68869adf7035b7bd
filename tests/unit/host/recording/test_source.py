"""What the recorder reads of the machine that it runs on."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from capacityd.host.recording.source import LiveSource
from capacityd.model.errors import HostError


def test_a_file_that_is_too_long_is_an_error_and_not_a_part(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc\xff")
    assert LiveSource().raw(str(tmp_path / "f"), 4) == "abc\udcff"
    with pytest.raises(HostError) as e:
        LiveSource().raw(str(tmp_path / "f"), 3)
    assert e.value.errno == errno.EFBIG


def test_a_path_that_is_not_a_regular_file_has_no_value(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f")
    with pytest.raises(HostError) as e:
        LiveSource().raw(str(tmp_path / "f"), 3)
    assert e.value.errno == errno.EINVAL
