"""The command `record`: its file, its errors and its messages. The recording gives the same readings as the machine."""

from __future__ import annotations

import gzip
import json
import os
import stat
import threading
from fnmatch import filter as matching
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.cli import run
from capacityd.config.keys import UNSAFE_ATTRIBUTES
from capacityd.detectors.udev import find_in_subsystems
from capacityd.host import time_limit
from capacityd.host.live import LiveHost
from capacityd.host.recording.contents import ATTRIBUTES, keeps_file
from capacityd.host.recording.recorder import Recorder
from capacityd.host.recording.replay import RecordedHost, load
from capacityd.model.errors import HostError
from capacityd.model.host import Host
from tests.support.machines import bare, merge, usb_device
from tests.support.tour import MACHINE


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(arguments) == 0
    return capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/sys/devices"), reason="needs a sysfs")
def test_no_path_that_exists_is_missing_on_the_recording() -> None:
    """On a recording, a path that was not recorded is unknown (None). A name that a recorded folder lacks is absent."""

    def paths() -> set[str]:
        walked = [*os.walk("/sys"), *os.walk("/dev")]
        return {f"{folder}/{name}" for folder, folders, files in walked for name in (*folders, *files)}

    before = paths()
    replay = RecordedHost(Recorder(LiveHost()).run())
    existence = {path: _exists(replay, path) for path in sorted(before & paths()) if os.path.exists(path)}
    assert [path for path, exists in existence.items() if exists is False] == []
    assert sum(map(bool, existence.values())) > 100
    assert {_exists(replay, path) for path in ("/etc/passwd", "/run/none", "/sys/module/none", "/none")} == {None}
    absent = ("/sys/class/none", "/sys/bus/pci/none", "/sys/class/net/lo/none")
    assert {_exists(replay, path) for path in absent} == {False}


def _exists(host: Host, path: str) -> bool | None:
    try:
        return host.exists(path)
    except HostError:
        return None


def test_a_recorded_machine_can_be_recorded_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second recording keeps the replacements of the first one."""
    first, once, twice, kept = (str(tmp_path / f"{name}.json.gz") for name in ("first", "once", "twice", "kept"))
    Path(first).write_text(json.dumps(merge(bare(), usb_device(serial="SN-4711-0815"))))
    output_of(capsys, "record", once, "--machine", first)
    output_of(capsys, "record", twice, "--machine", once)
    output_of(capsys, "record", kept, "--machine", first, "--keep-serials")
    assert Path(once).read_bytes() == Path(twice).read_bytes()
    assert Path(once).read_bytes()[4:8] == bytes(4), "gzip's timestamp is 0, so equal recordings are equal files"
    assert b"SN-4711-0815" not in gzip.decompress(Path(once).read_bytes())
    serials = [load(path).text("/sys/bus/usb/devices/1-1/serial") for path in (kept, once)]
    assert (serials[0], str(serials[1])[:3]) == ("SN-4711-0815", "id-")


HOSTILE = st.binary(max_size=60).map(lambda raw: raw.replace(b"\0", b"").decode("utf-8", "surrogateescape"))


@given(HOSTILE, HOSTILE, HOSTILE)
def test_any_text_of_a_device_is_replayed_as_it_is_read(serial: str, model: str, name: str) -> None:
    """The recorded text equals the text that the machine gives."""
    path = "/sys/bus/usb/devices/1-1"
    before = RecordedHost(merge(bare(), usb_device(serial=serial, model=model, properties={"ID_X": name})))
    recording = json.loads(json.dumps(Recorder(before).run(), sort_keys=True))
    after = RecordedHost(recording)
    for ask in (
        lambda host: host.text(f"{path}/serial"),
        lambda host: host.text(f"{path}/product"),
        lambda host: host.lines(f"{path}/product"),
        lambda host: host.properties(path),
    ):
        assert ask(after) == ask(before)
    assert Recorder(RecordedHost(recording)).run() == recording


@given(st.binary(max_size=200))
def test_the_bytes_of_a_file_are_recorded_as_they_are(content: bytes) -> None:
    with open(os.memfd_create("attribute"), "wb") as f:
        f.write(content)
        f.flush()
        path = f"/proc/self/fd/{f.fileno()}"
        text = LiveHost().raw(path, 8192)
        assert text.encode("utf-8", "surrogateescape") == content
        replay = RecordedHost({"files": {path: text}})
        assert (replay.text(path), replay.lines(path)) == (LiveHost().text(path), LiveHost().lines(path))


AT = "/sys/devices/pci0000:00/0000:00:1f.0"


def pci(attributes: dict[str, str], **parts: dict[str, str]) -> dict[str, object]:
    """A machine with one PCI function that has these attributes."""
    links = {"/sys/bus/pci/devices/0000:00:1f.0": AT, f"{AT}/subsystem": "/sys/bus/pci"}
    return merge(parts, {"files": {f"{AT}/{name}": text for name, text in attributes.items()}, "links": links})


def test_a_file_that_is_left_out_is_unknown_and_not_absent() -> None:
    left_out = ("config", "rom", "vpd", "resource0", "power/control", "key", "queues")  # but queue/ is kept
    errors = {f"{AT}/speed": "EINVAL", f"{AT}/model": "EACCES"}
    links = {"driver": "../../../bus/pci/drivers/i40e", "dead": "../nowhere", "of": "../../../firmware/node"}
    others = {"/sys/bus/pci/drivers/i40e/uevent": "", "/sys/firmware/node/name": "n"}
    attributes = dict.fromkeys(("vendor", "uevent", "speed", "model", "queue/rotational", *left_out), "x")
    made = merge(
        pci(attributes, errors=errors),
        {"links": {f"{AT}/{name}": target for name, target in links.items()}, "files": others},
    )
    before = RecordedHost(made)
    recording = Recorder(before).run()
    host = RecordedHost(recording)
    assert (host.text(f"{AT}/vendor"), host.text(f"{AT}/none")) == ("x", None)
    for name in left_out:
        with pytest.raises(HostError, match=f"{name} is not part of the recording"):
            host.text(f"{AT}/{name}")
    with pytest.raises(HostError, match="power is not part of the recording"):
        host.listdir(f"{AT}/power")
    assert host.listdir(AT) == before.listdir(AT)
    assert host.resolve(f"{AT}/rom") == f"{AT}/rom"
    assert host.resolve(f"{AT}/rom/below") is None
    for name in links:
        assert host.resolve(f"{AT}/{name}") == before.resolve(f"{AT}/{name}")
    for path in ("/sys/bus/pci/drivers/nvme", f"{AT}/driver/bind", f"{AT}/of/name"):
        with pytest.raises(HostError, match="not part of the recording"):
            host.resolve(path)
    assert recording["errors"] == errors


def test_a_folder_of_a_device_that_has_gone_is_empty() -> None:
    assert RecordedHost({"folders": ["/sys/devices", AT], "errors": {AT: "ENODEV"}}).listdir(AT) == []


def test_a_file_among_devices_and_a_device_named_like_a_left_out_folder() -> None:
    """/sys/class/drm/version is a file. The device has the name of a folder that is left out elsewhere."""
    misc = "/sys/devices/virtual/misc/microcode"
    files = {"/sys/class/drm/version": "drm 1.1", f"{misc}/uevent": "", f"{misc}/power/control": "auto"}
    links = {"/sys/class/misc/microcode": misc, f"{misc}/subsystem": "/sys/class/misc"}
    host = RecordedHost(Recorder(RecordedHost({"files": files, "links": links})).run())
    assert [*find_in_subsystems(host, ["drm"])] == []
    assert [device.name for device in find_in_subsystems(host, ["misc"])] == ["microcode"]


def test_passwords_and_files_whose_reading_accesses_hardware_are_not_recorded() -> None:
    for name in ("config", "rom", "vpd", "resource", "resource0_wc", "vpd_pg80", "edid", "temp1_input", "pcr-sha256"):
        assert not keeps_file(f"{AT}/{name}")
    for name in ("password", "password_in", "dhchap_secret", "dhchap_ctrl_secret", "config_info", "key", "remove"):
        assert not keeps_file(f"{AT}/{name}")
    assert keeps_file(f"{AT}/input/input3/capabilities/key")
    assert not [name for pattern in UNSAFE_ATTRIBUTES for name in matching(ATTRIBUTES, pattern)]


def test_the_links_and_units_that_lead_to_the_systems_disks_are_recorded() -> None:
    """A recording contains the links in /dev that mounts name, and automount units, but no private mount options."""
    mounts = "29 1 0:25 / / rw - btrfs /dev/disk/by-label/r\\040t rw,space_cache,subvol=/@secret\n"
    unit = "/run/systemd/generator.late/efi.automount"
    files = {"/proc/self/mountinfo": mounts, "/dev/sda2": "", "/sys/devices/x/uevent": "", unit: "[Automount]\n"}
    recording = Recorder(RecordedHost({"files": files, "links": {"/dev/disk/by-label/r t": "../../sda2"}})).run()
    assert RecordedHost(recording).resolve("/dev/disk/by-label/r t") == "/dev/sda2"
    assert RecordedHost(recording).exists(unit)
    assert "secret" not in recording["files"]["/proc/self/mountinfo"]


def test_only_file_systems_that_a_path_leads_to_are_measured() -> None:
    table = "".join(f"{n} {n - 1} 0:{n} / /dev/shm rw - tmpfs {n} rw\n" for n in (30, 31, 32))  # one over the other
    host = MagicMock(
        wraps=RecordedHost({"files": {"/proc/self/mountinfo": table}, "filesystem_sizes": {"/dev/shm": 7}})
    )
    assert RecordedHost(Recorder(host).run()).filesystem_size("/dev/shm", {"32"}) == 7
    host.filesystem_size.assert_called_once_with("/dev/shm", {"32"})


class Hanging(RecordedHost):
    """A machine on which a read of the attribute "speed" hangs."""

    def raw(self, path: str, limit: int) -> str:
        if path.endswith("/speed"):
            threading.Event().wait()
        return super().raw(path, limit)


def test_an_attribute_that_hangs_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "TIMEOUT", 0.3)
    recording = Recorder(Hanging(pci({"size": "3", "speed": "1", "vendor": "2"}))).run()
    assert recording["files"] == {f"{AT}/size": "3", f"{AT}/vendor": "2"}
    assert recording["errors"] == {f"{AT}/speed": "ETIMEDOUT"}


def test_an_existing_file_is_kept_without_the_option_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --force, the replaced file gets the permissions of a new file."""
    path = tmp_path / "m.json"
    path.write_text("precious")
    assert run(["record", str(path), "--machine", str(MACHINE)]) == 2
    assert f"{path} exists; choose another name, or replace it with --force" in capsys.readouterr().err
    assert path.read_text() == "precious"
    before = os.umask(0o026)
    try:
        assert run(["record", str(path), "--machine", str(MACHINE), "--force"]) == 0
    finally:
        os.umask(before)
    assert load(str(path)).hostname().startswith("host-")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640
    for wrong_path, error in (
        ("none/m.json", "could not be written"),
        (".", "is not a regular file; - is standard output"),
    ):
        assert run(["record", str(tmp_path / wrong_path), "--machine", str(MACHINE), "--force"]) == 2
        assert error in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["m.json"]


def test_a_recording_can_be_written_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(output_of(capsys, "record", "-", "--machine", str(MACHINE)))["redacted"]


def test_the_report_names_the_file_and_warns_of_kept_serial_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report also counts devices that udev does not know, as in a container."""
    first, path = str(tmp_path / "first.json"), str(tmp_path / "m.json.gz")
    Path(first).write_text(json.dumps({**merge(bare(), usb_device("1-1"), usb_device("1-2")), "properties": {}}))
    assert run(["record", path, "--machine", first]) == 0
    assert capsys.readouterr().err.endswith(f" files, 4 devices, {os.path.getsize(path)} bytes\n")  # two are interfaces
    assert run(["record", path, "--machine", first, "--force", "--keep-serials"]) == 0
    assert "it contains serial numbers, addresses and names" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty: did the command fail"),
        (b"{", "is not JSON"),
        (b"\xff{}", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),  # too deep for the parser
        (b'{"x": 1}', "is not a recording; `capacityd record FILE` writes one"),
        (b"{}", "contains no recorded machine; write one with `capacityd record FILE`"),
        (gzip.compress(b"{}", mtime=0)[:-9], "is truncated"),
        (gzip.compress(b"{}" * 100, mtime=0)[:10] + b"\xff" * 20, "could not be read"),
        *(
            (json.dumps({part: value}).encode(), f'its part "{part}" is not valid')
            for part, value in {
                "files": {"/a": 1},
                "errors": {"/a": "ENONSENSE"},
                "left_out": {"/a": "b"},
                "properties": {"/a": "x"},
                "link_modes": {"eth0": [1]},
                "default_interfaces": "eth0",
                "addresses": [["eth0", "ipv4", "192.0.2.7", "24", "global", False]],
                "memory": {"size": 1},
                "ages": {"/a": "1"},
                "programs": {"[]": [0, "x"]},
                "unknown": {"x": "y"},
                "arch": 64,
                "redacted": 1,
            }.items()
        ),
    ],
)
def test_a_file_that_is_not_a_recording_is_an_error(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(content)
    assert run(["devices", "--machine", str(path)]) == 2
    assert message in capsys.readouterr().err
