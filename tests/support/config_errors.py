"""The table of configuration errors: TOML that people write, and the exact error lines that capacityd reports for it.

tests/unit/config/errors/*.txt contain the cases, separated by empty lines. A case is TOML, then "> LINE: ERROR" for
each error. In most files, the TOML is the content of a resource, whose header counts as line 1. A comment counts as a
line too. files.txt and syntax.txt contain whole files. The cases in syntax.txt are not TOML.

In an error, <parser> stands for the parser's message, which differs between versions. An error that ends with … is cut.
"> incomplete" means that capacityd may remove nothing from the Node.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.configs import HEADER

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parents[1] / "unit/config/errors"
WHOLE_FILES = ("files", "syntax")


@dataclass(frozen=True)
class Case:
    """A configuration with errors."""

    name: str
    text: str
    errors: list[str]
    """The errors, each as "LINE: ERROR" without the name of the file."""
    complete: bool  # whether capacityd may remove keys from the Node
    in_resource: bool
    """Whether the text is the content of a resource."""


def cases() -> list[Case]:
    """All cases of the table."""
    return [
        _case(f"{file.stem}-{number}", case, file.stem not in WHOLE_FILES)
        for file in sorted(FOLDER.glob("*.txt"))
        for number, case in enumerate(file.read_text().strip().split("\n\n"), 1)
    ]


def _case(name: str, written: str, in_resource: bool) -> Case:
    toml, *expected = written.split("\n> ")
    assert expected, f"{name} expects no error:\n{written}"
    text = f"{HEADER}\n{toml}\n" if in_resource else f"{toml}\n"
    errors = [line.replace("<parser>", parser_error(text)) for line in expected if line != "incomplete"]
    complete = "incomplete" not in expected and not name.startswith("syntax")
    return Case(name, text, errors, complete, in_resource)


def parser_error(text: str) -> str:
    """The parser's error for a text that is not TOML, without capacityd's hint. "": the text is TOML."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        message, _, at = str(e).rpartition(" (at ")  # such as "Invalid value (at line 3, column 7)"
        place = "end of the file" if at == "end of document)" else at.rpartition(", ")[2].rstrip(")")
        return f"is not valid TOML: {message} ({place})"
    return ""
