"""capacityd accepts the same certificates of servers as client-go, except for the differences that the table notes.

tests/cluster/test_client_go.py runs client-go on the same table (tests/clientgo/certificates.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from capacityd.model.errors import NodeUnauthorized
from capacityd.node.api_node import ApiNode
from capacityd.node.identity import Machine
from tests.clientgo.certificates import CASES, serve
from tests.support.server import Request
from tests.unit.node.test_api_node import respond


@pytest.mark.parametrize("name", CASES)
def test_a_server_is_accepted_or_refused_as_by_go(tmp_path: Path, name: str) -> None:
    requests: list[Request] = []

    def record(request: Request) -> bytes:
        requests.append(request)
        return respond(request)

    case = CASES[name]
    with serve(case, tmp_path, record) as (_, path):
        is_accepted = case.accepted != bool(case.differs)  # differs: capacityd decides otherwise than client-go
        if is_accepted:
            assert ApiNode(str(path), None, Machine("host", None)).read().capacity == {"cpu": "4"}
        else:
            with pytest.raises(NodeUnauthorized):
                ApiNode(str(path), None, Machine("host", None)).read()
            assert requests == [], "no credentials were sent"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("another authority", "Is the certificate-authority"),
        ("only a common name", "presented a certificate for other names, or without subjectAltName"),
        ("expired", r"certificate has expired\)\. Is this machine's clock right"),
        ("for clients only", "a certificate that cannot be trusted .*purpose"),
        ("empty", "contains no usable certificate"),
        ("TRUSTED CERTIFICATE", "contains no usable certificate"),
    ],
)
def test_a_refused_certificate_has_its_message(tmp_path: Path, name: str, message: str) -> None:
    with serve(CASES[name], tmp_path, respond) as (_, path), pytest.raises(NodeUnauthorized, match=message):
        ApiNode(str(path), None, Machine("host", None)).read()


def test_the_authority_that_fits_is_remembered(tmp_path: Path) -> None:
    """While EKS replaces an authority, the kubeconfig contains the old and the new one for weeks."""
    requests: list[Request] = []

    def record(request: Request) -> bytes:
        requests.append(request)
        return respond(request)

    with serve(CASES["both without identifiers"], tmp_path, record) as (server, path):
        opened = ApiNode(str(path), None, Machine("host", None))
        for _ in range(2):
            opened.read()
            failed_connections = server.connections - len(requests)
            assert failed_connections <= 2, "the whole bundle and the old authority were tried before the first request"
