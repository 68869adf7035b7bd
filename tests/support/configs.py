"""Configurations from text."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Mapping
from types import MappingProxyType

from capacityd.config import Loaded, load
from capacityd.schema.config import Config, Resource, Settings

NAME = "example.com/x"
HEADER = f'[resources."{NAME}"]'
NO_EXPECTATION: Mapping[str, int] = MappingProxyType({})


def loaded(text: str | bytes) -> Loaded:
    """Loads a file with this content. The file's path appears in the problems."""
    with tempfile.NamedTemporaryFile(suffix=".toml") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
        file.flush()
        os.chmod(file.name, 0o644)
        return load(file.name)


def config_with(
    adopt: Collection[str] = (),
    expect: Mapping[str, int] = NO_EXPECTATION,
    *,
    condition: bool = True,
    complete: bool = True,
    digest: str = "",
) -> Config:
    """The configuration of the resources that have adopt or expect."""
    names = sorted({*adopt, *expect})
    resources = tuple(Resource(name, "static", (), adopt=name in adopt, expect=expect.get(name)) for name in names)
    return Config(resources, Settings(condition=condition), complete=complete, digest=digest)
