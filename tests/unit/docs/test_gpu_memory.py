"""The script of docs/files-and-programs.md that writes the memory of GPUs to a file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import ROOT
from tests.support.pages import blocks

PAGE = ROOT / "docs/files-and-programs.md"


def run(folder: Path, nvidia_smi: str) -> tuple[int, str]:
    """Runs the page's script while its file contains "7". Returns the exit status and the file's new content.

    nvidia_smi: the shell commands that stand in for nvidia-smi.
    """
    (script,) = (block.text for block in blocks(PAGE.read_text()) if block.name == "/usr/local/sbin/gpu-memory")
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{nvidia_smi}\n")
    (folder / "nvidia-smi").chmod(0o755)
    (folder / "mib").write_text("7\n")
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "RUNTIME_DIRECTORY": str(folder)}
    done = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, check=False)
    return done.returncode, (folder / "mib").read_text()


def test_the_memory_of_all_gpus_is_added(tmp_path: Path) -> None:
    assert run(tmp_path, r"printf '81559\n16376\n'") == (0, "97935\n")


@pytest.mark.parametrize("nvidia_smi", ["echo No devices were found", "exit 9", r"printf '81559\n[N/A]\n'", "true"])
def test_without_a_number_the_file_stays_as_it_is(tmp_path: Path, nvidia_smi: str) -> None:
    status, content = run(tmp_path, nvidia_smi)
    assert status != 0
    assert content == "7\n"
