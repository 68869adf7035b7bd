"""Configurations from text."""

from __future__ import annotations

import os
import tempfile

from capacityd.config import Loaded, load

NAME = "example.com/x"
HEADER = f'[resources."{NAME}"]'


def loaded(text: str | bytes) -> Loaded:
    """Loads a file with this content. The file's path appears in the problems."""
    with tempfile.NamedTemporaryFile(suffix=".toml") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
        file.flush()
        os.chmod(file.name, 0o644)
        return load(file.name)
