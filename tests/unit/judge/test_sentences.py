"""docs/explanation.md states the same promises and exceptions as the judge, word for word."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from tests.support.judge import promises
from tests.support.judge.admitted import ADMITTED, Admitted

_PAGE = Path(__file__).parents[3] / "docs" / "explanation.md"


def _items(heading: str) -> list[str]:
    """The items of the list below a heading of docs/explanation.md, each in one line."""
    section = _PAGE.read_text().partition(f"### {heading}\n")[2].partition("\n#")[0]
    items = re.split(r"^- ", section, flags=re.MULTILINE)[1:]
    return [" ".join(item.partition("\n\n")[0].split()) for item in items]


def _promises() -> dict[str, str]:
    """Name of a promise -> its sentence."""
    public = dict(inspect.getmembers(promises, inspect.isgeneratorfunction))
    return {name: " ".join((f.__doc__ or "").split()) for name, f in public.items() if not name.startswith("_")}


@pytest.mark.parametrize("name", _promises())
def test_each_promise_stands_on_the_page(name: str) -> None:
    assert _promises()[name] in _items("What is promised")


def test_every_promise_on_the_page_is_judged() -> None:
    assert sorted(_items("What is promised")) == sorted(_promises().values())


def test_the_page_admits_what_the_judge_excuses() -> None:
    assert _items("Exceptions to the promises") == [admitted.sentence for admitted in ADMITTED]


@pytest.mark.parametrize("admitted", ADMITTED, ids=lambda admitted: admitted.name)
def test_what_is_admitted_excuses_promises_that_exist(admitted: Admitted) -> None:
    assert {*admitted.promises} <= _promises().keys()
