"""Only node/documents knows the keys of Kubernetes' JSON, and kubeconfig.py those of a kubeconfig's YAML."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT

NODE = ROOT / "agent/capacityd/node"
OTHERS = ("options", "environment", "os.environ")
"""Mappings that are no JSON: keyword arguments of a library, and the environment."""
MODULES = sorted(path.name for path in NODE.glob("*.py") if path.name != "kubeconfig.py")


def literal_keys(path: Path) -> Iterator[str]:
    """The keys that a module reads of mappings other than these: x["key"], x.get("key")."""
    for expression in ast.walk(ast.parse(path.read_text())):
        if isinstance(expression, ast.Subscript) and isinstance(expression.ctx, ast.Load):
            mapping, key = expression.value, expression.slice
        elif (
            isinstance(call := expression, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "get"
        ):
            mapping, key = call.func.value, call.args[0]
        else:
            continue
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and ast.unparse(mapping) not in OTHERS:
            yield f"{ast.unparse(mapping)}: {key.value}"


def test_the_keys_of_a_module_are_noticed() -> None:
    assert {line.rpartition(" ")[2] for line in literal_keys(NODE / "documents/node.py")} >= {
        "status",
        "username",
        "type",
    }


@pytest.mark.parametrize("module", MODULES)
def test_no_other_module_reads_a_key(module: str) -> None:
    assert [*literal_keys(NODE / module)] == []
    assert "node.documents.fields" not in (NODE / module).read_text(), "its functions read keys, too"
