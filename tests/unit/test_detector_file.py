"""A number in a file that something else writes: late, half, wrongly or never."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from capacityd.detectors import load
from capacityd.errors import HostError
from capacityd.host import Host
from capacityd.host.live import LiveHost
from capacityd.host.recorded import RecordedHost
from capacityd.model import Evidence, Resource, Table, Unknown, ValueDetector
from capacityd.reading import read_resource

DETECTOR = load("file")


def read(path: object, host: Host | None = None, max_age: float | None = None) -> Evidence:
    assert isinstance(DETECTOR, ValueDetector)
    return DETECTOR.read(host or LiveHost(), {"path": str(path), "max_age": max_age})


def why(path: object, max_age: float | None = None) -> str:
    with pytest.raises(HostError) as raised:
        read(path, max_age=max_age)
    return str(raised.value)


@pytest.mark.parametrize(("text", "number"), [("4", 4), ("4\n", 4), (" \t12 \r\n\n", 12), ("0", 0), ("007", 7)])
def test_the_number_in_it(tmp_path: Path, text: str, number: int) -> None:
    (tmp_path / "seats").write_text(text)
    assert read(tmp_path / "seats") == Evidence(str(tmp_path / "seats"), number)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "nothing where a whole number was expected"),
        (b" \n", "nothing where a whole number was expected"),
        (b"-4", '"-4" is not a whole number'),
        (b"4.0", "not a whole number"),
        (b"4 seats", "not a whole number"),
        (b"0x10", "not a whole number"),
        (b"4\n5", r"4\n5"),
        (b"\xff\xfe4\0", r"\xff\xfe4\x00"),
        (b"\x1b[2J4", r"\x1b[2J4"),
        ("٤".encode(), "not a whole number"),
        (b"9223372036854775808", "more than Kubernetes can count"),
        (b"9" * 4000, "more than Kubernetes can count"),
        (b"9" * 5000, "holds more than 4096 bytes"),
    ],
)
def test_what_is_no_number_is_unknown(tmp_path: Path, raw: bytes, reason: str) -> None:
    (tmp_path / "seats").write_bytes(raw)
    assert reason in why(tmp_path / "seats")


def test_a_missing_file_is_unknown_and_not_absent(tmp_path: Path) -> None:
    assert why(tmp_path / "seats").endswith("/seats does not exist")
    resource = Resource("example.com/seats", "file", (Table(settings={"path": str(tmp_path / "seats")}),))
    with pytest.raises(KeyError):
        read_resource(resource, LiveHost(), "node")  # the configuration fills in every setting
    settings = {"path": str(tmp_path / "seats"), "max_age": None}
    resource = Resource("example.com/seats", "file", (Table(settings=settings),))
    assert isinstance(read_resource(resource, LiveHost(), "node"), Unknown)


def test_a_stale_file_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "seats"
    path.write_text("4")
    os.utime(path, (time.time() - 7300, time.time() - 7300))
    assert "s old, max_age is 7200 s; does its writer run?" in why(path, max_age=7200.0)
    assert read(path, max_age=3600.0 * 3).contributes == 4
    assert read(path).contributes == 4


def test_a_file_from_the_future_has_no_age(tmp_path: Path) -> None:
    path = tmp_path / "seats"
    path.write_text("4")
    os.utime(path, (time.time() + 7300, time.time() + 7300))
    assert "is the clock right?" in why(path, max_age=7200.0)
    assert read(path).contributes == 4


def test_what_is_no_file(tmp_path: Path) -> None:
    assert "is not a regular file" in why(tmp_path)
    os.mkfifo(tmp_path / "fifo")  # opening it would wait for a writer
    assert "is not a regular file" in why(tmp_path / "fifo")
    assert "is not a regular file" in why("/dev/zero")


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("4")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dead").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    assert read(tmp_path / "link").contributes == 4
    assert "does not exist" in why(tmp_path / "dead")
    assert "could not be read" in why(tmp_path / "loop")


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "huge", "wb") as f:
        f.truncate(1 << 40)
    assert "holds more than 4096 bytes" in why(tmp_path / "huge")


def test_a_file_of_the_kernel_is_read(tmp_path: Path) -> None:
    assert read("/proc/sys/kernel/pid_max").contributes > 0


def test_a_recorded_file() -> None:
    host = RecordedHost({"files": {"/run/seats": "4\n"}, "ages": {"/run/seats": 90}})
    assert read("/run/seats", host, max_age=100.0).contributes == 4
    with pytest.raises(HostError, match="90 s old"):
        read("/run/seats", host, max_age=60.0)


def test_it_names_the_file_to_watch() -> None:
    assert isinstance(DETECTOR, ValueDetector)
    assert DETECTOR.watched in DETECTOR.settings
