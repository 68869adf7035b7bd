"""The detector exec: a program's output is read, and no process is left when the program ends, fails or hangs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from capacityd.host.live import LiveHost
from capacityd.host.recording.replay import RecordedHost
from capacityd.linux import sandbox
from capacityd.model.errors import Cause, HostError
from capacityd.model.reading import Absent, Contribution
from tests.support.forked import forked, has_children, open_files, still_alive
from tests.support.reachable import make_reachable
from tests.support.readings import value_detector

DETECTOR = value_detector("exec")


def script(folder: Path, text: str, mode: int = 0o755) -> str:
    """Writes a shell script. Returns its path."""
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return str(path)


def read(*command: str, timeout: float = 20.0) -> Contribution:
    """Reads the number in a forked process, in which no child and no new open file may be left."""

    def reading() -> Contribution | Absent | HostError:
        before = open_files()
        result: Contribution | Absent | HostError
        try:
            result = DETECTOR.read(LiveHost(), {"command": command, "timeout": timeout})
        except HostError as e:
            result = e.with_message(str(e))  # which can be pickled, unlike some subclasses
        assert not has_children()
        assert open_files() == before
        return result

    result = forked(reading)
    if isinstance(result, HostError):
        raise result
    assert isinstance(result, Contribution)
    return result


def failure(*command: str, timeout: float = 20.0, cause: Cause = Cause.PROGRAM_FAILED) -> HostError:
    with pytest.raises(HostError) as raised:
        read(*command, timeout=timeout)
    assert raised.value.cause is cause
    return raised.value


def error(*command: str) -> str:
    return str(failure(*command))


@pytest.mark.parametrize(
    ("text", "argument", "amount", "detail"),
    [
        ('echo "  $1"; echo "2 of 3 licences are valid" >&2', "7", 7, "2 of 3 licences are valid"),
        ("[ \"$1\" = '; echo 9 $(id)' ] && echo 4", "; echo 9 $(id)", 4, ""),  # no shell interprets the arguments
        # Standard input is empty, the environment has no secrets, and the folder is /.
        ('read -r line && exit 9; env | grep -q SECRET && exit 8; [ "$(pwd)" = / ] && echo 1', "", 1, ""),
    ],
)
def test_the_amount_is_the_number_that_the_program_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, argument: str, amount: int, detail: str
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    program = script(tmp_path, text)
    assert read(program, argument) == Contribution(f"{program} {argument}", amount, detail=detail)


@pytest.mark.parametrize(
    ("text", "reason", "detail"),
    [
        ("", "printed no number: empty; a whole number was expected; no output", ""),
        ("echo many", "not a whole number from 0 up (4 characters)", 'standard output: "many"'),
        ("echo 1; echo 2", "not a whole number from 0 up (4 characters)", r'standard output: "1\n2"'),
        ("printf '\\303\\050\\033[2J'", "(12 characters)", r'standard output: "\xc3(\x1b[2J"'),
        ("echo x; echo y >&2", "1 character; standard error: 1", 'standard output: "x"; standard error: "y"'),
        ("exit 3", "exited with status 3; no output", ""),
        ("echo 5; exit 3", "exited with status 3; standard output: 1 character", 'standard output: "5"'),
        ("echo x; echo y >&2; exit 3", "1 character; standard error: 1", 'standard output: "x"; standard error: "y"'),
        ("echo 'no seat' >&2; exit 3", "status 3; standard error: 7 characters", 'standard error: "no seat"'),
        ("kill -KILL $$", "was killed by signal 9 (out of memory?)", ""),
        ("kill -SEGV $$", "was killed by signal 11", ""),
        ("exec head -c 1073741824 /dev/zero", "wrote more than 65536 bytes to standard output", ""),
        ("exec head -c 1073741824 /dev/zero >&2", "wrote more than 65536 bytes to standard error", ""),
    ],
)
def test_a_program_that_fails_or_prints_no_number_is_unknown(
    tmp_path: Path, text: str, reason: str, detail: str
) -> None:
    why = failure(script(tmp_path, text))
    assert reason in str(why)
    assert why.detail == detail


def test_a_program_that_cannot_be_started_is_unknown(tmp_path: Path) -> None:
    assert "No such file" in error("/nonexistent/program")
    assert f"not executable (chmod +x {tmp_path}/" in error(script(tmp_path, "echo 1", 0o644))
    crlf = tmp_path / "crlf"
    crlf.write_bytes(b"#!/bin/sh\r\necho 1\r\n")
    crlf.chmod(0o755)
    assert f"its first line ends with a carriage return (sed -i 's/\\r$//' {crlf})" in error(str(crlf))
    crlf.write_bytes(b"#!/nonexistent/sh -e\necho 1\n")
    why = failure(str(crlf))
    assert str(why).endswith("could not be started: the interpreter in its first line does not exist")
    assert why.detail == 'it begins with "#!/nonexistent/sh -e"'


def test_a_program_that_everybody_may_write_is_not_run(tmp_path: Path) -> None:
    program = script(tmp_path, f"touch {tmp_path}/ran; echo 1", 0o757)
    message = str(failure(program, cause=Cause.NOT_TRUSTED))
    assert message.startswith(f"{program} is not run, because {program} is writable by everybody (owner ")
    assert message.endswith(f"mode 0757): chmod go-w {program}")
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_a_program_whose_interpreter_another_user_owns_is_not_run(tmp_path: Path) -> None:
    interpreter = tmp_path / "interpreter"
    interpreter.symlink_to("/bin/sh")
    os.chown(interpreter, 12345, 12345, follow_symlinks=False)
    (tmp_path / "program").write_text(f"#!{interpreter}\ntouch {tmp_path}/ran; echo 1\n")
    (tmp_path / "program").chmod(0o755)
    why = failure(str(tmp_path / "program"), cause=Cause.NOT_TRUSTED)
    assert str(why).endswith(f": chown -h root {interpreter}")
    assert not (tmp_path / "ran").exists()


def sleeper(folder: Path) -> tuple[str, str]:
    """A command that sleeps for an hour, and the unique name of its process."""
    marker = f"sleeper-{folder.name}-{os.getpid()}"
    (folder / marker).symlink_to("/bin/sleep")
    return f"{folder / marker} 3600", marker


@pytest.mark.parametrize(
    "text",
    ["{}; echo 1", "trap '' TERM HUP INT; while :; do {}; done", "{} & while :; do printf .; sleep 0.01; done"],
    ids=["hangs", "ignores signals", "prints without end"],
)
def test_a_program_that_does_not_end_is_killed(tmp_path: Path, text: str) -> None:
    sleep, marker = sleeper(tmp_path)
    program = script(tmp_path, text.format(sleep))
    assert "did not end within 0.3 s" in str(failure(program, timeout=0.3, cause=Cause.TIMEOUT))
    assert still_alive(marker) == []


@pytest.mark.parametrize(
    "leave",  # a shell command that leaves the command {} behind
    ["{} &", "setsid -f {}", "setsid -f {} >/dev/null 2>&1", "(setsid -f sh -c '{}' &) &"],
)
def test_processes_that_a_program_leaves_are_killed_and_do_not_delay_the_reading(tmp_path: Path, leave: str) -> None:
    """Some of the processes keep the program's output open. Daemons leave the program's session and process group."""
    sleep, marker = sleeper(tmp_path)
    write_to_stderr = "head -c 30000 /dev/zero | tr '\\0' x >&2"  # 30,000 times x
    output = read(script(tmp_path, f"{leave.format(sleep)}\n{write_to_stderr}\necho 12"))
    assert (output.amount, output.detail) == (12, "x" * 500 + "…")
    assert still_alive(marker) == []


@pytest.mark.parametrize("sandboxed", [True, False])
def test_a_failure_in_the_services_sandbox_names_the_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sandboxed: bool
) -> None:
    make_reachable(tmp_path)  # otherwise the error would be that the service cannot read the program
    (tmp_path / "status").write_text(f"Seccomp:\t0\nNoNewPrivs:\t{int(sandboxed)}\n")
    monkeypatch.setattr(sandbox, "_STATUS", str(tmp_path / "status"))
    for end in ("exit 1", "kill -TRAP $$"):  # SIGTRAP ends a JIT compiler that may not make its code executable
        names_sandbox = "it ran in the sandbox of capacityd.service: see /usr" in error(script(tmp_path, end))
        assert names_sandbox is sandboxed


def test_a_recorded_program_has_its_recorded_output() -> None:
    host = RecordedHost({"programs": {'["/usr/bin/seats"]': [0, "12\n", ""]}})
    assert DETECTOR.read(host, {"command": ("/usr/bin/seats",), "timeout": 1.0}) == Contribution("/usr/bin/seats", 12)
