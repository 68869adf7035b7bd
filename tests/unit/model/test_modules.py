"""A library is installed but cannot be imported: the message names the package to reinstall."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from capacityd.model.modules import import_failure


@pytest.mark.parametrize(
    ("module", "content", "advice"),
    [
        ("pyudev", "import nowhere_to_be_found", "Install it again: apt install --reinstall python3-pyudev"),
        ("yaml", "from json import nothing_like_this", "apt install --reinstall python3-yaml"),
        ("psutil", "import os\nos.no_such_function()", "apt install --reinstall python3-psutil"),
        ("kubernetes", "raise TypeError('descriptors')", "apt install --reinstall python3-kubernetes"),
        ("systemd", "raise OSError(8, 'Exec format error')", "apt install --reinstall python3-systemd"),
        ("urllib3", "def f(:", "invalid syntax (urllib3.py, line 1)"),
    ],
)
def test_a_damaged_library_names_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, content: str, advice: str
) -> None:
    """The import may raise any error, for example if the versions of two libraries don't fit each other."""
    (tmp_path / f"{module}.py").write_text(f"{content}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(Exception) as raised:  # of any type
        importlib.import_module(module)
    message = str(import_failure(raised.value))
    assert message.startswith("a library that capacityd needs is missing or damaged, in /")
    assert message.endswith(advice)


def test_another_library_has_no_package_of_ours() -> None:
    error = ImportError("libnothing.so.1: cannot open shared object file")
    assert str(import_failure(error)).endswith(": libnothing.so.1: cannot open shared object file")


def test_a_library_that_hides_the_distributions_has_a_remedy() -> None:
    path = "/usr/local/lib/python3.11/dist-packages/kubernetes/__init__.py"
    with pytest.raises(AttributeError) as raised:
        exec(compile("import os\nos.no_such_function", path, "exec"), {"__name__": "kubernetes"})
    advice = f"{path} hides the distribution's: remove it, for example with pip uninstall"
    assert str(import_failure(raised.value)).endswith(advice)


def test_other_errors_are_no_failures_of_an_import() -> None:
    with pytest.raises(AttributeError) as raised:
        _ = sys.no_such_attribute  # type: ignore[attr-defined]
    assert import_failure(raised.value) is None
