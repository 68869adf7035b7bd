"""The tests, grouped by what they need: nothing, recordings, a control plane, the package, a virtual machine."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The project's folder."""
