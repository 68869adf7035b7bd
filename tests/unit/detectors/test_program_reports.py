"""Programs and files that people reported to similar tools. tests/reports.md lists the reports."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from capacityd.linux.program_start import why_not_executable, why_not_started
from tests.support.forked import forked, run_alone
from tests.support.reachable import make_reachable
from tests.unit.detectors.test_exec import error, read, script

BINARY = Path("/bin/true").read_bytes()
NO_LOADER = BINARY.replace(b"/lib64/ld-", b"/lib64/xx-").replace(b"/lib/ld-", b"/lib/xx-")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"echo 4\n", 'it does not begin with "#!" and an interpreter'),
        (b"#/bin/bash\necho 4\n", 'it does not begin with "#!" and an interpreter'),
        (b"!#/bin/sh\necho 4\n", 'it does not begin with "#!" and an interpreter'),
        (b"\n#!/bin/sh\necho 4\n", 'it does not begin with "#!" and an interpreter'),
        (b"\xef\xbb\xbf#!/bin/sh\necho 4\n", "it begins with a byte order mark"),
        (b"#!/" + b"x" * 254 + b"\necho 4\n", "its first line is too long: the kernel reads 256 bytes of it"),
        (b"\xcf\xfa\xed\xfe\x0c\0\0\1\0\0\0\0", "it is neither a text nor a binary of Linux"),
        (b"", "it is empty"),
        (BINARY[:18] + b"\xff\xfe" + BINARY[20:], "it is a binary for another architecture than"),  # e_machine
        (NO_LOADER, "the dynamic loader that it needs does not exist"),
    ],
    ids=["no #!", "no !", "exchanged", "empty line first", "BOM", "long", "Mach-O", "empty", "architecture", "loader"],
)
def test_a_reported_program_that_does_not_start(tmp_path: Path, content: bytes, reason: str) -> None:
    program = tmp_path / "program"
    program.write_bytes(content)
    program.chmod(0o755)
    assert f"{program} could not be started: {reason}" in error(str(program))


def test_an_unreadable_program_is_not_called_empty(tmp_path: Path) -> None:
    assert why_not_started(str(tmp_path / "absent"), errno.ENOEXEC) == ""


def test_a_program_gets_neither_home_nor_locale(tmp_path: Path) -> None:
    """A login shell would set both."""
    names = 'env -u PWD -u SHLVL -u _ | cut -d= -f1 | sort | tr "\\n" " "'
    assert read(script(tmp_path, f'{names} | grep -qx "LANG PATH " && echo 4')).amount == 4


def test_a_program_that_is_being_replaced_is_busy(tmp_path: Path) -> None:
    program = tmp_path / "count"
    program.write_bytes(BINARY)
    program.chmod(0o755)
    with program.open("ab"):
        assert f"{program} could not be started: Text file busy" in error(str(program))


def test_an_output_with_the_line_ends_of_windows_is_a_number(tmp_path: Path) -> None:
    assert read(script(tmp_path, "printf '12\\r\\n'")).amount == 12


def test_a_space_before_the_interpreter_is_allowed(tmp_path: Path) -> None:
    program = Path(script(tmp_path, "printf 4"))
    program.write_text(program.read_text().replace("#!", "#! "))
    assert read(str(program)).amount == 4


def test_a_shell_command_in_one_string_has_advice(tmp_path: Path) -> None:
    assert "write each argument as a string of its own" in error("/usr/bin/head -1 /etc/hostname | wc -l")
    assert "string" not in error(str(tmp_path / "missing"))


ON_NOEXEC = """
import os, sys
from capacityd.host.live import LiveHost
from capacityd.model.errors import HostError
for mode in (0o755, 0o644):
    with open("/mnt/count", "w") as f:
        f.write("#!/bin/sh\\necho 4\\n")
    os.chmod("/mnt/count", mode)
    for command in (["/mnt/count"], ["/bin/sh", "/mnt/count"]):
        try:
            print(LiveHost().run(command, 20).out)
        except HostError as e:
            print(e)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="runs as another user")
@pytest.mark.other_user
def test_a_program_that_this_user_may_not_execute_has_its_owner_and_mode_in_the_error(tmp_path: Path) -> None:
    program = Path(script(tmp_path, "echo 4", 0o700))
    make_reachable(tmp_path)

    def why() -> str:
        os.setuid(12345)
        return why_not_executable(str(program))

    assert forked(why).startswith("may not be executed by this user (owner root, mode 0700, and SELinux")


@pytest.mark.skipif(os.geteuid() != 0, reason="a namespace of another user knows no other uids")
def test_a_program_on_a_file_system_with_noexec_has_advice_that_helps() -> None:
    shown = run_alone("mount -t tmpfs -o noexec,mode=755 none /mnt", ON_NOEXEC).splitlines()
    assert shown[0].startswith("/mnt/count is on a file system that is mounted with noexec: move it")
    assert shown[0].endswith('["/bin/sh", "/mnt/count"]')
    assert shown[1:] == ["4", "/mnt/count is not executable (chmod +x /mnt/count)", "4"]
