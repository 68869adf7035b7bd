"""The detectors. Each module here declares the detector of its name as the constant DETECTOR."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from capacityd.schema.device import Detector


@cache
def detector_names() -> tuple[str, ...]:
    """The names of all detectors, sorted."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def load_detector(name: str) -> Detector:
    """The detector with this name (one of detector_names()). Imports only the detector's module."""
    detector: Detector = import_module(f"{__name__}.{name}").DETECTOR
    return detector
