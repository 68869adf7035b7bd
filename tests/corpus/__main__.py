"""python -m tests.corpus [NAME…]: records these machines of the corpus again, or all machines."""

from __future__ import annotations

import sys
import time

from tests.corpus.described import machines, toml
from tests.corpus.emulator import record


def main(names: list[str]) -> None:
    unknown = set(names) - machines().keys()
    if unknown:
        sys.exit(f"there is no machine {', '.join(sorted(unknown))}")
    for machine in machines().values():
        if not names or machine.name in names:
            print(f"{machine.name}: ", end="", flush=True)
            start = time.monotonic()
            record(needs=toml(), target=machine.recording, **machine.qemu)
            print(f"{time.monotonic() - start:.0f} s, {machine.recording.stat().st_size // 1024} KiB", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
