"""python3 packaging/manual NAME: generates a file from the program, and prints it.

The package build and `make docs` run this command. The package does not contain it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pages
import yaml
from completions import completion
from troubles import RULES


def prometheus_rule() -> str:
    """Returns the rule file as a PrometheusRule for prometheus-operator. kustomize cannot put a file into an object."""
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "capacityd"},
        "spec": yaml.safe_load(RULES.read_text()),
    }
    text: str = yaml.safe_dump(rule, sort_keys=False, width=116)
    return "# Made from capacityd-rules.yaml by make docs: change that file.\n" + text


MADE: dict[str, Callable[[], str]] = {
    "capacityd.8": pages.manual,
    "capacityd.toml.5": pages.manual_of_files,
    "kubectl-capacityd.1": pages.manual_of_kubectl,
    "capacityd.bash": lambda: completion("bash"),
    "_capacityd": lambda: completion("zsh"),
    "prometheusrule.yaml": prometheus_rule,
    "reference.md": pages.reference,
    "json.md": pages.json_output,
}

if len(sys.argv) != 2 or sys.argv[1] not in MADE:
    sys.exit(f"usage: python3 packaging/manual {'|'.join(MADE)}")
sys.stdout.buffer.write(MADE[sys.argv[1]]().encode())
