"""`python -m tests.cluster.scale`: 200 Nodes, each with a real service, and ten minutes of random changes.

--kubernetes 1.30: the version of the control plane. --nodes, --minutes: the size. --seed: to repeat a run.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from pathlib import Path

from tests.cluster.binaries import BuildError, pinned
from tests.cluster.controlplane import control_plane
from tests.cluster.releases import programs, release
from tests.cluster.scale.run import Disagreement, Scenario, run

_RATE = 1.5
"""Steps a second for all Nodes together: as many as two cores can handle."""

_RESYNC = 1.2
"""The resync interval, in seconds per Node, so that the Nodes together resync less than once a second."""


def inotify_instances() -> int:
    """How many inotify instances the kernel allows for all of root's processes together."""
    return int(Path("/proc/sys/fs/inotify/max_user_instances").read_text())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.scale", description=__doc__.partition("\n")[0])
    parser.add_argument("--kubernetes", metavar="VERSION", default=pinned(), help="such as 1.30")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    options = parser.parse_args(arguments)
    if os.geteuid() != 0:
        print("it makes namespaces, which needs root", file=sys.stderr)
        return 1
    if (needed := 2 * options.nodes) > inotify_instances():
        print(f"each service watches files: sysctl fs.inotify.max_user_instances={needed}", file=sys.stderr)
        return 1
    scenario = Scenario(
        nodes=options.nodes,
        steps=round(60 * options.minutes * _RATE),
        seed=options.seed,
        rate=_RATE,
        resync=max(10, round(_RESYNC * options.nodes)),
        lower_after="10s",
    )
    try:
        version = release(options.kubernetes)
        print(f"Kubernetes {version}, seed {scenario.seed}, {scenario}", flush=True)
        with control_plane(binaries=programs(version)) as cluster:
            run(cluster, scenario, lambda line: print(line, flush=True))
    except (Disagreement, BuildError, TimeoutError, RuntimeError, subprocess.SubprocessError) as error:
        print(f"\nThe run with seed {scenario.seed} failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
