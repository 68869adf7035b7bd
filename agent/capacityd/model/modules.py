"""The Python modules that capacityd needs, their packages, and the error for a missing module."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from traceback import walk_tb
from types import FrameType

from capacityd.model.errors import CapacitydError

PACKAGES = {
    "kubernetes": "kubernetes",
    "prometheus_client": "'capacityd[metrics]'",
    "psutil": "psutil",
    "pyudev": "pyudev",
    "systemd": "'capacityd[service]'",
    "tabulate": "tabulate",
    "tomli": "tomli",
    "urllib3": "urllib3",
    "yaml": "pyyaml",
}
"""Module -> what pip installs for it, quoted for a shell where necessary."""
OPTIONAL = ("prometheus_client",)
"""Modules that only metrics need. The service starts without them."""
COMMANDS_ONLY = ("tabulate",)
"""Modules that only users' commands need."""
_INCLUDED_IN_PYTHON = ("tomli",) if sys.version_info >= (3, 11) else ()  # as tomllib
_NOT_FOR_SERVICE = (*OPTIONAL, *COMMANDS_ONLY, *_INCLUDED_IN_PYTHON)
SERVICE_MODULES = tuple(module for module in PACKAGES if module not in _NOT_FOR_SERVICE)
"""The modules that the service and its workers need."""


def debian_package(module: str) -> str:
    """The name of a module's package in Debian."""
    return f"python3-{module.replace('_', '-')}"


def require_service_modules() -> None:
    """Raises CapacitydError if a module that the service needs is missing."""
    missing = [module for module in SERVICE_MODULES if find_spec(module) is None]
    if missing:
        raise _missing_modules(missing)


def import_failure(error: Exception) -> CapacitydError | None:
    """The error about a failed import; None if the exception does not come from an import.

    A library that does not fit another library, or this version of Python, may raise any exception during its import.
    """
    frames = [frame for frame, _line in walk_tb(error.__traceback__)]
    if isinstance(error, ImportError | SyntaxError) or any(map(_is_import, frames)):
        return _import_error(error, frames)
    return None


def _is_import(frame: FrameType) -> bool:
    """Whether the frame of a traceback runs the top-level code of a library's module, as an import does."""
    is_library = _package_of(frame) not in ("capacityd", "__main__")
    return is_library and frame.f_code.co_name == "<module>"


def _package_of(frame: FrameType) -> str:
    """The top-level package of the module that the frame runs; "" if unknown."""
    module = str(frame.f_globals.get("__name__", ""))
    package, _, _ = module.partition(".")
    return package


def _import_error(error: Exception, frames: Sequence[FrameType]) -> CapacitydError:
    """The error for the user. frames: the frames of the exception's traceback."""
    module = ""
    if isinstance(error, ImportError) and error.name:
        module, _, _ = error.name.partition(".")
    if module == "capacityd":
        return CapacitydError(f"capacityd is not completely installed: {error}. Install it again")
    if module in PACKAGES and isinstance(error, ModuleNotFoundError):
        return _missing_modules([module])
    # The cause may be one of PACKAGES, a package's dependency, or a shared library such as libudev.
    python = f"{sys.executable} (Python {sys.version.split()[0]})"
    problem = f"a library that capacityd needs is missing or damaged, in {python}: {error}"
    for frame in frames:
        path = frame.f_code.co_filename
        if path.startswith("/usr/local/"):  # installed by hand
            remedy = "remove it, for example with pip uninstall"
            return CapacitydError(f"{problem}. {path} hides the distribution's: {remedy}")
    for package in map(_package_of, frames):
        if package in PACKAGES:
            remedy = f"apt install --reinstall {debian_package(package)}"
            return CapacitydError(f"{problem}. Install it again: {remedy}")
    return CapacitydError(problem)


def _missing_modules(names: Sequence[str]) -> CapacitydError:
    """The error for missing modules. names: at least one key of PACKAGES."""
    debian = " ".join(map(debian_package, names))
    pip = " ".join(PACKAGES[name] for name in names)
    modules = "module" if len(names) == 1 else "modules"
    # The message names the interpreter, because another interpreter does not see the distribution's packages.
    return CapacitydError(
        f"{sys.executable} has no Python {modules} {', '.join(names)}: apt install {debian}, or pip install {pip}"
    )
