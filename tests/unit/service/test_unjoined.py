"""On a machine that has not joined a cluster, runs the child of the service as its own process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import capacityd
from capacityd.model.codec import decode_variant, parse
from capacityd.model.messages import CheckResult, Message, PassResult
from capacityd.model.reasons import RetryCause
from capacityd.node.kubelet_kubeconfig import KUBECONFIG_PATHS

pytestmark = pytest.mark.slow

_RUN = "import sys; sys.path.insert(0, sys.argv[1]); from capacityd.__main__ import main; sys.exit(main(sys.argv[2:]))"
_AGENT = str(Path(capacityd.__file__).parents[1])


def child(folder: Path, *job: str) -> tuple[Message, set[str]]:
    """Runs a child. Returns its result, and the packages that it has imported."""
    command = [sys.executable, "-I", "-X", "importtime", "-c", _RUN, _AGENT, "--config", str(folder / "capacityd.toml")]
    done = subprocess.run([*command, "worker", str(folder), *job], capture_output=True, text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    result: Message = decode_variant(Message, parse(done.stdout.splitlines()[-1].encode()))
    return result, {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


def test_while_there_is_no_kubeconfig_nothing_imports_the_kubernetes_client(tmp_path: Path) -> None:
    (tmp_path / "capacityd.toml").write_text('[resources."example.com/a"]\nstatic = { quantity = 4 }\n')
    checked, _ = child(tmp_path, "check", "boot")
    assert isinstance(checked, CheckResult)
    assert checked.config
    result, imported = child(tmp_path, "reconcile", "boot")
    assert "capacityd" in imported, "otherwise no imports were reported"
    assert not imported & {"kubernetes", "urllib3"}
    assert isinstance(result, PassResult)
    assert result.failure
    assert (result.failure.cause, result.failure.credential_files) == (RetryCause.CREDENTIALS, KUBECONFIG_PATHS)
    assert checked.config.files.keys() >= set(KUBECONFIG_PATHS), "so nothing further has to be watched"
    assert result.status.startswith("waiting for a kubeconfig: ")
