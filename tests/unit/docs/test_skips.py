"""Whether a test that skips itself is noticed: it may hide a tool that is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

pytestmark = pytest.mark.slow

_HOOKS = "from tests.conftest import pytest_make_collect_report, pytest_runtest_makereport\n"
_AS = "import os\nos.geteuid = lambda: {}\n"
SKIPPED = {
    "test_mark.py": "import pytest\n@pytest.mark.skipif(True, reason='no tool')\ndef test_x(): pass\n",
    "test_call.py": "import pytest\ndef test_x(): pytest.skip('no tool')\n",
    "test_module.py": "import pytest\npytest.skip('no tool', allow_module_level=True)\n",
}
EXPECTED = {"test_expected.py": "import pytest\n@pytest.mark.xfail\ndef test_x(): assert False\n"}


@pytest.mark.parametrize("user", [0, 1000])
def test_root_skips_nothing(tmp_path: Path, user: int) -> None:
    done = run(tmp_path, user, SKIPPED | EXPECTED)
    assert done.returncode == (1 if user == 0 else 0), done.stdout
    assert ("which as root is a failure" in done.stdout) == (user == 0)
    assert "test_expected.py" not in done.stdout, "what is expected to fail may"
    for name in SKIPPED:
        (message,) = (
            line
            for line in done.stdout.splitlines()
            if line.startswith(("FAILED", "ERROR", "SKIPPED")) and name in line
        )
        assert "no tool" in message
        assert ("which as root is a failure" in message) == (not message.startswith("SKIPPED")) == (user == 0)


def run(folder: Path, user: int, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    for name, text in {"conftest.py": _AS.format(user) + _HOOKS, **files}.items():
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-rfEs", "--continue-on-collection-errors", "-c", "/dev/null"]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "COLUMNS": "400"}
    return subprocess.run(
        [*command, "--rootdir", folder, folder], cwd=folder, env=environment, capture_output=True, text=True
    )
