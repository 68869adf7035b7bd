"""The modules as they are shipped, without what only people and tools read: the same programs, on the same lines."""

from __future__ import annotations

import io
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

from tests import ROOT
from tests.package.packages import Packages, tools_of

SLIM = ROOT / "packaging/deb/slim.py"
# What a user meets: commands, the plan, what is written.
BEHAVIOUR = ("test_cli.py", "test_plan.py", "test_apply.py", "test_detector_disk.py")
_LAYOUT = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)

MODULE = '''\
"""What it is.

# No comment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # What for.
    from typing import ClassVar  # which

VALUE: Mapping[str, Any] = {}  # why
"""What it is for."""
CALLED = Callable[[], int]


class Empty(Exception):
    """Says all."""


class Full:
    """Says more."""

    what: ClassVar[Iterator[str]] = ""
    """What it says."""

    def __init__(self) -> None:
        self.many: dict[str, int] = dict(
            a=1,
        )


def told(text: str = "# ä", *more: dict[str, int], last: str | None = None) -> str:  # ä
    """What it does."""
    # Why.
    ended: bool = text.endswith(")")
    if ended:
        return """a
    b   
# c   
"""
    return text
'''  # noqa: W291  # white space in a text stays
SLIMMED = '''\





from __future__ import annotations

from collections.abc import Callable, Iterator






VALUE = {}

CALLED = Callable[[], int]


class Empty(Exception):
    pass


class Full:


    what: ClassVar[Iterator[str]] = ""


    def __init__(self):
        self.many = dict(
            a=1,
        )


def told(text = "# ä", *more, last = None):


    ended = text.endswith(")")
    if ended:
        return """a
    b   
# c   
"""
    return text
'''  # noqa: W291


@pytest.fixture(scope="module")
def shipped(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of modules that both packages make."""
    folder = tmp_path_factory.mktemp("shipped")
    for package in (packages.current, tools_of(packages.current)):
        subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
    return folder / "usr/share/capacityd"


def test_what_goes_and_what_stays(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(MODULE)
    subprocess.run([sys.executable, "-I", SLIM, tmp_path], check=True)
    assert module.read_text() == SLIMMED


def test_every_word_is_on_its_line(packages: Packages, shipped: Path) -> None:
    """And in its order; nothing is new but pass, where nothing else is left."""
    sources = packages.sources / "agent"
    modules = sorted(path.relative_to(sources) for path in sources.rglob("*.py"))
    assert modules == sorted(p.relative_to(shipped) for p in shipped.rglob("*.py") if p.name != "farewell.py")
    for module in modules:
        before, after = words(sources / module), words(shipped / module)
        for row, left in after.items():
            had = iter(before[row])
            assert left == ["pass"] or all(word in had for word in left), f"{module}, line {row}"


def words(path: Path) -> dict[int, list[str]]:
    """The tokens of each line."""
    found: dict[int, list[str]] = {}
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type not in _LAYOUT:
            found.setdefault(token.start[0], []).append(token.string)
    return found


def test_they_pass_the_same_tests(shipped: Path, tmp_path: Path) -> None:
    origin = tmp_path / "test_origin.py"
    origin.write_text(f"import capacityd\n\ndef test_origin():\n    assert {str(shipped)!r} in capacityd.__file__\n")
    pythonpath = f"--override-ini=pythonpath={shipped} {ROOT}"
    paths = [origin, *(ROOT / "tests/unit" / name for name in BEHAVIOUR)]
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        pythonpath,
        f"--rootdir={ROOT}",
        *paths,
    ]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(shipped), "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stdout[-3000:]
