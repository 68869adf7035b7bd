"""Configurations from text."""

from __future__ import annotations

import tempfile

from capacityd.config import Loaded, load

NAME = "example.com/x"
HEADER = f'[resources."{NAME}"]'


def loaded(text: str | bytes) -> Loaded:
    """What a file of this content is. Its path is that of the problems, and the only one of the files."""
    with tempfile.NamedTemporaryFile(suffix=".toml") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
        file.flush()
        return load(file.name)
