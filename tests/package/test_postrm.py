"""The package's postrm in a folder with an image (DPKG_ROOT): which metrics files it removes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests import ROOT

METRICS = "# HELP capacityd_resource_published q\n# TYPE capacityd_resource_published gauge\n"
USUAL_PATH = "var/lib/prometheus/node-exporter/capacityd.prom"


def run(image: Path, action: str) -> None:
    script = ROOT / "packaging/deb/capacityd.postrm"
    environment = {"PATH": os.environ["PATH"], "DPKG_ROOT": str(image)}
    done = subprocess.run(["sh", "-eu", script, action], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An image whose service has written its files."""
    image = tmp_path / "image"
    for name in ("etc/capacityd/a.toml", "run/capacityd/state.json", USUAL_PATH):
        (image / name).parent.mkdir(parents=True)
        (image / name).touch()
    (image / USUAL_PATH).write_text(METRICS)
    return image


def files(image: Path) -> set[str]:
    return {str(path.relative_to(image)) for path in image.rglob("*") if not path.is_dir() or path.is_symlink()}


def test_a_purge_leaves_nothing_but_the_configuration(image: Path) -> None:
    run(image, "remove")
    assert files(image) == {"etc/capacityd/a.toml", "run/capacityd/state.json"}
    run(image, "purge")
    assert files(image) == {"etc/capacityd/a.toml"}


@pytest.mark.parametrize("action", ["upgrade", "failed-upgrade", "abort-install", "disappear"])
def test_other_actions_remove_nothing(image: Path, action: str) -> None:
    before = files(image)
    run(image, action)
    assert files(image) == before


@pytest.mark.parametrize("content", ["# HELP node_x x\n", "# HELP capacityd_fleet_findings n\n", ""])
def test_a_file_of_another_program_stays(image: Path, content: str) -> None:
    (image / USUAL_PATH).write_text(content)
    run(image, "purge")
    assert USUAL_PATH in files(image)


def test_a_link_stays(image: Path) -> None:
    (image / USUAL_PATH).rename(image / "target")
    (image / USUAL_PATH).symlink_to(image / "target")
    run(image, "purge")
    assert {USUAL_PATH, "target"} <= files(image)


def test_no_link_out_of_the_image_is_followed(image: Path, tmp_path: Path) -> None:
    """On the image's own machine, the link leads to a folder of that machine. Here it leads to the build host's."""
    folder = (image / USUAL_PATH).parent
    folder.rename(tmp_path / "folder-of-the-host")
    folder.symlink_to(tmp_path / "folder-of-the-host")
    run(image, "purge")
    assert (tmp_path / "folder-of-the-host/capacityd.prom").exists()
