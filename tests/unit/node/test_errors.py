"""The type and the message of each error of a request to the API server."""

from __future__ import annotations

import json
import socket
import ssl
from dataclasses import replace
from typing import Any

import pytest
import urllib3.exceptions
from hypothesis import given
from hypothesis import strategies as st

from capacityd.model.errors import (
    NodeConflict,
    NodeError,
    NodeForbidden,
    NodeMissing,
    NodeRejected,
    NodeUnauthorized,
    NodeUnreachable,
)
from capacityd.node.cluster_access import ClusterAccess
from capacityd.node.connection import HttpError
from capacityd.node.errors import Call, from_http_status, quotable
from capacityd.node.transport_errors import from_transport_error

ACCESS = ClusterAccess("/etc/k.conf", "https://192.0.2.1:6443")
CALL = Call(ACCESS, "patch", "nodes/status", "n2")
CAUSE = {"causes": [{"field": "status.capacity.x", "message": "must not be -1"}, "junk"]}


def status(message: str = "", details: Any = None) -> bytes:
    """The body of an API server's error response."""
    return json.dumps({"kind": "Status", "message": message, "details": details}).encode()


def refusal(code: int, body: bytes = b"", retry_after: str = "", of: Call = CALL) -> NodeError:
    """The error that capacityd makes of an HTTP response to this call."""
    return from_http_status(HttpError(code, body, retry_after), of)


GET = Call(ACCESS, "get", "nodes", "n2")
EVENTS = Call(ACCESS, "create", "events", "n2")
LIST = Call(ACCESS, "list", "pods")
STRANGER = 'User "bob" cannot do it'
ANONYMOUS = 'User "system:anonymous" cannot patch'
STATUS_ROLE = '"bob" may not patch nodes/status of Node "n2" (HTTP 403): it needs a role with the verb "patch" on'
NODES_ROLE = 'may not get Node "n2" (HTTP 403): it needs a role with the verb "get" on "nodes". The API'
EVENTS_ROLE = '(HTTP 403): it needs a role with the verb "create" on "events" in the namespace "default".'
OWN_ONLY = "has access to its own Node only"
WEBHOOK = 'admission webhook "x" denied the request: no'
QUOTA = 'events "n2.1" is forbidden: exceeded quota: x'
NOT_READY = 'nodes "n2" is forbidden: not yet ready to handle request'


@pytest.mark.parametrize(
    ("code", "body", "of", "kind", "expected"),
    [
        (409, status("modified"), CALL, NodeConflict, "has changed since it was read"),
        (409, b"<html>", CALL, NodeUnreachable, "not an API server"),
        (409, status("exists"), EVENTS, NodeRejected, "refused to create events (HTTP 409): exists"),
        (422, status("error in our request"), CALL, NodeRejected, "(HTTP 422): error in our request"),
        (422, status("invalid", CAUSE), CALL, NodeRejected, "(HTTP 422): status.capacity.x: must not be -1"),
        (422, b"<html>", CALL, NodeUnreachable, "not an API server"),
        (422, b"[" * 100_000, CALL, NodeUnreachable, "not an API server"),
        (404, status("", {"kind": "nodes"}), CALL, NodeMissing, 'the API server in /etc/k.conf has no Node "n2"'),
        (404, status("", {"kind": "namespaces"}), EVENTS, NodeRejected, "(HTTP 404)"),
        (404, b"404 page not found", CALL, NodeUnreachable, "the server in /etc/k.conf is not an API server"),
        (302, status("elsewhere"), CALL, NodeUnreachable, "not an API server"),
        (410, status("too old"), GET, NodeUnreachable, "is unavailable (HTTP 410): too old"),
        (429, status("slow down"), CALL, NodeUnreachable, "is unavailable (HTTP 429): slow down"),
        (500, status("etcd", {"causes": [{"message": "x"}]}), CALL, NodeUnreachable, "is unavailable (HTTP 500): etcd"),
        (504, status("Timeout"), CALL, NodeUnreachable, "be out of date. Does an admission webhook not answer?"),
        (401, status("Unauthorized"), CALL, NodeUnauthorized, "rejected the credentials in the same file (HTTP 401)"),
        # A 403 is from the authorizer, NodeRestriction, another admission plugin, a starting API server, or a proxy.
        (403, status(STRANGER), CALL, NodeForbidden, STATUS_ROLE),
        (403, status(STRANGER), GET, NodeForbidden, NODES_ROLE),
        (403, status("no"), GET, NodeForbidden, f"the identity in /etc/k.conf {NODES_ROLE}"),
        (403, status(STRANGER), EVENTS, NodeForbidden, EVENTS_ROLE),
        (403, status(STRANGER), LIST, NodeForbidden, "may not list pods (HTTP 403): it needs a role"),
        (403, status('User "system:node:n2" cannot patch'), CALL, NodeForbidden, "it needs a role with"),
        (403, status('User "system:node:n1" cannot patch'), CALL, NodeForbidden, OWN_ONLY),
        (403, status('node "n1" is not allowed to modify node "n2"'), CALL, NodeForbidden, OWN_ONLY),
        (403, status(ANONYMOUS), CALL, NodeUnauthorized, "Has its user a token or a client certificate?"),
        (403, status(WEBHOOK), CALL, NodeRejected, f"refused to patch nodes/status (HTTP 403): {WEBHOOK}"),
        (403, status("labels are forbidden"), CALL, NodeRejected, "nodes/status (HTTP 403): labels are forbidden"),
        (403, status(QUOTA), EVENTS, NodeRejected, f"refused to create events (HTTP 403): {QUOTA}"),
        (403, status(NOT_READY), CALL, NodeUnreachable, f"is unavailable (HTTP 403): {NOT_READY}"),
        (403, b"<html>nginx</html>", CALL, NodeUnreachable, "or does a proxy or a firewall on the way refuse"),
        (403, b"", CALL, NodeUnreachable, "not an API server"),
    ],
)
def test_each_refusal_has_its_error_and_advice(
    code: int, body: bytes, of: Call, kind: type[NodeError], expected: str
) -> None:
    error = refusal(code, body, of=of)
    assert type(error) is kind
    assert expected in str(error)
    assert ACCESS.server not in str(error)
    places = (ACCESS.kubeconfig, f'Node "{of.node}"', 'the identity "')
    assert any(place in str(error) for place in places)


@pytest.mark.parametrize("message", [WEBHOOK, 'admission webhook "x" denied the request without explanation'])
@pytest.mark.parametrize("details", [None, {"retryAfterSeconds": 1}, CAUSE])
def test_a_webhook_denies_with_any_code_below_500(message: str, details: Any) -> None:
    for code in (400, 401, 403, 404, 409, 410, 422, 429):
        error = refusal(code, status(message, details))
        assert isinstance(error, NodeRejected)
        assert error.reason == message


@pytest.mark.parametrize("name", ["p", "p" * 253])
def test_a_policy_denies_with_a_cause(name: str) -> None:
    message = f"nodes \"n2\" is forbidden: ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: no"
    error = refusal(422, status(message, {"causes": [{"message": message}]}))
    assert isinstance(error, NodeRejected)
    assert error.reason == quotable(message, None)


def test_a_cause_that_is_repeated_is_quoted_once() -> None:
    """The API server validates a Node's metadata several times."""
    cause = {"field": "metadata.annotations", "message": "Too long: may not be more than 262144 bytes"}
    error = refusal(422, status("invalid", {"causes": [cause, cause, cause]}))
    assert str(error).count("Too long") == 1


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        *[("7", 7.0), (" 7 ", 7.0), ("0", 0.0), ("999999999", 999_999_999.0)],
        *[(no, 0.0) for no in ("-1", "1.5", "\u0663", "", "9" * 400, "Wed, 21 Oct 2015 07:28:00 GMT")],
    ],
)
def test_the_retry_after_of_a_response_is_kept(value: str, seconds: float) -> None:
    error = refusal(429, retry_after=value)
    assert isinstance(error, NodeUnreachable)
    assert error.retry_after == seconds


@given(st.integers(100, 599), st.one_of(st.binary(max_size=40), st.text(max_size=20).map(status)))
def test_every_refusal_is_a_node_error(code: int, body: bytes) -> None:
    assert str(refusal(code, body)).isprintable()


def ended() -> ssl.SSLError:
    """The error of a connection that the server ends during the TLS handshake."""
    error = ssl.SSLEOFError(8, "EOF occurred in violation of protocol")
    error.reason = None  # type: ignore[assignment]  # ssl itself sets None
    return error


def tls_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


def caused(by: BaseException) -> Exception:
    error: Exception = urllib3.exceptions.HTTPError("x")
    error.__cause__ = by
    return error


UNRESOLVED = socket.gaierror(-2, "Name or service not known")
REFUSED = ConnectionRefusedError(111, "refused")
RESET = urllib3.exceptions.ProtocolError("a", ConnectionResetError(104, "x"))
PROXY = urllib3.exceptions.ProxyError("no\x1bproxy", OSError())


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (tls_error("TLSV1_ALERT_INTERNAL_ERROR"), "TLS failed (TLSV1_ALERT_INTERNAL_ERROR)"),
        (tls_error("NO_CERTIFICATE_ASSIGNED"), "TLS failed (NO_CERTIFICATE_ASSIGNED)"),
        (ended(), "during the TLS handshake. Is it overloaded? Is "),
        (caused(UNRESOLVED), "its name cannot be resolved (Name or service not known)"),
        (caused(REFUSED), "refused the connection. Is it running? Is its address right?"),
        (urllib3.exceptions.ConnectTimeoutError("x"), "the connection timed out"),
        (urllib3.exceptions.ReadTimeoutError(None, "u", "x"), "did not respond in time"),
        (TimeoutError("timed out"), "did not respond in time"),
        (RESET, "closed the connection before"),
        (PROXY, "the proxy in /etc/k.conf (proxy-url) failed"),
        (urllib3.exceptions.IncompleteRead(3, 5), "response is incomplete"),
        (OSError(113, "x"), "No route to host"),
        (ValueError("odd\x1b"), "ValueError"),
    ],
)
def test_no_response_is_unreachable_with_its_cause(error: Exception, expected: str) -> None:
    explained = from_transport_error(error, ACCESS)
    assert type(explained) is NodeUnreachable
    assert expected in str(explained)
    assert f"in {ACCESS.kubeconfig}" in str(explained)
    assert ACCESS.server not in str(explained)
    assert str(explained).isprintable()


CLOCK = "a certificate that cannot be trusted (why). Is this machine's clock right?"


@pytest.mark.parametrize(
    ("code", "authority", "expected"),
    [
        (62, "ca", "presented a certificate for other names, or without subjectAltName. Is its address right?"),
        (64, "ca", "presented a certificate for other names, or without subjectAltName. Is its address right?"),
        (9, "ca", CLOCK),
        (10, None, CLOCK),
        (20, "ca", "cannot be trusted (why). Is the certificate-authority in the same file that of this cluster?"),
        (20, None, "cannot be trusted (why). The file names no certificate-authority; add the cluster's"),
    ],
)
def test_a_certificate_that_is_not_trusted_has_advice(code: int, authority: str | None, expected: str) -> None:
    """test_certificates.py tests which certificates OpenSSL refuses."""
    error = ssl.SSLCertVerificationError(1, "a name of the certificate")
    error.verify_code, error.verify_message = code, "why"
    explained = from_transport_error(caused(error), replace(ACCESS, authority=authority))
    assert type(explained) is NodeUnauthorized
    assert str(explained).endswith(expected)


def test_a_loop_of_causes_ends() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__context__, other.__context__ = other, one
    assert str(from_transport_error(one, ACCESS)).endswith("ValueError")


OLDER = 'users "system:node:n2" is forbidden: User "sa" cannot impersonate resource "users" in API group ""'
CONSTRAINED = (
    'nodes.authentication.k8s.io "n2" is forbidden: User "sa" cannot impersonate:associated-node resource "nodes"'
)


@pytest.mark.parametrize("message", [OLDER, CONSTRAINED])
@pytest.mark.parametrize(("verb", "resource"), [("get", "nodes"), ("patch", "nodes/status")])
def test_credentials_that_may_not_act_as_the_node_have_advice(message: str, verb: str, resource: str) -> None:
    acting = ClusterAccess("/etc/k.conf", "https://192.0.2.1:6443", impersonated="system:node:n2")
    error = refusal(403, status(message), of=Call(acting, verb, resource, "n2"))
    assert isinstance(error, NodeForbidden)
    assert "This needs Kubernetes 1.36 or later, the roles in identity-own-node.yaml" in str(error)
    assert 'use identity.yaml, and remove "as"' in str(error)
