"""The live and the recorded host return equal values and errors, and text that is safe to print."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.host.live import LiveHost
from capacityd.host.recording.replay import RecordedHost
from capacityd.model.errors import HostError
from capacityd.model.host import SystemDevices, machine_id, read_int, system_uuid
from capacityd.model.text import printable
from tests.support.machines import machine, write_tree

LIVE = LiveHost()


@given(st.one_of(st.binary(), st.text(st.characters())))
def test_the_output_is_safe_to_print(raw: bytes | str) -> None:
    text = printable(raw)
    assert text.isprintable()
    text.encode()
    assert printable(text) == text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("日本".encode(), "日本"),
        (b"caf\xe9\x9b", r"caf\xe9\x9b"),
        ("caf\udce9", r"caf\xe9"),
        (b"\x1b[31ma\x00\r\n", r"\x1b[31ma\x00\r\n"),
        ("\u202e\u00a0\U000e0001\ud800", r"\u202e\xa0\U000e0001\ud800"),
    ],
)
def test_unprintable_bytes_are_escaped(raw: bytes | str, text: str) -> None:
    assert printable(raw) == text


def both_hosts(
    tmp_path: Path, contents: Mapping[str, str], links: Mapping[str, str] | None = None
) -> list[tuple[LiveHost | RecordedHost, str]]:
    """A live and a recorded host with the same files, each with the folder in which it has the files."""
    recording = {"files": contents, "links": links or {}}
    write_tree(recording, os.path.realpath(tmp_path))
    return [(LIVE, os.path.realpath(tmp_path)), (RecordedHost(recording), "")]


def test_text_is_stripped_and_limited_alike_live_and_recorded(tmp_path: Path) -> None:
    content = {"/d/a": " x y\n\0", "/d/empty": "", "/d/full": "x" * 65536, "/d/more": "x" * 65537, "/d/latin": "\udce9"}
    content["/d/cell"] = "\0\0\0" + "1"  # the binary number 49, not the text 1
    for host, at in both_hosts(tmp_path, content):
        assert host.text(f"{at}/d/a") == "x y"
        assert host.text(f"{at}/d/empty") == ""
        assert host.text(f"{at}/d/latin") == r"\xe9"
        assert host.text(f"{at}/d/cell") == r"\x00\x00\x001"
        assert [host.text(f"{at}/{path}") for path in ("d/none", "d/a/below", "d")] == [None, None, None]
        assert host.text(f"{at}/d/full") == "x" * 65536
        with pytest.raises(HostError, match="is longer than 65536 bytes"):
            host.text(f"{at}/d/more")


def test_lines_and_names_are_printable_alike_live_and_recorded(tmp_path: Path) -> None:
    for host, at in both_hosts(tmp_path, {"/d/b": "one\ttwo\n\nthree\0four\x1b\n", "/d/a/x": "", "/d/c": ""}):
        assert host.lines(f"{at}/d/b") == ["one two", "three", r"four\x1b"]
        assert [*host.lines(f"{at}/d/none"), *host.lines(f"{at}/d")] == []
        assert list(host.listdir(f"{at}/d")) == ["a", "b", "c"]
        assert [*host.listdir(f"{at}/none"), *host.listdir(f"{at}/d/b")] == []


def test_the_content_of_a_file_is_limited_alike_live_and_recorded(tmp_path: Path) -> None:
    """A file that is too long is an error."""
    for host, at in both_hosts(tmp_path, {"/d/a": " 7\n", "/d/bytes": "abc\udcff", "/d/big": "7" * 11}):
        assert host.read_file(f"{at}/d/a", 10).text == "7"
        assert host.raw(f"{at}/d/bytes", 4) == "abc\udcff"
        for name, code in (("big", errno.EFBIG), ("none", errno.ENOENT)):
            with pytest.raises(HostError) as e:
                host.read_file(f"{at}/d/{name}", 10)
            assert e.value.errno == code
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(HostError) as e:
        LIVE.raw(str(tmp_path / "pipe"), 3)
    assert e.value.errno == errno.EINVAL


def test_links_are_resolved_alike_live_and_recorded(tmp_path: Path) -> None:
    links = {"/d/link": "real", "/d/dead": "gone", "/d/loop": "loop", "/up": "d/../d/link"}
    for host, at in both_hosts(tmp_path, {"/d/real": ""}, links):
        assert host.resolve(f"{at}/d/link") == host.resolve(f"{at}/up") == f"{at}/d/real"
        assert [host.resolve(f"{at}/{path}") for path in ("d/dead", "none")] == [None, None]
        with pytest.raises(HostError, match="Too many levels"):
            host.resolve(f"{at}/d/loop")
    assert [LIVE.exists(f"{tmp_path}/d/{name}") for name in ("link", "dead", "none")] == [True, False, False]


def test_a_folder_that_is_removed_while_its_path_is_resolved_does_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel appends " (deleted)" to the path of a removed file. A real name may end with the same text."""
    (tmp_path / "x (deleted)").mkdir()
    assert LIVE.resolve(f"{tmp_path}/x (deleted)") == os.path.realpath(tmp_path / "x (deleted)")
    (tmp_path / "x").mkdir()
    open_ = os.open

    def remove(path: str, flags: int) -> int:
        fd = open_(path, flags)
        os.rmdir(path)
        return fd

    monkeypatch.setattr(os, "open", remove)
    (tmp_path / "x (deleted)").rmdir()
    assert LIVE.resolve(f"{tmp_path}/x") is None


@pytest.mark.parametrize(("user", "hint"), [(0, ""), (65534, " (run as root?)")])
def test_an_unreadable_path_names_the_remedy(user: int, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(path: str, flags: int) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "open", deny)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(HostError) as e:
        LIVE.text("/srv/\x1b[2J\n")  # the kernel accepts any bytes in a path, such as those that clear a terminal
    assert str(e.value) == rf"/srv/\x1b[2J\n could not be read: Permission denied{hint}"


def test_a_recorded_error_is_reported_as_by_the_kernel() -> None:
    """The error keeps its number, because some numbers mean something, such as EINVAL for a link that is down."""
    host = RecordedHost({"files": {"/d/a": "x", "/d/gone": "x"}, "errors": {"/d/a": "EINVAL", "/d/gone": "ENXIO"}})
    assert host.text("/d/gone") is None  # ENXIO: the device has disappeared
    for ask in (host.text, host.lines, host.resolve, host.listdir):
        with pytest.raises(HostError, match="/d/a could not be read") as raised:
            ask("/d/a")
        assert raised.value.errno == errno.EINVAL


@pytest.mark.parametrize("part", ["addresses", "default_interfaces", "memory"])
def test_a_part_that_a_recording_lacks_is_unknown(part: str) -> None:
    with pytest.raises(HostError, match=f'^the recording lacks the part "{part}": record the machine again$'):
        getattr(RecordedHost({}), part)()
    with pytest.raises(HostError, match="no answer") as raised:
        getattr(RecordedHost({part: [], "unknown": {part: ["EIO", "no answer"]}}), part)()
    assert raised.value.errno == errno.EIO


def test_a_recording_may_have_some_measures_of_the_processors() -> None:
    unknown = {"processors cores": ["EIO", "no answer"]}
    host = RecordedHost({"processors": {"threads": 4, "sockets": None}, "unknown": unknown})
    assert (host.processors("threads"), host.processors("sockets")) == (4, None)
    for measure, reason in (("cores", "no answer"), ("max_frequency", 'does not contain "processors max_frequency"')):
        with pytest.raises(HostError, match=reason):
            host.processors(measure)


def test_without_sysfs_devices_are_unknown() -> None:
    with pytest.raises(HostError, match="/sys/bus/usb/devices does not exist"):
        RecordedHost({}).listdir("/sys/bus/usb/devices")
    assert list(machine().listdir("/sys/bus/usb/devices")) == []  # a sysfs without USB


def test_only_a_whole_number_is_read_as_a_number() -> None:
    host = RecordedHost({"files": {"/a": "12\n", "/b": "-1", "/c": "", "/d": "9" * 21, "/e": "²"}})
    assert read_int(host, "/a") == 12
    assert read_int(host, "/none") is None
    for path in ("/b", "/c", "/d", "/e"):
        with pytest.raises(HostError, match="not a whole number"):
            read_int(host, path)


def test_a_machine_has_an_id_a_uuid_an_architecture_and_a_host_name() -> None:
    uuid = "/sys/class/dmi/id/product_uuid"
    host = RecordedHost({"files": {"/etc/machine-id": "abc\n", uuid: "4c4c-00\n"}, "arch": "riscv64", "hostname": "n1"})
    assert (machine_id(host), system_uuid(host), host.arch(), host.hostname()) == ("abc", "4c4c-00", "riscv64", "n1")
    assert (machine_id(RecordedHost({})), system_uuid(RecordedHost({}))) == ("", "")
    assert system_uuid(RecordedHost({"errors": {uuid: "EACCES"}})) == "", "only root may read it"
    assert (LIVE.arch(), LIVE.hostname()) == (os.uname().machine, os.uname().nodename)


def test_in_an_incomplete_list_only_the_listed_disks_are_certain() -> None:
    assert SystemDevices(frozenset({"sda"})).has("sda")
    assert not SystemDevices(frozenset({"sda"})).has("sdb")
    assert SystemDevices(frozenset({"sda"}), "zfs").has("sda")
    with pytest.raises(HostError, match="zfs"):
        SystemDevices(frozenset({"sda"}), "zfs").has("sdb")
