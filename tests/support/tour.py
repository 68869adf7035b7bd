"""The recorded machines of the pages. `python -m tests.support.tour` rewrites the output of the pages' commands."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from capacityd.cli import run
from capacityd.host.recording.format import Recording, read_recording
from kubectl_capacityd.__main__ import run as run_kubectl
from tests import ROOT
from tests.support.pages import pages, place, play

MACHINE = ROOT / "conf/examples/tour/machine.json"
# The commands with the options --machine, --node-file and --config.
_OF_MACHINES = ("devices", "probe", "template", "plan", "apply", "withdraw")
_OF_NODES = ("plan", "apply", "withdraw")
_OF_CONFIGURATIONS = ("probe", "template", "plan", "apply", "withdraw", "config")


def recording() -> Recording:
    """A machine with four dongles at a hub, a mouse, two NICs (the default route is on the 1G one) and two disks."""
    return read_recording(str(MACHINE))


def recordings() -> dict[str, Recording]:
    """The machines of all pages, by path below conf/examples."""
    examples = ROOT / "conf/examples"
    paths = [MACHINE, *sorted((examples / "machines").iterdir())]
    return {str(path.relative_to(examples)): read_recording(str(path)) for path in paths}


class RecordedWorld:
    """Runs a page's commands on recorded machines and on Nodes in files. A folder replaces the root directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._machine = self._node = ""
        self._status = 0
        shutil.copytree(ROOT / "conf", folder / "conf")
        (folder / "build").mkdir()
        shutil.copy(ROOT / "conf/examples/tour/node.json", folder / "build/node.json")

    def directive(self, *words: str) -> None:
        match words:
            case ["machine", machine]:
                self._machine = machine
            case ["node", node]:
                self._node = "build/of-page.json"
                shutil.copy(ROOT / node, self._folder / self._node)
            case ["remove", "files"]:
                shutil.rmtree(self._folder / "etc")
            case _:
                raise ValueError(f"<!-- docs: {' '.join(words)} --> is unknown here")

    def file(self, name: str, text: str) -> None:
        path = self._folder / name.removeprefix("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, command: str, shown: str) -> str:
        words = [word for word in shlex.split(command) if word != "sudo"]
        if words == ["echo", "$?"]:
            return f"{self._status}\n"
        is_kubectl = words[:2] == ["kubectl", "capacityd"]
        if is_kubectl:
            words = words[1:]
        if words[0] != "capacityd":
            raise ValueError(f'"{command}" cannot run on a recording: use <!-- docs: cluster --> or a block of sh')
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self._folder)
            patch.setenv("COLUMNS", "120")
            output = self._output(run_kubectl if is_kubectl else run, [*words[1:], *self._options(words)])
        return re.sub(r"(?<![\w/])etc/capacityd", "/etc/capacityd", output)  # a relative path becomes absolute

    def _options(self, words: list[str]) -> list[str]:
        """The options for the machine, the configuration and the Node of the page."""
        arguments: list[str] = []
        if self._machine and words[1] in _OF_MACHINES and "--machine" not in words:
            arguments += ["--machine", self._machine]
        if words[1] in _OF_CONFIGURATIONS and "--config" not in words and (self._folder / "etc/capacityd").exists():
            arguments += ["--config", "etc/capacityd/conf.d"]
        if self._node and words[1] in _OF_NODES and "--node-file" not in words:
            arguments += ["--node-file", self._node]
        return arguments

    def _output(self, run: Callable[[list[str]], int], arguments: list[str]) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                self._status = run(arguments)
            except SystemExit as e:  # argparse exits this way
                self._status = int(e.code or 0)
        return out.getvalue()


def printed(text: str, folder: Path) -> str:
    """The page with its commands' output. folder: an empty folder to work in."""
    return play(text, RecordedWorld(folder))


def main() -> None:
    """Rewrites the output on all pages that need no cluster (for the other pages: make docs-cluster)."""
    for page in pages():
        text = page.read_text()
        if not place(text):
            with tempfile.TemporaryDirectory() as folder:
                page.write_text(printed(text, Path(folder)))


if __name__ == "__main__":
    main()
