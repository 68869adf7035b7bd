"""No content of a file raises an exception. The output of `config show` is the same configuration when it is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from capacityd.cli.commands.config import show
from capacityd.config import Loaded
from capacityd.config.toml import parse_toml
from capacityd.schema.toml_values import toml_value
from tests import ROOT
from tests.support.configs import loaded

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))  # Cs: surrogates
SCALARS = ANY_TEXT | st.integers(-(2**63), 2**63 - 1) | st.booleans()


@given(st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner)))
def test_every_value_can_be_written(value: object) -> None:
    assert parse_toml(f"a = {toml_value(value)}") == {"a": value}


def check(text: str) -> Loaded:
    """Loads a file, and asserts what must be true for every file."""
    configuration = loaded(text)
    messages = [p.public_text() for p in configuration.problems]
    assert all(line.isprintable() for line in messages)
    assert all(why.isprintable() and name.isprintable() for name, why in configuration.config.broken.items())
    assert not {r.name for r in configuration.config.resources} & {*configuration.config.broken}
    if not configuration.problems:
        shown = loaded(show(configuration))
        assert not shown.problems
        assert shown.config.settings == configuration.config.settings
        (file,) = shown.files
        assert shown.config.resources == tuple(replace(r, source=file) for r in configuration.config.resources)
    return configuration


@pytest.mark.parametrize("path", sorted((ROOT / "conf/examples").rglob("*.toml")), ids=lambda path: path.stem)
def test_what_show_prints_of_an_example_is_the_same_configuration(path: Path) -> None:
    assert check(path.read_text()).config.resources


SNIPPETS = ['[resources."example.com/x"]', "[resources.example.com]", "[kubernetes]", "\nusb = {}", "a.b", "true"]
SNIPPETS += ["[[", "]]", "\n", '"', "'", "'''", "=", "{", "}", ",", "#", "\\u0000", "\0", "\r", "\ufeff"]
SNIPPETS += ["0529", "1e400", "inf", "nan", "2020-01-01T00:00:00Z", "0x"]


@given(st.lists(st.sampled_from(SNIPPETS) | ANY_TEXT.map(lambda s: s[:4]), max_size=30).map("".join))
@example("a=inf")
@example("[resources]\na=nan")
@example("[kubernetes]\nobserve=1e400")
@example('"')
@example("a = [\n\n")
@example("a = " + "9" * 5000)  # too many digits for int()
@example("a = " + "[" * 5000)  # too deep for the parser
@example("a=" + "\r" * 30)
def test_any_text_gives_problems_with_their_lines_and_no_exception(text: str) -> None:
    problems = check(text).problems
    syntax_errors = [problem for problem in problems if not problem.table and not problem.key]
    assert all(1 <= error.line <= text.count("\n") + 1 for error in syntax_errors)


@given(st.binary(max_size=60))
def test_any_bytes_give_no_exception(raw: bytes) -> None:
    assert all(p.public_text().isprintable() for p in loaded(raw).problems)
