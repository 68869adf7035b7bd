"""capacityd reads the same kubeconfigs as client-go, except for the differences that the table notes.

tests/cluster/test_client_go.py runs client-go on the same table (tests/clientgo/shapes.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from capacityd.model.errors import NodeUnauthorized
from capacityd.node.kubeconfig import load
from tests.clientgo.shapes import SHAPES


@pytest.mark.parametrize("name", SHAPES)
def test_each_shape_is_read_as_by_client_go(tmp_path: Path, name: str) -> None:
    shape = SHAPES[name]
    path = tmp_path / "kubeconfig"
    path.write_text(shape.text, newline="")
    is_refused = (shape.go_reads is None) != bool(shape.differs)  # differs: capacityd decides otherwise than client-go
    if is_refused:
        with pytest.raises(NodeUnauthorized):
            load(str(path))
        return
    access = load(str(path))
    assert access.verify is ("insecure-skip-tls-verify: true" not in shape.text and "verify: yes" not in shape.text)
    if shape.go_reads:
        host, token = shape.go_reads
        assert access.server.lower() == (host if "://" in host else f"https://{host}").lower()
        assert access.token == (token.strip() or None)


@pytest.mark.parametrize(
    ("name", "message"), [("indented with tabs", "is not valid YAML, line 6"), ("no server", "has no server such as")]
)
def test_a_shape_that_is_not_read_has_its_message(tmp_path: Path, name: str, message: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(SHAPES[name].text)
    with pytest.raises(NodeUnauthorized, match=message):
        load(str(path))
