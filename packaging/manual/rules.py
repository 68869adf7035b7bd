"""The alerts as an object of prometheus-operator. kustomize cannot put a rule file into an object."""

from __future__ import annotations

from pathlib import Path

import yaml

_RULES = Path(__file__).resolve().parents[2] / "conf/prometheus/capacityd-rules.yaml"


def prometheus_rule() -> str:
    """Returns the PrometheusRule with the groups of the rule file."""
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "capacityd"},
        "spec": yaml.safe_load(_RULES.read_text()),
    }
    text: str = yaml.safe_dump(rule, sort_keys=False, width=116)
    return "# Made from capacityd-rules.yaml by make docs: change that file.\n" + text
