"""The service's files in its runtime directory: restored unchanged, damaged, or on a full file system."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from capacityd import __version__
from capacityd.config import load
from capacityd.model.errors import CapacitydError
from capacityd.model.file_codec import _checksum, to_file
from capacityd.model.key import Key
from capacityd.model.messages import NO_STATUS, ServiceStatus
from capacityd.node.identity import Identity
from capacityd.reconcile.denial import Denial
from capacityd.reconcile.memory import Memory
from capacityd.schema.config import Config, Resource, Table
from capacityd.worker import pass_memory, runtime_files
from capacityd.worker.pass_memory import PassMemory
from capacityd.worker.pass_state import PassStatus
from capacityd.worker.runtime_files import CheckedConfig
from tests import ROOT
from tests.unit.worker.test_metrics import STATUS

A, B = "example.com/a", "example.com/b"
MEMORY = Memory(
    uid="11111111",
    published={Key(A): 4, Key(A).label: 4},
    owned_digest="0a1b",
    lower_since={Key(A): 5.0},
    unknown_since={B: 6.0},
    writes=(1.0, 2.0),
    overwritten_at=(3.0,),
    denied={B: Denial("7", "a policy", 7.5, 8.0), "condition": Denial("True", "a policy", 7.5, 8.0)},  # since, retry_at
    condition_subject=("Denied", B),
    settled_digest="0c1d",
)
PASS_MEMORY = PassMemory(MEMORY, STATUS, Identity("n1", is_certain=True, is_own_node=True), "/srv/x.prom")
SERVICE = ServiceStatus(
    pid=812,
    next_pass=100.0,
    overdue_at_uptime=200.0,
    error="nobody there",
    event_source_errors=("no udev",),
    configuration_errors=("c.toml:1: x",),
    previous_active=True,
    metrics_error="full",
    metrics_advice="make room",
    watched_since=5.0,
    not_watched="a proxy",
)
CONFIG = '[resources."example.com/a"]\nstatic = { quantity = 4 }\n'


def test_the_state_is_restored_unchanged(tmp_path: Path) -> None:
    """Each field differs from its default, so that the test notices a lost field."""
    for part in (STATUS, MEMORY, PASS_MEMORY):
        assert part
        assert [field.name for field in fields(part) if not getattr(part, field.name)] == []
    runtime_files.write_state(str(tmp_path), STATUS)
    assert runtime_files.read_state(str(tmp_path)) == STATUS
    with pytest.raises(CapacitydError, match=r"state\.json could not be written: No such file"):
        runtime_files.write_state(str(tmp_path / "absent"), STATUS)


def test_the_memory_of_a_pass_is_restored_unchanged_or_lost() -> None:
    text = pass_memory.to_text(PASS_MEMORY)
    assert pass_memory.from_text(text) == PASS_MEMORY
    for unusable in ("", text[:-9], text.replace(__version__, "0.0.1")):
        assert pass_memory.from_text(unusable) == PassMemory()


def saved_config() -> CheckedConfig:
    """A checked configuration with an error."""
    resource = Resource(A, "static", (Table(settings={"quantity": 4}),))
    return CheckedConfig(Config((resource,), broken={B: "an error"}), ("c.toml:1: x",))


FILES: dict[str, tuple[bytes, Callable[[str], object], object]] = {
    "state.json": (to_file(STATUS, __version__), runtime_files.read_state, PassStatus()),
    "config.json": (to_file(saved_config(), __version__), runtime_files.read_config, None),
    "service.json": (to_file(SERVICE, __version__), runtime_files.read_service, None),
}
"""File -> its content, the function that reads it, and that function's result without the file."""


def with_checksum(data: dict[str, Any]) -> bytes:
    """The content of a file with this data and a valid checksum."""
    return json.dumps(data | {"checksum": _checksum(data)}).encode()


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_counts_as_missing(tmp_path: Path, name: str) -> None:
    """A file of another version also counts as missing. test_codec.py tests more kinds of damage."""
    content, read, missing = FILES[name]
    assert read(str(tmp_path)) == missing
    data = json.loads(content)
    del data["checksum"]
    (tmp_path / name).write_bytes(with_checksum(data))
    assert read(str(tmp_path)) != missing
    another_version = with_checksum(data | {"version": "0.0.1"})
    of_another_type = [with_checksum(data | {key: [[1, 2]]}) for key in data]
    for damaged in (b"", b"\xff\xfe\x00", content[:-9], json.dumps(data).encode(), another_version, *of_another_type):
        (tmp_path / name).write_bytes(damaged)
        assert read(str(tmp_path)) == missing, damaged
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    if name == "state.json":
        with pytest.raises(CapacitydError, match=r"state\.json could not be read: "):
            read(str(tmp_path))  # `status` says so
    else:
        assert read(str(tmp_path)) == missing


@pytest.mark.parametrize("held", [True, False])
def test_the_service_runs_while_its_lock_is_held(tmp_path: Path, held: bool) -> None:
    """The lock's permissions are removed, because other users may not open the lock."""
    lock = tmp_path / "service.lock"
    with open(lock, "w") as f:
        lock.chmod(0)
        if held:
            fcntl.flock(f, fcntl.LOCK_EX)
        running = runtime_files.running_service(str(tmp_path))
        assert running == (NO_STATUS if held else None)
        (tmp_path / "service.json").write_bytes(to_file(SERVICE, __version__))
        running = runtime_files.running_service(str(tmp_path))
        assert running == (SERVICE if held else None)


@pytest.mark.parametrize("file", sorted((ROOT / "conf").rglob("*.toml")), ids=str)
def test_a_configuration_is_restored_unchanged(tmp_path: Path, file: Path) -> None:
    """The example configurations contain each detector and each kind of value."""
    config = replace(load(str(file)).config, broken={B: "an error"})
    runtime_files.write_config(str(tmp_path), CheckedConfig(config, ("an error",)))
    assert runtime_files.read_config(str(tmp_path)) == CheckedConfig(config, ("an error",))


def test_anybody_may_read_what_status_shows_and_nothing_else(tmp_path: Path) -> None:
    umask = os.umask(0o077)
    try:
        runtime_files.write_state(str(tmp_path), STATUS)
        runtime_files.write_config(str(tmp_path), saved_config())
    finally:
        os.umask(umask)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"state.json": 0o644, "config.json": 0o600}
