"""The detectors: a file for each, found by its name. A detector is a constant DETECTOR in a module of this package."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from capacityd.model import Detector, DeviceDetector, ValueDetector


@cache
def names() -> tuple[str, ...]:
    """The names of all detectors, sorted."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__)))


def load(name: str) -> Detector:
    """The detector of this name (one of names()); only its own module is imported."""
    found = import_module(f"{__name__}.{name}").DETECTOR
    if not isinstance(found, DeviceDetector | ValueDetector):
        raise TypeError(f"{name}.DETECTOR is not a detector")
    return found
