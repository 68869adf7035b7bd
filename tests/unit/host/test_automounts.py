"""The names of automounts, and what they mount."""

from __future__ import annotations

import pytest

from capacityd.host.automounts import Automount, automount, unit_name
from capacityd.host.recording.contents import unit_without_options
from capacityd.host.recording.recorder import Recorder
from capacityd.host.recording.replay import RecordedHost
from tests.support.machines import files, machine

UNIT = "[Mount]\nWhat=/dev/sdb1\nWhere=/srv/data\nType={}\nOptions=rw\n"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/", "-"),
        ("/efi", "efi"),
        ("/srv/data/", "srv-data"),
        ("/srv/my-data", r"srv-my\x2ddata"),
        ("/.snapshots/.a", r"\x2esnapshots-.a"),
        ("/srv/a b", r"srv-a\x20b"),
        ("/srv/caf\u00e9", r"srv-caf\xc3\xa9"),
        ("/srv/caf\udce9", r"srv-caf\xe9"),
    ],
)
def test_the_name_of_a_unit_is_escaped_like_systemds(path: str, name: str) -> None:
    """`systemd-escape --path` prints the same names."""
    assert unit_name(path) == name


@pytest.mark.parametrize("folder", ["/etc/systemd/system", "/run/systemd/generator", "/usr/lib/systemd/system"])
@pytest.mark.parametrize(("written", "type_"), [("xfs", "xfs"), ("auto", ""), ("nfs4", "nfs4")])
def test_a_unit_says_what_an_automount_mounts(folder: str, written: str, type_: str) -> None:
    host = machine(files({f"{folder}/srv-data.mount": UNIT.format(written)}))
    assert automount(host, "/srv/data", "systemd-1") == Automount("srv-data.automount", type_, "/dev/sdb1")


@pytest.mark.parametrize(
    "text",
    [
        " [Mount]\n  What = /dev/sdb1 \n\tType= xfs\n",
        "[Mount]\n#What=/dev/sda\n; Type=ext4\nWhat=\\\n# and\n  /dev/sdb1\nType=xfs",
        "[Mount]\nWhat=/dev/sda\nWhat=/dev/sdb1\nType=xfs\n[Install]\nType=ext4\nWhat=/dev/sda\n",
        "[Mount]\nType=xfs\nWhat=/dev/sdb1\\\n",
    ],
)
def test_every_form_of_a_unit_that_systemd_reads_is_read(text: str) -> None:
    """systemd.syntax(7) describes the forms. The recording of the unit gives the same result."""
    mountinfo = "5 1 0:9 / /srv/data rw - autofs systemd-1 rw,fd=3,direct\n"
    unit = {"/etc/systemd/system/srv-data.mount": text, "/proc/self/mountinfo": mountinfo, "/dev/sdb1": ""}
    host = machine(files(unit))
    expected = Automount("srv-data.automount", "xfs", "/dev/sdb1")
    assert automount(host, "/srv/data", "systemd-1") == expected
    recording = Recorder(host).run()
    assert automount(RecordedHost(recording), "/srv/data", "systemd-1") == expected
    assert RecordedHost(recording).exists("/dev/sdb1")


def test_a_share_is_not_recorded() -> None:
    for source in ("What = user:secret@host:/x", "What=/dev/sda\nWhat=//secret"):
        assert unit_without_options(f"[Mount]\n{source}\nWhere=/x\n") == "[Mount]\nWhere=/x\n"


def test_a_map_of_autofs_or_a_missing_unit_does_not_say_what_is_mounted() -> None:
    host = machine(files({"/etc/systemd/system/srv-data.mount": UNIT.format("xfs")}))
    assert automount(host, "/srv/data", "/etc/auto.direct") == Automount("/etc/auto.direct", "", "")
    assert automount(machine(), "/srv/data", "systemd-1") == Automount("srv-data.automount", "", "")
