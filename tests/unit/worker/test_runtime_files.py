"""The service's files: whatever is in them, and however full the file system is, nobody stumbles over them."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.config import load
from capacityd.model.errors import CapacitydError
from capacityd.node import Review
from capacityd.reconcile.state import Denial, ReconcileState
from capacityd.worker import runtime_files
from tests.support.forked import forked, open_files

names = st.text(max_size=8)
times = st.floats(0, 1e9)
memories = st.builds(
    ReconcileState,
    applied_readings=st.none() | st.dictionaries(names, names),
    published=st.dictionaries(names, st.integers(0, 2**63 - 1)),
    lower_since=st.dictionaries(names, times),
    written=st.dictionaries(names, st.lists(times, min_size=1, max_size=4).map(tuple)),
    kubelet=st.none() | times,
    settle_passes=st.integers(0, 40),
    delayed=st.booleans(),
    plugins=st.none() | st.lists(names).map(tuple),
    denied=st.dictionaries(names, st.builds(Denial, names, times)),
    verify_at=st.none() | times,
)
FULL = ReconcileState(
    {"a": "4"}, {"a": 4}, {"a": 5.0}, {"a": (1.0, 2.0)}, 7.0, 3, 1, True, ("a", "b"), "a conflict", 8.0
)
CONFIG = '[resources."example.com/a"]\nstatic = { quantity = 4 }\n'
FOREIGN = [
    b"",
    b"null",
    b"[]",
    b"4",
    b"{}",
    b"not json",
    b'{"applied_readings": ',
    b"\xff\xfe\x00",
    b"\0" * 4096,
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"9" * 5_000,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("state"))


@given(memories)
def test_the_memory_is_restored_unchanged(folder: str, memory: ReconcileState) -> None:
    runtime_files.keep_memory(folder, memory)
    assert runtime_files.kept_memory(folder) == memory


@pytest.mark.parametrize("content", [None, *FOREIGN], ids=lambda content: str((content or b"missing")[:20]))
def test_a_damaged_file_counts_as_missing(tmp_path: Path, content: bytes | None) -> None:
    for name in ("memory.json", "config.json", "reviews.json", "service.json", "status.json"):
        if content is not None:
            (tmp_path / name).write_bytes(content)
    where = str(tmp_path)
    assert runtime_files.kept_memory(where) == ReconcileState()
    assert runtime_files.kept_reviews(where) == {}
    assert isinstance(runtime_files.read(where, "status.json"), dict)
    assert runtime_files.running(where) is None
    assert runtime_files.kept_config(where) is None, "nothing may be removed by what may have lost a part"


def test_a_file_of_another_version_counts_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = str(tmp_path)
    monkeypatch.setattr(runtime_files, "__version__", "0.0.1")
    runtime_files.keep_memory(where, FULL)
    runtime_files.keep_reviews(where, {"x": Review("u", "n1")})
    assert (runtime_files.kept_memory(where), runtime_files.kept_reviews(where)) == (FULL, {"x": Review("u", "n1")})
    monkeypatch.undo()
    assert (runtime_files.kept_memory(where), runtime_files.kept_reviews(where)) == (ReconcileState(), {})


@pytest.mark.parametrize("held", [True, False])
def test_whether_the_service_runs(tmp_path: Path, held: bool) -> None:
    """Also for those who may not open its lock."""
    lock = tmp_path / "service.lock"
    lock.touch(0)
    (tmp_path / "service.json").write_text('{"pid": 812}')
    with open(lock) as f:
        if held:
            fcntl.flock(f, fcntl.LOCK_EX)
        assert runtime_files.running(str(tmp_path)) == ({"pid": 812} if held else None)


def test_a_configuration_is_restored_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "capacityd.toml"
    file.write_text(CONFIG + 'expect = 5\n[resources."example.com/b"]\nstatic = { quantity = "x" }\n')
    loaded = load(str(file))
    assert loaded.problems
    runtime_files.keep_config(str(tmp_path), loaded)
    file.unlink()
    kept = runtime_files.kept_config(str(tmp_path))
    assert kept is not None
    assert [r.name for r in kept.resources] == [r.name for r in loaded.config.resources] == ["example.com/a"]
    assert dict(kept.broken) == dict(loaded.config.broken) != {}
    assert (kept.complete, kept.settings) == (loaded.config.complete, loaded.config.settings)
    assert [replace(r, source="") for r in kept.resources] == [replace(r, source="") for r in loaded.config.resources]


@pytest.mark.parametrize(
    ("change", "complete"),
    [
        ({}, True),
        ({"broken": []}, None),
        ({"broken": None}, None),
        ({"values": []}, None),
        ({"complete": "true"}, None),
        ({"complete": False}, False),
        ({"values": {"resources": {"example.com/a": {"static": {"quantity": 4}}, "example.com/b": 4}}}, False),
        ({"values": {"resources": {"example.com/a": {"static": {"quantity": 4}}}, "other": {}}}, False),
    ],
)
def test_a_snapshot_that_is_damaged_is_none_or_incomplete(
    tmp_path: Path, change: dict[str, object], complete: bool | None
) -> None:
    file = tmp_path / "capacityd.toml"
    file.write_text(CONFIG)
    where = str(tmp_path)
    runtime_files.keep_config(where, load(str(file)))
    runtime_files.write(where, "config.json", runtime_files.read(where, "config.json") | change)
    config = runtime_files.kept_config(where)
    assert (config.complete if config else None) is complete
    if config:
        assert [r.name for r in config.resources] == ["example.com/a"]


def test_a_full_file_system_is_an_error_and_keeps_the_old_file(tmp_path: Path) -> None:
    where = str(tmp_path)
    runtime_files.keep_memory(where, FULL)

    def full() -> list[str]:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        errors = []
        for _ in range(2):
            try:
                runtime_files.keep_memory(where, ReconcileState())
            except CapacitydError as e:
                errors.append(str(e))
        return errors

    assert forked(full) == [f"{where}/memory.json could not be written: File too large"] * 2
    assert runtime_files.kept_memory(where) == FULL
    assert os.listdir(where) == ["memory.json"], "nothing half written stays, which would fill it more"


def test_anybody_may_read_what_status_shows_and_nothing_else(tmp_path: Path) -> None:
    umask = os.umask(0o077)
    try:
        for name in ("status.json", "check.json", "memory.json", "config.json", "reviews.json"):
            runtime_files.write(str(tmp_path), name, {})
    finally:
        os.umask(umask)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    public, private = (
        dict.fromkeys(("status.json", "check.json"), 0o644),
        ("memory.json", "config.json", "reviews.json"),
    )
    assert modes == public | dict.fromkeys(private, 0o600)


def test_the_folder_is_the_first_that_systemd_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", "/run/x:/run/y")
    assert runtime_files.folder() == "/run/x"
    monkeypatch.delenv("RUNTIME_DIRECTORY")
    assert runtime_files.folder() == "/run/capacityd"


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CapacitydError, match=r"memory\.json could not be written: No such file"):
        runtime_files.keep_memory(str(tmp_path / "absent"), ReconcileState())


def test_the_lock_excludes_and_gives_up(tmp_path: Path) -> None:
    where = str(tmp_path)
    before = open_files()
    with runtime_files.locked(where, 0.0):
        with (
            pytest.raises(CapacitydError, match="another capacityd has been writing for 0 s"),
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
