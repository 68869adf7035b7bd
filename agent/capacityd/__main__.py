"""python3 -m capacityd, and the console script."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from capacityd.cli import run


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line, by default this process's own, and returns its exit status."""
    return run(sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
