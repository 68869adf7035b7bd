"""The repository's manifests, workflows, issue templates and other pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import ROOT
from tests.support.pages import blocks, pages, place
from tests.unit.docs.test_pages import anchors, links, name_of

MANIFESTS = sorted(path for path in (ROOT / "packaging/kubernetes").glob("*.yaml") if path.stem != "kustomization")
TEMPLATES = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))


def other_pages() -> list[Path]:
    """The Markdown files of the repository that test_pages.py does not check."""
    folders = (".github", "agent", "packaging", "tests")
    return sorted({page for folder in folders for page in (ROOT / folder).rglob("*.md")} - {*pages()})


@pytest.mark.parametrize("page", other_pages(), ids=name_of)
def test_links_of_all_other_pages_lead_somewhere(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), target
        assert not anchor or anchor in anchors(target), f"{target.name} has no heading #{anchor}"


@pytest.mark.parametrize("page", [page for page in other_pages() if place(page.read_text())], ids=name_of)
def test_a_page_that_only_further_tests_run_can_be_read(page: Path) -> None:
    assert [*blocks(page.read_text())]


@pytest.mark.parametrize("path", MANIFESTS, ids=name_of)
def test_every_manifest_has_the_label_of_the_project(path: Path) -> None:
    documents: list[Any] = [*yaml.safe_load_all(path.read_text())]
    assert documents
    assert {document["metadata"]["labels"]["app.kubernetes.io/name"] for document in documents} == {"capacityd"}


def test_every_template_has_a_name_and_fields_that_github_knows() -> None:
    forms = {path.stem: yaml.safe_load(path.read_text()) for path in TEMPLATES if path.stem != "config"}
    assert forms.keys() == {"bug", "feature", "question"}
    for form in forms.values():
        assert form["name"]
        assert form["description"]
        assert {field["type"] for field in form["body"]} <= {"markdown", "textarea", "input", "dropdown", "checkboxes"}
