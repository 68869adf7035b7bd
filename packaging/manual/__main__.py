"""python3 packaging/manual NAME: prints one of the files that are made from the program itself.

The package is built with them, docs/reference.md is one of them; the program does not carry what makes them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import completions
import pages

from capacityd.config.schema import schema

MADE: dict[str, Callable[[], str]] = {
    "capacityd.8": pages.manual,
    "capacityd.toml.5": pages.manual_of_files,
    "capacityd.bash": completions.bash,
    "_capacityd": completions.zsh,
    "reference.md": pages.reference,
    "schema.json": lambda: json.dumps(schema(), separators=(",", ":"), ensure_ascii=False) + "\n",
}

if len(sys.argv) != 2 or sys.argv[1] not in MADE:
    sys.exit(f"usage: python3 packaging/manual {'|'.join(MADE)}")
sys.stdout.buffer.write(MADE[sys.argv[1]]().encode())
