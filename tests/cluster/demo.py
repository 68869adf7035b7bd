"""`make demo` runs docs/quickstart.md section by section, on a real control plane with a scheduler and a kubelet.

It prints each section with the output of the commands. If an output differs from the page, the exit status is 1.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests import ROOT
from tests.cluster.binaries import PACKAGES, BuildError, programs
from tests.cluster.docs import cluster_world
from tests.support.pages import play, same

PAGE = ROOT / "docs/quickstart.md"
_SECTION = re.compile(r"^(?=## )", re.MULTILINE)
_DIRECTIVE = re.compile(r"^<!-- docs: (.*) -->$", re.MULTILINE)


def run_demo() -> str:
    """Runs and prints the sections. Returns the title of the first section that differs from the page, or ""."""
    with cluster_world() as world:
        for section in _SECTION.split(PAGE.read_text()):
            played = play(section, world)
            if "```console" in section:
                print(_DIRECTIVE.sub(r"[\1]", played), end="", flush=True)
            if same(played) != same(section):
                return section.partition("\n")[0]
    return ""


def main() -> int:
    if os.geteuid() != 0:
        print("the demo runs a kubelet, which needs root: sudo make demo", file=sys.stderr)
        return 1
    print("A real etcd, kube-apiserver, kube-scheduler and kubelet run on this machine until the demo ends.")
    print("Two things are simulated: the dongles, and the container runtime, which starts no containers.")
    if programs().missing(PACKAGES):
        print("The programs have to be built first, once: about 6 minutes on 2 cores.")
    print(flush=True)
    try:
        if unexpected := run_demo():
            print(f'The demo failed: "{unexpected}" of {PAGE.name} has another result.', file=sys.stderr)
            return 1
    except (BuildError, TimeoutError, RuntimeError, subprocess.SubprocessError) as error:
        print(f"The demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # as a shell reports SIGINT
    print("\nEvery command had the result that the page shows.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
