"""Each alert links to a section that says what to do. The PrometheusRule contains the same alerts."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests import ROOT
from tests.unit.docs.test_manual import generated
from tests.unit.docs.test_pages import anchors

FOLDER = ROOT / "conf/prometheus"


def alerts() -> list[dict[str, Any]]:
    """The rules of the example alerts."""
    groups = yaml.safe_load((FOLDER / "capacityd-rules.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: str(alert["alert"]))
def test_an_alert_has_its_texts_and_a_section(alert: dict[str, Any]) -> None:
    assert {"summary", "description", "action"} < alert["annotations"].keys()
    url, _, heading = alert["annotations"]["runbook_url"].partition("#")
    (project,) = re.findall(r'^Repository = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    pages = f"{project}/blob/main/"
    assert url.startswith(pages)
    page = ROOT / url.removeprefix(pages)
    assert page.is_file(), url
    assert heading in anchors(page), f"{page.name} has no heading #{heading}"


def test_prometheus_operator_gets_the_same_alerts() -> None:
    file = FOLDER / "prometheusrule.yaml"
    assert file.read_text() == generated(file.name), "make docs writes it again"
    rule = yaml.safe_load(file.read_text())
    assert [alert for group in rule["spec"]["groups"] for alert in group["rules"]] == alerts()
