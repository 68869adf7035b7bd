"""The folders and the skipped files that `config check` lists."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from capacityd.cli import run
from capacityd.config import load

ONE_RESOURCE = '[resources."example.com/b"]\nstatic = { quantity = 1 }\n'


def test_the_files_that_are_read_and_skipped_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "1.toml").write_text(ONE_RESOURCE)
    (tmp_path / "2.toml").write_text(f"\n{ONE_RESOURCE}")
    for name in (".3.toml", "3.toml.txt"):
        (tmp_path / name).write_text(ONE_RESOURCE)
    command = ["config", "check", "--config", str(tmp_path)]
    assert run(command) == 0
    out, err = capsys.readouterr()
    skipped = [f"{tmp_path}/{name}" for name in (".3.toml", "3.toml.txt")]
    listed = f"  {tmp_path}: 1.toml, 2.toml\n  skipped: {', '.join(skipped)}\n"
    assert (out, err) == (f"no errors: 1 resource from 2 files\n{listed}", "")
    assert run([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["skipped"] == skipped


def test_all_folders_are_listed_if_none_has_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    folders = {"/usr/lib/capacityd/conf.d": None, "/etc/capacityd/conf.d": ()}
    with mock.patch("capacityd.cli.commands.config.load", return_value=replace(load("/dev/null"), folders=folders)):
        assert run(["config", "check"]) == 0
    assert capsys.readouterr().out == (
        "no errors: 0 resources from 0 files\n"
        "  /usr/lib/capacityd/conf.d: no such folder\n  /etc/capacityd/conf.d: no file\n"
    )
