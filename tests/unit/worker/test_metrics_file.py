"""The metrics file: when it is written and removed, and how errors with the file are reported."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from capacityd.model.messages import MetricsResult
from capacityd.schema.config import Settings
from capacityd.worker import metrics, metrics_file
from capacityd.worker.pass_state import PassStatus
from tests import ROOT
from tests.unit.worker.test_metrics import CONFIG, STATUS


class Passes:
    """Writes the metrics file as passes do. Each call of end() stands for the end of a pass."""

    def __init__(self) -> None:
        self.earlier: str | None = None  # the path that was configured in the pass before

    def end(self, textfile: Path | None, status: PassStatus = STATUS) -> MetricsResult | None:
        configured = replace(CONFIG, settings=Settings(textfile=str(textfile) if textfile else None))
        result = metrics_file.replace(self.earlier, configured, status)
        self.earlier = configured.settings.textfile
        return result


@pytest.fixture
def passes() -> Passes:
    return Passes()


def test_every_user_may_read_the_file(passes: Passes, tmp_path: Path) -> None:
    path = tmp_path / "x.prom"
    before = os.umask(0o077)
    try:
        for _ in range(2):
            assert passes.end(path) == MetricsResult(str(path))
    finally:
        os.umask(before)
    assert path.read_bytes() == metrics.metrics_text(CONFIG, STATUS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["x.prom"]


def test_a_file_at_an_earlier_path_is_removed(passes: Passes, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("1.prom", "2.prom", "3.prom")]
    for path in (*paths, None, paths[0], None):
        passes.end(path)
        assert [p for p in paths if p.exists()] == ([] if path is None else [path])


FOREIGN: dict[str, Callable[[Path], object]] = {
    "another program's metrics": lambda path: path.write_text("# HELP node_x x\n"),
    "a link": lambda path: path.symlink_to(path.with_name("target")),
    "a pipe": os.mkfifo,
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_that_is_not_capacityds_is_not_removed(passes: Passes, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.prom"
    passes.end(path)
    path.rename(tmp_path / "target")
    FOREIGN[kind](path)
    assert passes.end(None) is None
    assert os.path.lexists(path)


def test_a_file_that_cannot_be_removed_is_an_error(
    passes: Passes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = str(tmp_path / "old.prom"), str(tmp_path / "new.prom")
    reason = "could not be removed: Permission denied; node_exporter still reports its old metrics"

    unlink = os.unlink

    def refuse(path: str) -> None:
        if path.endswith(("/old.prom", "/new.prom")):
            raise PermissionError(13, "Permission denied", path)
        unlink(path)

    passes.end(Path(old))
    monkeypatch.setattr("os.unlink", refuse)
    assert passes.end(Path(new)) == MetricsResult(new, f"{old} {reason}", "delete it")
    assert passes.end(None) == MetricsResult("", f"{new} {reason}", "delete it")
    assert metrics_file.remove(new) == f"{new} {reason}"


def test_the_debian_postrm_recognizes_the_file_by_its_first_line() -> None:
    first_line = metrics.metrics_text(CONFIG, STATUS).splitlines()[0].decode()
    # The script contains a line such as: grep -q "^# HELP capacityd_resource_published "
    (pattern,) = re.findall(r'grep -q "\^(.*)"', (ROOT / "packaging/deb/capacityd.postrm").read_text())
    assert first_line.startswith(pattern)
    assert metrics.metrics_text(CONFIG, PassStatus(1.0)).decode().startswith(pattern), "before the Node was read"


@pytest.mark.parametrize(
    ("place", "error", "advice"),
    [
        ("absent/x.prom", "No such file or directory", "create the folder"),
        ("file/x.prom", "Not a directory", ""),
        ("folder/x.prom", "Is a directory", ""),
    ],
)
def test_a_file_that_cannot_be_written_is_an_error_with_advice(
    passes: Passes, tmp_path: Path, place: str, error: str, advice: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder/x.prom.new").mkdir(parents=True)  # a new file has this name until it is complete
    path = tmp_path / place
    for _ in range(2):
        written = passes.end(path)
        assert written
        assert written.error == f"{path} could not be written: {error}"
        assert written.advice.startswith(advice)


def test_a_link_that_the_owner_of_the_folder_has_made_is_not_written(passes: Passes, tmp_path: Path) -> None:
    """The link has the name of an unfinished file. The content and the mode of its target do not change."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "x.prom.new").symlink_to(tmp_path / "secret")
    written = passes.end(tmp_path / "x.prom")
    assert written
    assert not written.error
    assert (tmp_path / "x.prom").read_text().startswith("# HELP")
    assert ((tmp_path / "secret").read_text(), (tmp_path / "secret").stat().st_mode & 0o777) == ("secret", 0o600)
    assert sorted(os.listdir(tmp_path)) == ["secret", "x.prom"]


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a link of another user")
def test_a_link_of_another_user_to_the_folder_is_not_followed(passes: Passes, tmp_path: Path) -> None:
    """Otherwise the owner of the parent folder could make root overwrite a file elsewhere."""
    for name in ("elsewhere", "theirs"):
        (tmp_path / name).mkdir()
    (tmp_path / "elsewhere/x.prom").write_text("root's")
    above = tmp_path / "theirs"
    (above / "metrics").symlink_to("../elsewhere")
    for path in (above, above / "metrics"):
        os.chown(path, 12345, 12345, follow_symlinks=False)
    written = passes.end(above / "metrics/x.prom")
    assert written
    assert f"{above}/metrics may be another user's link" in written.error
    assert (tmp_path / "elsewhere/x.prom").read_text() == "root's"
    assert os.listdir(tmp_path / "elsewhere") == ["x.prom"]


def test_without_the_library_the_message_names_the_package(
    passes: Passes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    written = passes.end(tmp_path / "x.prom")
    assert written
    assert written.error
    assert written.advice == "it needs the package python3-prometheus-client"
