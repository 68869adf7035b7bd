"""The service's worker, as a process, on a machine that has not joined a cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from capacityd.model.messages import CheckResult, Message, PassResult
from capacityd.model.options import Selection
from capacityd.model.reasons import Job, RetryCause
from capacityd.node.kubelet_kubeconfig import KUBECONFIG_PATHS
from tests.support.workers import RUN, job_line, messages_of, worker_arguments

pytestmark = pytest.mark.slow


def run_worker(folder: Path, job: Job) -> tuple[Message, set[str]]:
    """Runs a worker. Returns its result, and the modules that it has imported."""
    arguments = worker_arguments(folder, Selection(str(folder / "capacityd.toml")))
    command = [sys.executable, "-I", "-X", "importtime", "-c", RUN, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, input=job_line(job, "start"))
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    *_, result = messages_of(done.stdout)
    return result, {line.rpartition("|")[2].strip() for line in lines}


def test_while_there_is_no_kubeconfig_nothing_imports_the_kubernetes_client(tmp_path: Path) -> None:
    (tmp_path / "capacityd.toml").write_text('[resources."example.com/a"]\nstatic = { quantity = 4 }\n')
    checked, _ = run_worker(tmp_path, Job.CHECK)
    assert isinstance(checked, CheckResult)
    assert checked.config
    result, imported = run_worker(tmp_path, Job.RECONCILE)
    assert "capacityd" in imported, "otherwise no imports were reported"
    assert not imported & {"kubernetes", "urllib3", "argparse", "capacityd.cli"}
    assert isinstance(result, PassResult)
    assert result.error
    assert (result.cause, result.credential_files) == (RetryCause.OTHER, ())
    assert checked.config.files.keys() >= set(KUBECONFIG_PATHS), "the possible paths are already watched"
    assert result.status.startswith("waiting for a kubeconfig: ")
