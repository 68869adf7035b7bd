"""How to start this program again in a new process, with the same Python and the same package."""

from __future__ import annotations

import os
import sys

_START = "import sys; sys.path.insert(0, sys.argv[1]); from capacityd.{} import main; sys.exit(main(sys.argv[2:]))"
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def command_for(module: str, *arguments: str) -> list[str]:
    """Returns the command that runs main(arguments) of the module capacityd.MODULE, isolated from the environment."""
    return [sys.executable, "-I", "-c", _START.format(module), _ROOT, *arguments]
