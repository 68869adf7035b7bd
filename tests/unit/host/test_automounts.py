"""The names of automounts, and what they mount."""

from __future__ import annotations

import pytest

from capacityd.host.automounts import Automount, automount, unit_name
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
def test_unit_names(path: str, name: str) -> None:
    """As systemd-escape --path prints them."""
    assert unit_name(path) == name


@pytest.mark.parametrize("folder", ["/etc/systemd/system", "/run/systemd/generator", "/usr/lib/systemd/system"])
@pytest.mark.parametrize(("written", "type_"), [("xfs", "xfs"), ("auto", ""), ("nfs4", "nfs4")])
def test_a_unit_says_what_an_automount_mounts(folder: str, written: str, type_: str) -> None:
    host = machine(files({f"{folder}/srv-data.mount": UNIT.format(written)}))
    assert automount(host, "/srv/data", "systemd-1") == Automount("srv-data.automount", type_, "/dev/sdb1")


def test_a_map_of_autofs_says_nothing() -> None:
    host = machine(files({"/etc/systemd/system/srv-data.mount": UNIT.format("xfs")}))
    assert automount(host, "/srv/data", "/etc/auto.direct") == Automount("/etc/auto.direct", "", "")
    assert automount(machine(), "/srv/data", "systemd-1") == Automount("srv-data.automount", "", "")
