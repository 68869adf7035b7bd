"""This program as another process of its own: with this Python, isolated, and this package wherever it lies."""

from __future__ import annotations

import os
import sys

_START = "import sys; sys.path.insert(0, sys.argv[1]); from capacityd.{} import main; sys.exit(main(sys.argv[2:]))"
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def own_command(module: str, *arguments: str) -> list[str]:
    """The command that runs main() of one of our modules with these arguments."""
    return [sys.executable, "-I", "-c", _START.format(module), _ROOT, *arguments]
