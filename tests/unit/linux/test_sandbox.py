"""What the unit's sandbox hides, according to systemd. tests/package tries the page that the message names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from capacityd.discovery.reader import read_resource
from capacityd.host.live import LiveHost
from capacityd.linux import sandbox
from capacityd.linux.sandbox import is_sandboxed, sandbox_advice, service_sandbox
from capacityd.model.reading import Absent, Quantity, Unknown
from capacityd.schema.config import Resource, Table
from capacityd.schema.matchers import GlobMatcher, KeyMatcher

SHIPPED = """\
PrivateDevices=yes
PrivateTmp=yes
ProtectHome=no
InaccessiblePaths=
TemporaryFileSystem=/root:ro
BindPaths=
BindReadOnlyPaths=
"""


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A systemctl that prints this file. The process counts as sandboxed."""
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\ncat {tmp_path}/unit\n")
    (tmp_path / "systemctl").chmod(0o755)
    (tmp_path / "unit").write_text(SHIPPED)
    (tmp_path / "status").write_text("Seccomp:\t0\nNoNewPrivs:\t1\n")  # as /proc/self/status
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(sandbox, "_STATUS", str(tmp_path / "status"))
    return tmp_path / "unit"


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("/tmp/x/seats", True),
        ("/var/tmp/seats", True),
        ("/root/bin/count", True),
        ("/dev/nvidia-none", True),
        ("/run/user/seats", False),
        ("/dev/shm/seats", False),
        ("/dev/null", False),
        ("/home/bob/seats", False),
        ("/rootfs/seats", False),
        ("/tmpfs", False),
        ("/run/seats", False),
    ],
)
def test_the_shipped_unit_hides_what_it_should(unit: Path, path: str, hidden: bool) -> None:
    assert service_sandbox().hides(path) is hidden
    page = "/usr/share/doc/capacityd/docs/files-and-programs.md"
    message = f" (the sandbox of capacityd.service hides {path}: {page} says how to show it)"
    assert sandbox_advice([path]) == (message if hidden else "")


@pytest.mark.parametrize(
    ("line", "visible"),
    [
        ("BindReadOnlyPaths=-/home:/home:rbind /tmp/x:/tmp/x:rbind", True),
        ("BindPaths=/srv/x:/tmp/x:norbind", True),
        ("BindPaths=/tmp/x:/srv/x:rbind", False),
        ("BindPaths=/tmp/x/y", False),
        ("PrivateTmp=no", True),
        ("PrivateTmp=disconnected", False),
    ],
)
def test_the_settings_of_drop_ins_count(unit: Path, line: str, visible: bool) -> None:
    name = line.partition("=")[0]
    unit.write_text("".join(f"{old}\n" for old in SHIPPED.splitlines() if not old.startswith(f"{name}=")) + line)
    assert service_sandbox().hides("/tmp/x/seats") is not visible


def test_the_folder_behind_a_link_counts_and_each_path_of_a_command(unit: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/root/elsewhere/seats")
    assert f"hides {tmp_path}/link" in sandbox_advice([str(tmp_path / "link")])
    command = ["/usr/bin/python3", "-I", "/root/x/count.py"]
    assert "hides /root/x/count.py" in sandbox_advice(command, program_failed=True)
    assert "it ran in the sandbox" in sandbox_advice(["/usr/bin/count"], program_failed=True)
    assert sandbox_advice(["/srv/seats"]) == ""


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/dev/nvidia-none", Unknown), ("/tmp/x/role", Unknown), ("/srv/role", Absent), ("/dev/null", Quantity)],
)
def test_a_path_of_when_that_the_sandbox_hides_is_unknown(unit: Path, path: str, kind: type) -> None:
    condition = KeyMatcher("path", (GlobMatcher(path),), path)
    resource = Resource("example.com/x", "static", (Table(settings={"quantity": 3}),), when=(condition,))
    reading = read_resource(resource, LiveHost(), "n1")
    assert isinstance(reading, kind), reading
    if isinstance(reading, Unknown):
        assert f"{path} may exist (the sandbox of capacityd.service hides" in reading.reason


def test_outside_of_the_sandbox_there_is_no_advice(unit: Path, tmp_path: Path) -> None:
    (tmp_path / "status").write_text("NoNewPrivs:\t0\n")
    assert not is_sandboxed()
    assert sandbox_advice(["/root/bin/count"], program_failed=True) == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_a_file_that_root_without_capabilities_may_not_read_is_hidden(unit: Path, tmp_path: Path) -> None:
    """Root can read the file in a shell, where it has all capabilities."""
    unit.write_text("PrivateTmp=no\n")
    (tmp_path / "seats").write_text("1")
    (tmp_path / "seats").chmod(0o600)
    os.chown(tmp_path / "seats", 12345, 12345)
    assert f"hides {tmp_path}/seats" in sandbox_advice([str(tmp_path / "seats")])
    assert f"hides {tmp_path}/seats" in sandbox_advice(["/bin/cat", str(tmp_path / "seats")], program_failed=True)
    unit.write_text("PrivateTmp=no\nCapabilityBoundingSet=cap_dac_read_search\n")
    assert sandbox_advice([str(tmp_path / "seats")]) == ""
