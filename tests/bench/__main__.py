"""`make bench` measures memory, wake-ups, open files and times of the agent, in a mount namespace.

It exits with status 1 if a value is above its limit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable

from tests.bench import idle, plugging
from tests.bench.figure import Figure

PARTS: dict[str, Callable[[], Iterable[Figure]]] = {"idle": idle.figures, "plugging": plugging.figures}


def main(parts: list[str]) -> int:
    """Measures the named parts, or all parts."""
    if not set(parts) <= PARTS.keys():
        print(f"usage: python -m tests.bench [{'|'.join(PARTS)}]...", file=sys.stderr)
        return 2
    own, outside = (os.readlink(f"/proc/{pid}/ns/mnt") for pid in ("self", os.getppid()))
    if own == outside:
        again = ["unshare", "--mount", "--propagation", "private", sys.executable, "-m", "tests.bench", *parts]
        os.execvp(again[0], again)
    print(f"{'':<66}{'measured':>10}{'at most':>10}")
    figures = []
    for part in parts or PARTS:
        for figure in PARTS[part]():
            print(figure.line(), flush=True)
            figures.append(figure)
    return int(any(figure.missed for figure in figures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
