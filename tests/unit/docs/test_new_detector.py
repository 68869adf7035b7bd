"""A detector made from the documentation alone, as a new contributor would: three files, and nothing else edited."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests import ROOT

PAGE = ROOT / "agent/new-detector.md"


def test_the_page_makes_a_detector(tmp_path: Path) -> None:
    for folder in ("agent", "conf", "docs", "tests/corpus", "tests/support", "tests/unit"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "tests/__init__.py", "tests/conftest.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    made = dict(re.findall(r"^```\w+ (\S+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S))
    assert list(made) == [
        "agent/capacityd/detectors/tpm.py",
        "tests/unit/detectors/test_tpm.py",
        "conf/examples/tpm.toml",
    ]
    for path, text in made.items():
        (tmp_path / path).write_text(text)

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def capacityd(*arguments: str) -> str:
        start = "import sys; sys.path.insert(0, 'agent'); from capacityd.__main__ import main; sys.exit(main())"
        return run("/usr/bin/python3", "-I", "-c", start, *arguments)

    tools = [str(Path(sys.executable).parent / tool) for tool in ("pytest", "mypy", "ruff")]
    tests = [f"tests/unit/{name}.py" for name in ("detectors/test_tpm", "cli/test_starter", "config/test_json_schema")]
    output = run(tools[0], "-v", *tests, "-k", "test_tpm or without_devices or shipped_files")
    for test in tests:
        assert re.search(rf"{test}::\S+ PASSED", output), output
    run(tools[1], "--no-incremental", "agent/capacityd/detectors/tpm.py")
    run(tools[2], "check", *list(made)[:2])
    run(tools[2], "format", "--check", *list(made)[:2])
    capacityd("config", "check", "--config", "conf/examples/tpm.toml")
    (tmp_path / "machine.json").write_text(json.dumps(_machine()))
    seen = ["--machine", "machine.json"]
    assert "tpm0" in capacityd("devices", "tpm", *seen)
    found = json.loads(capacityd("probe", "--json", "--config", "conf/examples/tpm.toml", *seen))
    assert [(r["name"], r["quantity"]) for r in found["resources"]] == [("example.com/tpm", 1)]


def _machine() -> dict[str, object]:
    chip = "/sys/devices/platform/MSFT0101:00/tpm/tpm0"
    return {
        "files": {f"{chip}/tpm_version_major": "2\n"},
        "links": {"/sys/class/tpm/tpm0": "../../devices/platform/MSFT0101:00/tpm/tpm0"},
    }
