"""Programs of the administrator: whatever one does, it costs at most its own resource, and nothing of it is left."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from capacityd.detectors import load
from capacityd.errors import HostError
from capacityd.host.live import LiveHost
from capacityd.host.recorded import RecordedHost
from capacityd.model import Evidence, ValueDetector
from tests.unit.forked import forked, has_children, open_files, still_alive

DETECTOR = load("exec")
assert isinstance(DETECTOR, ValueDetector)


def script(folder: Path, text: str, mode: int = 0o755) -> str:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return str(path)


def read(*command: str, timeout: float = 20.0) -> Evidence:
    """The reading, in a process of its own that must have no child and nothing more open afterwards than before."""
    detector = DETECTOR
    assert isinstance(detector, ValueDetector)

    def reading() -> Evidence | HostError:
        before = open_files()
        try:
            found: Evidence | HostError = detector.read(LiveHost(), {"command": command, "timeout": timeout})
        except HostError as e:
            found = HostError(str(e))
        assert not has_children()
        assert open_files() == before
        return found

    found = forked(reading)
    if isinstance(found, HostError):
        raise found
    return found


def why(*command: str, timeout: float = 20.0) -> str:
    with pytest.raises(HostError) as raised:
        read(*command, timeout=timeout)
    return str(raised.value)


def test_the_number_that_it_prints_and_what_it_says(tmp_path: Path) -> None:
    program = script(tmp_path, 'echo "  $1"; echo "2 of 3 licences are valid" >&2')
    assert read(program, "7") == Evidence(f"{program} 7", 7, "2 of 3 licences are valid")


def test_no_shell_reads_the_arguments(tmp_path: Path) -> None:
    program = script(tmp_path, "[ \"$1\" = '; echo 9 $(id)' ] && echo 4")
    assert read(program, "; echo 9 $(id)").contributes == 4


def test_it_has_a_small_environment_and_no_input(tmp_path: Path) -> None:
    os.environ["SECRET_TOKEN"] = "x"
    try:
        program = script(tmp_path, 'read -r line && exit 9; env | grep -q SECRET && exit 8; [ "$(pwd)" = / ] && echo 1')
        assert read(program).contributes == 1
    finally:
        del os.environ["SECRET_TOKEN"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "nothing where a whole number was expected"),
        ("echo many", '"many" is not a whole number'),
        ("echo -3", '"-3" is not a whole number'),
        ("echo 2.5", '"2.5" is not a whole number'),
        ("echo 1e3", "not a whole number"),
        ("echo 1 2", "not a whole number"),
        ("echo 1; echo 2", r"1\n2"),
        ("printf '\\303\\050\\033[2J'", r"\xc3(\x1b[2J"),
        ("echo 99999999999999999999", "more than Kubernetes can count"),
        ("echo ٣", "not a whole number"),
        ("echo 5; exit 3", "ended with status 3 and said nothing"),
        ("echo 5; echo 'no such licence' >&2; exit 3", 'ended with status 3: "no such licence"'),
        ("kill -KILL $$", "was killed by signal 9 (out of memory?)"),
        ("kill -SEGV $$", "was killed by signal 11"),
        ("exec head -c 1073741824 /dev/zero", "said more than 65536 bytes"),
        ("exec head -c 1073741824 /dev/zero >&2", "said more than 65536 bytes"),
    ],
)
def test_what_is_no_number_is_unknown(tmp_path: Path, text: str, reason: str) -> None:
    assert reason in why(script(tmp_path, text))


def test_a_program_that_is_not_there() -> None:
    assert "No such file" in why("/nonexistent/program")


def test_a_program_that_is_no_program(tmp_path: Path) -> None:
    assert "not executable (chmod +x)" in why(script(tmp_path, "echo 1", 0o644))
    assert "could not be started" in why(str(tmp_path))
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELFnonsense")
    broken.chmod(0o755)
    assert "could not be started: Exec format error" in why(str(broken))


def test_a_program_that_everybody_may_write_is_not_run(tmp_path: Path) -> None:
    program = script(tmp_path, f"touch {tmp_path}/ran; echo 1", 0o757)
    assert "written by everybody" in why(program)
    os.chmod(program, stat.S_IMODE(os.stat(program).st_mode) & ~0o002)
    assert not (tmp_path / "ran").exists()


def sleeper(folder: Path) -> tuple[str, str]:
    """A program that sleeps for an hour under a name that no other process has, and that name."""
    marker = f"sleeper-{folder.name}-{os.getpid()}"
    (folder / marker).symlink_to("/bin/sleep")
    return f"{folder / marker} 3600", marker


def test_one_that_hangs_is_ended(tmp_path: Path) -> None:
    sleep, marker = sleeper(tmp_path)
    assert "did not end within 0.2 s" in why(script(tmp_path, f"{sleep}; echo 1"), timeout=0.2)
    assert still_alive(marker) == []


def test_one_that_hangs_and_ignores_signals_is_ended(tmp_path: Path) -> None:
    sleep, marker = sleeper(tmp_path)
    assert "did not end" in why(script(tmp_path, f"trap '' TERM HUP INT; while :; do {sleep}; done"), timeout=0.2)
    assert still_alive(marker) == []


def test_one_that_never_ends_talking_is_ended(tmp_path: Path) -> None:
    assert "did not end" in why(script(tmp_path, "while :; do printf .; sleep 0.01; done"), timeout=0.3)


@pytest.mark.parametrize(
    "leave", ["{} &", "setsid -f {}", "setsid -f {} >/dev/null 2>&1", "(setsid -f sh -c '{}' &) &"]
)
def test_what_it_leaves_behind_is_ended_and_does_not_hold_it_up(tmp_path: Path, leave: str) -> None:
    """Children that hold its pipe open, and daemons that left its session and its process group."""
    sleep, marker = sleeper(tmp_path)
    assert read(script(tmp_path, f"{leave.format(sleep)}\necho 6")).contributes == 6
    assert still_alive(marker) == []


def test_its_last_words_are_heard_though_a_child_holds_the_pipe(tmp_path: Path) -> None:
    sleep, marker = sleeper(tmp_path)
    said = read(script(tmp_path, f"{sleep} & head -c 30000 /dev/zero | tr '\\0' x >&2; echo 12"))
    assert (said.contributes, len(said.note)) == (12, 500)
    assert still_alive(marker) == []


def test_a_recorded_program() -> None:
    detector = DETECTOR
    assert isinstance(detector, ValueDetector)
    host = RecordedHost({"programs": {'["/usr/bin/seats"]': [0, "12\n", ""]}})
    settings = {"command": ("/usr/bin/seats",), "timeout": 1.0}
    assert detector.read(host, settings).contributes == 12
    with pytest.raises(HostError, match="does not tell what"):
        detector.read(RecordedHost({}), settings)


def test_the_command_is_a_list_with_an_absolute_path() -> None:
    detector = DETECTOR
    assert isinstance(detector, ValueDetector)
    kind = detector.settings["command"].kind
    assert kind.parse(["/bin/a", "b"]) == ("/bin/a", "b")
    assert kind.parse("/bin/a") == ("/bin/a",)
    wrongs: list[object] = [[], "a", ["a"], [1], 1, {}, ["/bin/a\0"]]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="must"):
            kind.parse(wrong)
