"""Keys as text, and the annotation: what is read of whatever a writer may have put there."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.model.codec import decode, encode
from capacityd.model.key import Key
from capacityd.model.published import annotation_text, is_annotated, published_in, why_unreadable
from capacityd.reconcile.memory import Memory
from tests.support.configs import loaded

A, B = Key("example.com/a"), Key("example.com/b")


def test_a_key_is_restored_from_its_text_and_sorts_resources_first() -> None:
    keys = [A, B, A.label, B.label]
    assert [Key.from_text(str(key)) for key in keys] == keys
    assert sorted([B.label, A.label, B, A]) == keys
    assert [str(key) for key in keys[1:3]] == ["example.com/b", "label example.com/a"]
    assert A.label.is_label
    assert not A.is_label
    assert A.label.kind == "label"


def test_a_mapping_with_keys_crosses_a_process_boundary() -> None:
    memory = Memory(published={A: 4, A.label: 4})
    assert decode(Memory, json.loads(json.dumps(encode(memory)))) == memory


ANNOTATIONS: list[tuple[str | None, Mapping[Key, int], str]] = [
    # the annotation, what is published, why it is not readable
    (None, {}, ""),
    ("{}", {}, ""),
    ('{"example.com/a": 4, "label example.com/a": 3}', {A: 4, A.label: 3}, ""),
    ("{", {}, "it is not a JSON object"),
    ("[1]", {}, "it is not a JSON object"),
    ("[" * 100_000, {}, "it is not a JSON object"),  # nested too deeply for the parser
    (
        '{"example.com/a": true, "example.com/b": 1.0, "c": 1, "cpu": 1, "example.com/d": -1, "example.com/e": "1"}',
        {},
        "not a number of an extended resource: c, cpu, example.com/a, example.com/b, example.com/d, example.com/e",
    ),
    ('{"example.com/a": 9223372036854775808}', {}, "not a number of an extended resource: example.com/a"),
]


@pytest.mark.parametrize(("annotation", "published", "why"), ANNOTATIONS)
def test_only_what_capacityd_can_have_written_counts(
    annotation: str | None, published: Mapping[Key, int], why: str
) -> None:
    assert (published_in(annotation), why_unreadable(annotation)) == (published, why)


@given(st.dictionaries(st.sampled_from([A, B, A.label, B.label]), st.integers(0, 2**63 - 1)))
def test_what_is_annotated_is_read_again(published: dict[Key, int]) -> None:
    text = annotation_text(published)
    assert published_in(text) == published
    assert is_annotated(text, published)
    assert (text is None) is (not published)
    assert not is_annotated(text, {**published, Key("example.com/more"): 1})


@pytest.mark.parametrize("text", ["{}", '{"example.com/a": 4, "x": 1}', '{"example.com/a": 4.0}', None])
def test_an_annotation_that_says_something_else_is_written_again(text: str | None) -> None:
    assert not is_annotated(text, {A: 4})


@pytest.mark.parametrize(
    ("domain", "allowed"),
    [("example.com", True), ("k8s.io.example.com", True), ("example.k8s.io", False), ("k8s.io", False)],
)
def test_a_label_that_a_kubelet_may_not_set_is_an_error(domain: str, allowed: bool) -> None:
    problems = loaded(f'[resources."{domain}/x"]\nstatic = {{ quantity = 1 }}\nlabel = true\n').problems
    assert all("a kubelet may not set labels in the domains of Kubernetes" in p.public_text() for p in problems)
    assert (not problems) is allowed
