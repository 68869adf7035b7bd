"""A library is installed but cannot be imported: the message names the package to reinstall."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from capacityd.model.modules import missing_module


@pytest.mark.parametrize(
    ("module", "content", "advice"),
    [
        ("pyudev", "import nowhere_to_be_found\n", "Install it again: apt install --reinstall python3-pyudev"),
        ("yaml", "from json import nothing_like_this\n", "apt install --reinstall python3-yaml"),
    ],
)
def test_a_damaged_library_names_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, content: str, advice: str
) -> None:
    (tmp_path / f"{module}.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ImportError) as raised:
        importlib.import_module(module)
    message = str(missing_module(raised.value))
    assert message.startswith("a library that capacityd needs is missing or damaged, in /")
    assert message.endswith(advice)


def test_another_library_has_no_package_of_ours() -> None:
    error = ImportError("libnothing.so.1: cannot open shared object file")
    assert str(missing_module(error)).endswith(": libnothing.so.1: cannot open shared object file")
