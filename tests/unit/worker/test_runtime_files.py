"""The service's files: whatever is in them, and however full the file system is, nobody stumbles over them."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd import __version__
from capacityd.config import load
from capacityd.model.codec import _checksum, to_file
from capacityd.model.errors import CapacitydError, Cause
from capacityd.model.messages import ServiceStatus
from capacityd.model.node import Condition, NodeState
from capacityd.model.plan import Action, Change, Health
from capacityd.model.reading import Absent, Quantity, Unknown
from capacityd.model.reasons import PassReason
from capacityd.model.waits import Wait, WaitReason
from capacityd.node import Review
from capacityd.reconcile.memory import Conflict, Memory
from capacityd.reconcile.timing import Denial, Kubelet, WriteTimes
from capacityd.worker import runtime_files
from capacityd.worker.pass_state import Counters, Logged, PassState, PassStatus
from capacityd.worker.runtime_files import SavedConfig
from tests.support.forked import forked, open_files

A, B = "example.com/a", "example.com/b"
texts = st.text(max_size=8)
times = st.floats(0, 1e9)
numbers = st.integers(0, 2**63 - 1)
readings = (
    st.builds(Quantity, st.integers(), warning=texts)
    | st.builds(Absent, texts, applies=st.booleans())
    | st.builds(Unknown, texts, st.sampled_from(Cause))
)
changes = st.builds(Change, texts, st.sampled_from(Action), st.none() | texts, st.none() | texts, texts)
healths = st.builds(
    Health,
    denied=st.dictionaries(texts, texts, max_size=2),
    below_expected=st.dictionaries(texts, st.tuples(st.integers(), st.integers()), max_size=2),
)
waits = st.builds(Wait, times, st.sampled_from(WaitReason), texts)
conditions = st.builds(Condition, texts, texts, texts, st.integers(0, 9), st.just({}), st.none() | times, texts)
node_states = st.builds(
    NodeState,
    texts,
    texts,
    st.none() | st.dictionaries(texts, texts, max_size=2),
    st.none() | st.dictionaries(texts, texts, max_size=2),
    st.booleans(),
    st.none() | texts,
    st.none() | st.integers(0, 9),
    st.none() | conditions,
    texts,
    heartbeat=st.none() | times,
    configuration=st.none() | texts,
    resource_version=texts,
)
write_times = st.lists(times, min_size=1, max_size=4).map(tuple)
states = st.builds(
    PassState,
    st.builds(
        Memory,
        st.none() | node_states,
        lower_since=st.dictionaries(texts, times),
        unknown_since=st.dictionaries(texts, times),
        write_times=st.builds(WriteTimes, st.dictionaries(texts, write_times), write_times),
        denied=st.dictionaries(texts, st.builds(Denial, texts, st.none() | numbers, times, st.integers(1, 9))),
        conflict=st.none() | st.builds(Conflict, texts, times),
        kubelet=st.builds(Kubelet, st.none() | times, st.none() | times),
        less_allocatable=st.frozensets(texts),
        verify_at=st.none() | times,
    ),
    st.none()
    | st.builds(
        PassStatus,
        times,
        st.sets(st.sampled_from(PassReason)).map(sorted).map(tuple),
        st.dictionaries(texts, readings, max_size=2),
        st.booleans(),
        waits=st.lists(waits, max_size=2).map(tuple),
        changes=st.lists(changes, max_size=2).map(tuple),
        health=healths,
        read_at=st.none() | times,
        written_at=st.none() | times,
    ),
    st.dictionaries(texts, st.builds(Review, texts, texts, times), max_size=2),
    st.dictionaries(texts, st.builds(Logged, texts, st.tuples(times)), max_size=2),
    st.builds(Counters, st.integers(0, 9), path=texts),
)
MEMORY = Memory(
    NodeState(
        name="n1",
        uid="11111111",
        capacity={A: "4"},
        allocatable={A: "4"},
        has_annotations=True,
        annotation='{"example.com/a":4}',
        conditions=2,
        condition=Condition("False", "Unknown", "unknown: b", 1, {}, 1.0, "2026-11-24T20:00:00Z"),
        machine_id="0123",
        heartbeat=1.5,
        configuration="0a1b",
        resource_version="77",
    ),
    lower_since={A: 5.0},
    unknown_since={B: 6.0},
    write_times=WriteTimes({A: (1.0, 2.0)}, (3.0,)),
    denied={B: Denial("a policy", 7, 8.0)},
    conflict=Conflict("a conflict", 9.0),
    kubelet=Kubelet(7.0, 3.0),
    less_allocatable=frozenset({A}),
    verify_at=8.0,
)
STATE = PassState(
    MEMORY,
    PassStatus(
        1.0,
        (PassReason.BOOT, PassReason.FILE),
        {A: Unknown("it did not end", Cause.TIMEOUT)},
        waits=(Wait(60.0, WaitReason.UNKNOWN, A),),
        changes=(Change(A, Action.KEEP, "4", "4", "as published"),),
        health=Health(unknown={A: "it did not end"}),
        read_at=1.0,
    ),
    {"hash": Review("system:node:n1", "n1")},
    {A: Logged("it did not end", (1.0, 2.0))},
    Counters(4, 3, 2, 1.0, "/var/lib/x.prom"),
)
SERVICE = ServiceStatus(812, 100.0, 200.0, "nobody there", ("no udev",), ("c.toml:1: x",), True, "full", "make room")
CONFIG = '[resources."example.com/a"]\nstatic = { quantity = 4 }\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("state"))


@given(states)
def test_the_state_is_restored_unchanged(folder: str, state: PassState) -> None:
    runtime_files.write_state(folder, state)
    assert runtime_files.read_state(folder) == state


def test_a_file_of_another_version_counts_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = str(tmp_path)
    monkeypatch.setattr(runtime_files, "__version__", "0.0.1")
    runtime_files.write_state(where, STATE)
    assert runtime_files.read_state(where) == STATE
    monkeypatch.undo()
    assert runtime_files.read_state(where) == PassState()


def saved_config() -> SavedConfig:
    """A configuration with an error."""
    return SavedConfig({"resources": {A: {"static": {"quantity": 4}}}}, {B: "an error"}, True, ("c.toml:1: x",))


FILES: dict[str, tuple[bytes, Callable[[str], object], object]] = {
    "state.json": (to_file(STATE, __version__), runtime_files.read_state, PassState()),
    "config.json": (to_file(saved_config(), __version__), runtime_files.read_config, None),
    "service.json": (to_file(SERVICE, __version__), runtime_files.read_service, None),
}
"""File -> its content, what reads it, and what that returns if there is no such file."""
FOREIGN = [
    *(b"", b"null", b"[]", b"4", b"{}", b"not json", b'{"memory": ', b"\xff\xfe\x00", b"\0" * 4096),
    *(b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5_000, b"NaN"),
]
VALUES: list[Any] = [None, True, -7, 1e300, 10**400, "text", "\ud800", [], ["a"], {}, {"a": 1}, [[1, 2]], {"a": None}]


def damaged(content: bytes) -> Iterator[bytes]:
    """The file with any one byte changed or lost, any key added, removed or renamed, and any value of another type.

    The latter have the right checksum: as if another build of the same version had written them.
    """
    yield from FOREIGN
    for at in range(len(content)):
        yield content[:at]
        yield content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
    data = json.loads(content)
    del data["checksum"]
    yield json.dumps(data).encode()
    for other in variations(data):
        yield json.dumps(other | {"checksum": _checksum(other)}).encode()


def variations(data: Any) -> Iterator[Any]:
    """The value with one difference, at any depth."""
    if isinstance(data, dict):
        yield data | {"other": 1}
        for key, value in data.items():
            rest = {name: other for name, other in data.items() if name != key}
            yield rest
            yield rest | {f"{key}x": value}
            yield from (data | {key: other} for other in [*VALUES, *variations(value)])
    elif isinstance(data, list):
        yield [*data, *data, None]
        for at, value in enumerate(data):
            yield from ([*data[:at], other, *data[at + 1 :]] for other in [*VALUES, *variations(value)])


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_what_is_damaged_is_missing_or_of_its_type(tmp_path: Path, name: str) -> None:
    """Nothing is raised, and what is read can be written and read again."""
    content, read, missing = FILES[name]
    path = tmp_path / name
    assert read(str(tmp_path)) == missing
    different = 0
    for other in damaged(content):
        path.write_bytes(other)
        value = read(str(tmp_path))
        if value != missing:
            path.write_bytes(to_file(value, __version__))
            assert read(str(tmp_path)) == value
            different += 1
    assert different, "some differ in a value of the right type only"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "loop", "dangling"])
def test_what_is_no_file_blocks_nobody(tmp_path: Path, name: str, kind: str) -> None:
    """What cannot be read is not the same as missing for the state: whoever relies on it must know."""
    _, read, missing = FILES[name]
    where: dict[str, Callable[[Path], None]] = {
        "folder": Path.mkdir,
        "pipe": os.mkfifo,
        "device": lambda path: path.symlink_to("/dev/zero"),
        "loop": lambda path: path.symlink_to(path),
        "dangling": lambda path: path.symlink_to("absent"),
    }
    where[kind](tmp_path / name)
    if name == "state.json" and kind != "dangling":
        with pytest.raises(CapacitydError, match=r"state\.json could not be read: "):
            read(str(tmp_path))
    else:
        assert read(str(tmp_path)) == missing


@pytest.mark.parametrize("held", [True, False])
def test_whether_the_service_runs(tmp_path: Path, held: bool) -> None:
    """Also for those who may not open its lock."""
    lock = tmp_path / "service.lock"
    with open(lock, "w") as f:
        lock.chmod(0)
        if held:
            fcntl.flock(f, fcntl.LOCK_EX)
        running = runtime_files.running(str(tmp_path))
        assert (running and running.pid) == ("?" if held else None)
        (tmp_path / "service.json").write_bytes(to_file(SERVICE, __version__))
        running = runtime_files.running(str(tmp_path))
        assert (running and running.pid) == ("812" if held else None)


def test_a_configuration_is_restored_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "capacityd.toml"
    file.write_text(CONFIG + 'expect = 5\n[resources."example.com/b"]\nstatic = { quantity = "x" }\n')
    loaded = load(str(file))
    assert loaded.problems
    runtime_files.write_config(str(tmp_path), SavedConfig.of(loaded))
    file.unlink()
    saved = runtime_files.read_config(str(tmp_path))
    assert saved is not None
    assert saved.errors == tuple(problem.located() for problem in loaded.problems)
    kept = saved.restored()
    assert [r.name for r in kept.resources] == [r.name for r in loaded.config.resources] == ["example.com/a"]
    assert dict(kept.broken) == dict(loaded.config.broken) != {}
    assert (kept.complete, kept.settings) == (loaded.config.complete, loaded.config.settings)
    assert [replace(r, source="") for r in kept.resources] == [replace(r, source="") for r in loaded.config.resources]


@pytest.mark.parametrize(
    ("values", "complete"),
    [
        ({"resources": {A: {"static": {"quantity": 4}}}}, True),
        ({"resources": {A: {"static": {"quantity": 4}}, B: 4}}, False),
        ({"resources": {A: {"static": {"quantity": 4}}}, "other": {}}, False),
    ],
)
def test_a_configuration_that_this_version_rejects_is_incomplete(values: dict[str, Any], complete: bool) -> None:
    """Nothing may be removed by what may have lost a part."""
    config = SavedConfig(values, {}, complete=True).restored()
    assert config.complete is complete
    assert [r.name for r in config.resources] == [A]


def test_a_full_file_system_is_an_error_and_keeps_the_old_file(tmp_path: Path) -> None:
    where = str(tmp_path)
    runtime_files.write_state(where, STATE)

    def full() -> list[str]:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        errors = []
        for _ in range(2):
            try:
                runtime_files.write_state(where, PassState())
            except CapacitydError as e:
                errors.append(str(e))
        return errors

    assert forked(full) == [f"{where}/state.json could not be written: File too large"] * 2
    assert runtime_files.read_state(where) == STATE
    assert os.listdir(where) == ["state.json"], "nothing half written stays, which would fill it more"


def test_anybody_may_read_what_status_shows_and_nothing_else(tmp_path: Path) -> None:
    umask = os.umask(0o077)
    try:
        runtime_files.write_state(str(tmp_path), STATE)
        runtime_files.write_config(str(tmp_path), saved_config())
    finally:
        os.umask(umask)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"state.json": 0o644, "config.json": 0o600}


def test_room_is_reserved_for_the_state_and_used_by_it(tmp_path: Path) -> None:
    where = str(tmp_path)
    runtime_files.reserve_state(where)
    runtime_files.write_state(where, STATE)
    before = (tmp_path / "state.json").read_bytes()
    runtime_files.reserve_state(where)
    assert (tmp_path / "state.json").read_bytes() == before
    assert (tmp_path / "state.json.new").stat().st_size > len(before)
    runtime_files.write_state(where, STATE)
    assert os.listdir(where) == ["state.json"]


def test_the_folder_is_the_first_that_systemd_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", "/run/x:/run/y")
    assert runtime_files.runtime_directory() == "/run/x"
    monkeypatch.delenv("RUNTIME_DIRECTORY")
    assert runtime_files.runtime_directory() == "/run/capacityd"


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CapacitydError, match=r"state\.json could not be written: No such file"):
        runtime_files.write_state(str(tmp_path / "absent"), PassState())


def test_the_lock_excludes_and_gives_up(tmp_path: Path) -> None:
    where = str(tmp_path)
    before = open_files()
    with runtime_files.locked(where, 0.0):
        with (
            pytest.raises(CapacitydError, match="another capacityd process has been writing for 0 s"),
            runtime_files.locked(where, 0.0),
        ):
            pytest.fail("both have it")
        with pytest.raises(CapacitydError), runtime_files.locked(where, 0.06):
            pytest.fail("both have it")
    with runtime_files.locked(where, 0.0):
        pass
    assert open_files() == before


def test_the_lock_is_free_again_after_a_failure_or_a_death(tmp_path: Path) -> None:
    where = str(tmp_path)
    with pytest.raises(KeyError), runtime_files.locked(where, 0.0):
        raise KeyError
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        with runtime_files.locked(where, 0.0):
            os.write(theirs, b"x")
            signal.pause()
    os.read(ours, 1)
    with pytest.raises(CapacitydError), runtime_files.locked(where, 0.0):
        pytest.fail("both have it")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with runtime_files.locked(where, 0.0):
        pass
    os.close(ours)
    os.close(theirs)


def test_without_a_folder_there_is_no_lock(tmp_path: Path) -> None:
    with runtime_files.locked(str(tmp_path / "absent"), 0.0):
        pass
