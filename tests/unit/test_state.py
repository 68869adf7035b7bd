"""The service's files: whatever is in them, and however full the file system is, nobody stumbles over them."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd import state
from capacityd.apply import Untold
from capacityd.capacity import Event
from capacityd.config import load
from capacityd.errors import CapacitydError
from capacityd.memory import Memory
from tests.unit.forked import forked, open_files

names = st.text(max_size=8)
times = st.floats(0, 1e9)
memories = st.builds(
    Memory,
    seen=st.none() | st.dictionaries(names, names),
    published=st.dictionaries(names, st.integers(0, 2**63 - 1)),
    lower_since=st.dictionaries(names, times),
    written=st.dictionaries(names, st.lists(times, min_size=1, max_size=4).map(tuple)),
    kubelet=st.none() | times,
    undone=st.dictionaries(names, times),
    unsettled=st.integers(0, 40),
    delayed=st.booleans(),
    untold=st.none()
    | st.builds(
        Untold,
        uid=names,
        capacity=st.dictionaries(names, st.none() | names),
        refused=st.lists(names, max_size=2).map(tuple),
        events=st.lists(st.builds(Event, names, names, names, names), max_size=2).map(tuple),
    ),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
UNTOLD = Untold("u", {"a": "4", "b": None}, ("c",), (Event("Normal", "CapacityChanged", "a: 3 → 4", "Publish"),))
FULL = Memory({"a": "4"}, {"a": 4}, {"a": 5.0}, {"a": (1.0, 2.0)}, {"a": 2.0}, 7.0, 3, 1, True, UNTOLD)
CONFIG = '[resources."example.com/a"]\nstatic = { quantity = 4 }\n'
FOREIGN = [
    b"",
    b"null",
    b"[]",
    b"4",
    b"{}",
    b"not json",
    b'{"seen": ',
    b"\xff\xfe\x00",
    b"\0" * 4096,
    b'{"seen": 4, "published": [], "lower_since": "x", "written": {"a": 4}, "kubelet": "x", "unsettled": null}',
    b'{"seen": {}, "published": {"a": "x"}, "lower_since": {}, "written": {}, "kubelet": null, "unsettled": 0}',
    b'{"seen": {}, "published": {"a": 1e999}, "lower_since": {}, "written": {}, "kubelet": null, "unsettled": 0}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"9" * 5_000,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("state"))


@given(memories)
def test_memory_comes_back_as_it_was(folder: str, memory: Memory) -> None:
    state.keep_memory(folder, memory)
    assert state.kept_memory(folder) == memory


def test_without_a_file_there_is_no_memory(tmp_path: Path) -> None:
    assert state.kept_memory(str(tmp_path)) == Memory()
    assert state.kept_memory(str(tmp_path / "absent")) == Memory()
    assert state.kept_config(str(tmp_path)) is None
    assert state.running(str(tmp_path)) is None


@pytest.mark.parametrize("content", FOREIGN, ids=lambda content: str(content[:20]))
def test_what_is_damaged_is_as_nothing(tmp_path: Path, content: bytes) -> None:
    for name in ("memory.json", "config.json", "reviews.json", "service.json", "status.json"):
        (tmp_path / name).write_bytes(content)
    where = str(tmp_path)
    assert state.kept_memory(where) == Memory()
    assert state.kept_reviews(where) == {}
    assert isinstance(state.read(where, "status.json"), dict)
    assert state.running(where) is None
    (tmp_path / "config.toml").write_text(CONFIG)
    config = state.kept_config(where)
    assert config is not None
    assert not config.complete, "nothing may be removed by what may have lost a part"


@given(st.sampled_from(sorted(FULL.__slots__)), json_values)
def test_any_value_in_any_place_is_survived(folder: str, name: str, value: object) -> None:
    state.keep_memory(folder, FULL)
    state.write(folder, "memory.json", state.read(folder, "memory.json") | {name: value})
    assert isinstance(state.kept_memory(folder), Memory)


@given(st.integers(0, 200))
def test_half_a_file_is_as_none(folder: str, length: int) -> None:
    state.keep_memory(folder, FULL)
    path = Path(folder) / "memory.json"
    whole = path.read_bytes()
    path.write_bytes(whole[:length])
    assert state.kept_memory(folder) == (FULL if length >= len(whole) else Memory())


@pytest.mark.parametrize("held", [True, False])
def test_who_may_not_open_the_lock_sees_that_the_service_runs(
    tmp_path: Path, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "service.lock"
    lock.touch()
    (tmp_path / "service.json").write_text('{"pid": 812}')
    with open(lock) as f:
        if held:
            fcntl.flock(f, fcntl.LOCK_EX)

        def refused(path: str, flags: int) -> int:
            raise PermissionError(path)

        monkeypatch.setattr(os, "open", refused)
        assert state.running(str(tmp_path)) == ({"pid": 812} if held else None)


def test_a_configuration_comes_back_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "capacityd.toml"
    file.write_text(CONFIG + '[resources."example.com/b"]\nstatic = { quantity = "x" }\n')
    loaded = load(str(file))
    assert loaded.problems
    state.keep_config(str(tmp_path), loaded)
    file.unlink()
    kept = state.kept_config(str(tmp_path))
    assert kept is not None
    assert [r.name for r in kept.resources] == [r.name for r in loaded.config.resources] == ["example.com/a"]
    assert dict(kept.broken) == dict(loaded.config.broken) != {}
    assert (kept.complete, kept.settings) == (loaded.config.complete, loaded.config.settings)


def test_a_broken_configuration_of_a_wrong_type_is_survived(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    for broken in ("[]", "4", "null", '"x"', '{"a": 4}'):
        (tmp_path / "config.json").write_text(f'{{"complete": true, "broken": {broken}}}')
        config = state.kept_config(str(tmp_path))
        assert config is not None
        assert [r.name for r in config.resources] == ["example.com/a"]
        assert config.complete == (broken == '{"a": 4}')


def test_a_full_file_system_is_told_and_leaves_what_was(tmp_path: Path) -> None:
    where = str(tmp_path)
    state.keep_memory(where, FULL)

    def full() -> list[str]:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        said = []
        for _ in range(2):
            try:
                state.keep_memory(where, Memory())
            except CapacitydError as e:
                said.append(str(e))
        return said

    assert forked(full) == [f"{where}/memory.json could not be written: File too large"] * 2
    assert state.kept_memory(where) == FULL
    assert os.listdir(where) == ["memory.json"], "nothing half written stays, which would fill it more"


def test_anybody_may_read_what_status_shows_and_nothing_else(tmp_path: Path) -> None:
    umask = os.umask(0o077)
    try:
        for name in ("status.json", "check.json", "memory.json", "config.toml", "reviews.json"):
            state.write(str(tmp_path), name, {})
    finally:
        os.umask(umask)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    public, private = (
        dict.fromkeys(("status.json", "check.json"), 0o644),
        ("memory.json", "config.toml", "reviews.json"),
    )
    assert modes == public | dict.fromkeys(private, 0o600)


def test_the_folder_is_the_first_that_systemd_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", "/run/x:/run/y")
    assert state.folder() == "/run/x"
    monkeypatch.delenv("RUNTIME_DIRECTORY")
    assert state.folder() == "/run/capacityd"


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(CapacitydError, match=r"memory\.json could not be written: No such file"):
        state.keep_memory(str(tmp_path / "absent"), Memory())


def test_the_lock_excludes_and_gives_up(tmp_path: Path) -> None:
    where = str(tmp_path)
    before = open_files()
    with state.locked(where, 0.0):
        with (
            pytest.raises(CapacitydError, match="another capacityd has been writing for 0 s"),
            state.locked(where, 0.0),
        ):
            pytest.fail("both have it")
        with pytest.raises(CapacitydError), state.locked(where, 0.06):
            pytest.fail("both have it")
    with state.locked(where, 0.0):
        pass
    assert open_files() == before


def test_the_lock_is_free_again_after_a_failure_or_a_death(tmp_path: Path) -> None:
    where = str(tmp_path)
    with pytest.raises(KeyError), state.locked(where, 0.0):
        raise KeyError
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        with state.locked(where, 0.0):
            os.write(theirs, b"x")
            signal.pause()
    os.read(ours, 1)
    with pytest.raises(CapacitydError), state.locked(where, 0.0):
        pytest.fail("both have it")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with state.locked(where, 0.0):
        pass
    os.close(ours)
    os.close(theirs)


def test_without_a_folder_there_is_nobody_to_exclude(tmp_path: Path) -> None:
    with state.locked(str(tmp_path / "absent"), 0.0):
        pass
