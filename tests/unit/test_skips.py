"""Whether a test that skips itself is noticed: it may hide a tool that is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_HOOKS = "from tests.conftest import pytest_make_collect_report, pytest_runtest_makereport\n"
_AS = "import os\nos.geteuid = lambda: {}\n"


@pytest.mark.parametrize(
    "text",
    [
        "import pytest\n@pytest.mark.skipif(True, reason='no tool')\ndef test_x(): pass\n",
        "import pytest\ndef test_x(): pytest.skip('no tool')\n",
        "import pytest\npytest.skip('no tool', allow_module_level=True)\n",
    ],
)
@pytest.mark.parametrize(("user", "status"), [(0, (1, 2)), (1000, (0, 5))])
def test_root_skips_nothing(tmp_path: Path, text: str, user: int, status: tuple[int, ...]) -> None:
    (tmp_path / "conftest.py").write_text(_AS.format(user) + _HOOKS)
    (tmp_path / "test_x.py").write_text(text)
    done = run(tmp_path)
    assert done.returncode in status, done.stdout
    assert ("which as root is a failure" in done.stdout) == (user == 0)
    assert "no tool" in done.stdout


def test_what_is_expected_to_fail_may(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(_AS.format(0) + _HOOKS)
    (tmp_path / "test_x.py").write_text("import pytest\n@pytest.mark.xfail\ndef test_x(): assert False\n")
    assert run(tmp_path).returncode == 0


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-c", "/dev/null", "--rootdir", str(folder), str(folder)]
    return subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )
