"""The configuration that the service's workers use: parsed once by the check, and saved in /run."""

from __future__ import annotations

from capacityd.config import load
from capacityd.worker import runtime_files
from capacityd.worker.runtime_files import CheckedConfig


def active_config(folder: str, selected: str | None) -> CheckedConfig:
    """The active configuration, and the errors of its check. Raises nothing.

    folder: the runtime directory. selected: the file or folder that the command line selects; None: it selects none.
    """
    if saved := runtime_files.read_config(folder):
        return saved
    # There was no room to save the configuration at boot, so this worker reads the files.
    loaded = load(selected)
    return CheckedConfig(loaded.config, tuple(problem.public() for problem in loaded.problems))
