"""The examples for cloud-init: valid for cloud-init itself, what they write valid for capacityd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from capacityd.config import load
from tests import ROOT
from tests.package.machine import Machine, machine

EXAMPLES = sorted((ROOT / "conf/cloud-init").glob("*.yaml"))


@pytest.fixture(scope="module")
def debian() -> Iterator[Machine]:
    """Debian 12, whose tree has cloud-init."""
    with machine("12") as running:
        yield running


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_schema(debian: Machine, path: Path) -> None:
    output = debian.out("cloud-init", "schema", "--config-file", debian.put(path))
    assert "Valid" in output


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_what_is_written(path: Path, tmp_path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    drop_ins = [f for f in document["write_files"] if f["path"].startswith("/etc/capacityd/conf.d/60-")]
    assert drop_ins
    for number, file in enumerate(drop_ins):
        written = tmp_path / f"{number}.toml"
        written.write_text(file["content"])
        assert load(str(written)).problems == ()
    assert ["systemctl", "enable", "--now", "--no-block", "capacityd.service"] in document["runcmd"]
