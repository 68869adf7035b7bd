"""The detector file: a number in a file, which may be old, incomplete, wrong or missing."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from capacityd.host.live import LiveHost
from capacityd.host.recording.replay import RecordedHost
from capacityd.linux import sandbox
from capacityd.model.errors import HostError
from capacityd.model.host import Host
from capacityd.model.reading import Absent, Contribution
from tests.support.readings import value_detector

DETECTOR = value_detector("file")


def reading(
    path: object, key: str | None = None, max_age: float | None = None, host: Host | None = None
) -> Contribution | Absent:
    return DETECTOR.read(host or LiveHost(), {"path": str(path), "key": key, "max_age": max_age})


def read(path: object, max_age: float | None = None, host: Host | None = None) -> int:
    """The number in a file without keys."""
    contribution = reading(path, max_age=max_age, host=host)
    assert isinstance(contribution, Contribution)
    return int(contribution.amount)


def error(path: object, key: str | None = None, max_age: float | None = None) -> str:
    with pytest.raises(HostError) as raised:
        reading(path, key, max_age)
    return str(raised.value)


@pytest.mark.parametrize(("text", "number"), [("0", 0), (" \t12 \r\n\n", 12), ("\ufeff12\r\n", 12)])
def test_the_amount_is_the_number_in_the_file(tmp_path: Path, text: str, number: int) -> None:
    (tmp_path / "seats").write_text(text)
    assert reading(tmp_path / "seats") == Contribution(str(tmp_path / "seats"), number)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "empty; a whole number was expected"),
        (b"0.2s)", "not a whole number from 0 up (5 characters)"),
        (b"4\n\0\0\0", "/seats is not a text, because it contains zero bytes"),  # after a power failure
        ("40\r\n".encode("utf-16"), "/seats is not a text, because it contains zero bytes"),
        (b"-4", "not a whole number from 0 up (2 characters)"),
        (b"\x1b[2J4", "not a whole number from 0 up (8 characters)"),
        (b"1" * 40, "more than Kubernetes can count, which is 9223372036854775807 (40 characters)"),
        (b"9" * 70_000, "is longer than 65536 bytes"),
    ],
)
def test_content_that_is_not_a_number_is_unknown(tmp_path: Path, raw: bytes, reason: str) -> None:
    (tmp_path / "seats").write_bytes(raw)
    assert reason in error(tmp_path / "seats")


# A file with several numbers, each behind its key. It begins with a byte order mark.
PAIRS = """\ufefftdx 31
# of the vendor
sev_es\t5\r
seats = 40
 floating: 12
nodes=7
max processes : 3
none max
twice 1
twice = 1
lost at 12:30
model\t: 23
model name\t: fast
export users=9
used{server="a"} 5
used{server="b"} 7
"""


@pytest.mark.parametrize(
    ("key", "number"),
    [
        ("tdx", 31),
        ("sev_es", 5),
        ("seats", 40),
        ("floating", 12),
        ("nodes", 7),
        ("max processes", 3),
        ("model", 23),
        ("export users", 9),
        ('used{server="b"}', 7),
    ],
)
def test_the_amount_is_the_number_behind_the_key(tmp_path: Path, key: str, number: int) -> None:
    (tmp_path / "capacity").write_text(PAIRS)
    recorded = RecordedHost({"files": {f"{tmp_path}/capacity": PAIRS}})
    for host in (LiveHost(), recorded):
        expected = Contribution(f"{tmp_path}/capacity {key}", number)
        assert reading(tmp_path / "capacity", key, host=host) == expected


@pytest.mark.parametrize("key", ["sev", "dx", "TDX", "s.*", "31", "users"])
def test_a_file_without_the_key_is_absent(tmp_path: Path, key: str) -> None:
    (tmp_path / "capacity").write_text(PAIRS)
    assert reading(tmp_path / "capacity", key) == Absent(f"no line of {tmp_path}/capacity begins with {key}")


@pytest.mark.parametrize("raw", [bytes(64), "tdx 31\n".encode("utf-16")], ids=["power failure", "UTF-16"])
def test_a_key_in_a_file_that_is_no_text_is_unknown_and_not_absent(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "capacity").write_bytes(raw)
    assert error(tmp_path / "capacity", "tdx").endswith("/capacity is not a text, because it contains zero bytes")


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("twice", "/capacity has twice 2 times"),
        ("lost", "/capacity lost: not a whole number from 0 up (8 characters)"),  # lost at 12:30
        ("used", "/capacity has used 2 times"),
        ("none", "/capacity none: not a whole number from 0 up (3 characters)"),  # none max
        ("max", "/capacity max: not a whole number from 0 up (13 characters)"),  # max processes : 3
    ],
)
def test_a_repeated_key_and_a_key_without_a_number_are_unknown(tmp_path: Path, key: str, reason: str) -> None:
    (tmp_path / "capacity").write_text(PAIRS)
    assert error(tmp_path / "capacity", key) == f"{tmp_path}{reason}"


@pytest.mark.parametrize(
    ("age", "max_age", "reason"),  # in seconds, and the reason why the number is unknown ("": it is known)
    [
        (7300, 7200.0, "is 2 h old, max_age is 2 h; does its writer run?"),
        (7300, 10800.0, ""),
        (7300, None, ""),
        (-7300, 7200.0, "is the clock right?"),
        (-7300, None, ""),
        (-30, 7200.0, ""),
    ],
)
def test_an_old_file_or_one_from_the_future_is_unknown(
    tmp_path: Path, age: int, max_age: float | None, reason: str
) -> None:
    path = tmp_path / "seats"
    path.write_text("4")
    os.utime(path, (time.time() - age, time.time() - age))
    if reason:
        assert reason in error(path, max_age=max_age)
    else:
        assert read(path, max_age) == 4


def test_what_is_not_a_regular_file_is_unknown(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")  # opening a pipe would wait for a writer
    (tmp_path / "dead").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path / "fifo", "/dev/zero"):
        assert "could not be read: Not a regular file" in error(path)
    assert "could not be read: Is a directory" in error(tmp_path)
    assert error(tmp_path / "seats").endswith("/seats does not exist")
    assert "does not exist" in error(tmp_path / "dead")
    assert "could not be read" in error(tmp_path / "loop")


def test_a_link_and_a_file_of_the_kernel_are_read(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("4")
    (tmp_path / "link").symlink_to("real")
    assert read(tmp_path / "link") == 4
    assert read("/proc/sys/kernel/pid_max") > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a link of another user")
def test_a_link_of_another_user_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Advice about the sandbox would name the folder that denies access, and its mode. So the error has none."""
    (tmp_path / "status").write_text("NoNewPrivs:\t1\n")
    monkeypatch.setattr(sandbox, "_STATUS", str(tmp_path / "status"))
    (tmp_path / "secret").mkdir(mode=0o600)
    (tmp_path / "secret/file").touch()
    (tmp_path / "link").symlink_to("secret/file")
    assert "secret" in error(tmp_path / "secret/missing")
    os.chown(tmp_path / "link", 12345, 12345, follow_symlinks=False)
    link = tmp_path / "link"
    assert error(link).startswith(f"{link} could not be read: {link} may be another user's link")
    assert error(link).endswith("configure the path that it leads to")


def test_a_recorded_file_has_the_age_at_the_time_of_the_recording() -> None:
    host = RecordedHost({"files": {"/run/seats": "4\n"}, "ages": {"/run/seats": 90}})
    assert read("/run/seats", 100.0, host) == 4
    with pytest.raises(HostError, match="90 s old"):
        read("/run/seats", 60.0, host)
