"""What the unit's sandbox hides, according to systemd, and what messages advise. tests/package tries the advice."""

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
ProtectHome=tmpfs
BindPaths=
BindReadOnlyPaths=-/home:/home:rbind
"""


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A systemctl that prints this file. The process counts as sandboxed."""
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\ncat {tmp_path}/unit\n")
    (tmp_path / "systemctl").chmod(0o755)
    (tmp_path / "unit").write_text(SHIPPED)
    (tmp_path / "status").write_text("Seccomp:\t0\nNoNewPrivs:\t1\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(sandbox, "_STATUS", str(tmp_path / "status"))
    return tmp_path / "unit"


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("/tmp/x/seats", "/tmp"),
        ("/var/tmp/seats", "/var/tmp"),
        ("/root/bin/count", "/root"),
        ("/run/user/0/seats", "/run/user"),
        ("/dev/nvidia-none", "/dev"),
        ("/dev/shm/seats", ""),
        ("/dev/null", ""),
        ("/home/bob/seats", ""),
        ("/rootfs/seats", ""),
        ("/tmpfs", ""),
        ("/run/seats", ""),
    ],
)
def test_the_shipped_unit_hides_what_it_should(unit: Path, path: str, hidden: str) -> None:
    assert service_sandbox().hiding(path) == hidden
    assert bool(sandbox_advice([path])) is bool(hidden)


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
def test_drop_ins_count(unit: Path, line: str, visible: bool) -> None:
    name = line.partition("=")[0]
    unit.write_text("".join(f"{old}\n" for old in SHIPPED.splitlines() if not old.startswith(f"{name}=")) + line)
    assert (service_sandbox().hiding("/tmp/x/seats") == "") is visible


def test_the_advice_names_the_setting_and_the_folder_behind_a_link(unit: Path, tmp_path: Path) -> None:
    """It names the folder behind a link, because a bind mount of a link's folder would not show the file."""
    assert sandbox_advice(["/root/bin/count"]) == (
        " (the service's sandbox hides /root (ProtectHome=tmpfs), so /root/bin/count works only outside of the service"
        ': move the file to another folder, or run `systemctl edit capacityd`, add the lines "[Service]" and '
        '"BindReadOnlyPaths=/root/bin", and restart the service)'
    )
    (tmp_path / "link").symlink_to("/root/elsewhere/seats")
    assert "BindReadOnlyPaths=/root/elsewhere" in sandbox_advice([str(tmp_path / "link")])
    assert "BindReadOnlyPaths=/root/x" in sandbox_advice(
        ["/usr/bin/python3", "-I", "/root/x/count.py"], program_failed=True
    )
    assert r'"BindReadOnlyPaths=/root/a\ b\"\'%%h", and' in sandbox_advice(["/root/a b\"'%h/count"])
    assert "ReadWritePaths=FOLDER" in sandbox_advice(["/usr/bin/count"], program_failed=True)
    assert "MemoryDenyWriteExecute=no" in sandbox_advice(["/usr/bin/count"], program_failed=True)
    assert "use a path in /sys instead, or run" in sandbox_advice(["/dev/nvidia-none"])
    assert '"PrivateDevices=no", and restart' in sandbox_advice(["/dev/nvidia-none"])
    assert sandbox_advice(["/srv/seats"]) == ""


def test_no_drop_in_for_a_program_that_would_not_run_even_then(unit: Path) -> None:
    """In /tmp everybody may create files beside it. A file that is only read is another matter."""
    advice = sandbox_advice(["/tmp/count"], program_failed=True)
    assert advice.endswith("of the service: move the file to another folder)")
    assert '"BindReadOnlyPaths=/tmp"' in sandbox_advice(["/tmp/seats"])
    assert '"BindReadOnlyPaths=/tmp/own"' in sandbox_advice(["/tmp/own/count"], program_failed=True)


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/dev/nvidia-none", Unknown), ("/tmp/x/role", Unknown), ("/srv/role", Absent), ("/dev/null", Quantity)],
)
def test_a_path_of_when_that_the_sandbox_hides_is_unknown(unit: Path, path: str, kind: type) -> None:
    test = KeyMatcher("path", (GlobMatcher(path),), path)
    licences = Resource("example.com/x", "static", (Table(settings={"quantity": 3}),), when=(test,))
    reading = read_resource(licences, LiveHost(), "n1")
    assert isinstance(reading, kind), reading
    if isinstance(reading, Unknown):
        assert f"{path} may exist (the service's sandbox hides" in reading.reason


def test_outside_of_the_sandbox_there_is_no_advice(unit: Path, tmp_path: Path) -> None:
    (tmp_path / "status").write_text("NoNewPrivs:\t0\n")
    assert not is_sandboxed()
    assert sandbox_advice(["/root/bin/count"], program_failed=True) == ""


def test_without_systemd_nothing_is_hidden(unit: Path, tmp_path: Path) -> None:
    (tmp_path / "systemctl").write_text("#!/bin/sh\nexit 1\n")
    assert not service_sandbox().hidden


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_a_file_that_root_without_capabilities_may_not_read_has_advice(unit: Path, tmp_path: Path) -> None:
    """In a shell, root reads it."""
    unit.write_text("PrivateTmp=no\n")
    (tmp_path / "seats").write_text("1")
    (tmp_path / "seats").chmod(0o600)
    os.chown(tmp_path / "seats", 12345, 12345)
    assert sandbox_advice([str(tmp_path / "seats")]).endswith(f": chown root {tmp_path}/seats)")
    command = ["/usr/bin/cat", str(tmp_path / "seats")]
    assert sandbox_advice(command, program_failed=True).endswith(f": chown root {tmp_path}/seats)")
