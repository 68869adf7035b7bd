"""The program kubectl-capacityd, which kubectl runs for `kubectl capacityd`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kubectl_capacityd.run import run


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line, by default this process's own, and returns its exit status."""
    return run(sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
