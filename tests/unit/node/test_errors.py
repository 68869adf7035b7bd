"""The type and the message of each error of a request to the API server."""

from __future__ import annotations

import json
import socket
import ssl
from typing import Any

import pytest
import urllib3.exceptions
from hypothesis import given
from hypothesis import strategies as st

from capacityd.model.cluster_access import ClusterAccess
from capacityd.model.errors import (
    NodeConflict,
    NodeError,
    NodeForbidden,
    NodeMissing,
    NodeRejected,
    NodeUnauthorized,
    NodeUnreachable,
)
from capacityd.node.errors import Call, from_http_status, from_transport_error, quotable

ACCESS = ClusterAccess("/etc/k.conf", "https://192.0.2.1:6443", node="n2")
CAUSE = {"causes": [{"field": "status.capacity.x", "message": "must not be -1"}]}


def status(message: str = "", details: Any = None) -> bytes:
    """The body of an API server's error response."""
    return json.dumps({"kind": "Status", "message": message, "details": details}).encode()


PATCH = Call("patch", "nodes/status")
GET = Call("get", "nodes")
EVENTS = Call("create", "events")
LIST = Call("list", "pods")
STRANGER = 'User "bob" cannot do it'
ANONYMOUS = 'User "system:anonymous" cannot patch'
PATCH_ROLE = f'{STRANGER}. The identity needs a role with the verb "patch" on "nodes/status"'
EVENTS_ROLE = 'The identity needs a role with the verb "create" on "events" in the namespace "default"'
OWN_ONLY = "A kubelet's identity has access to its own Node only"
WEBHOOK = 'admission webhook "x" denied the request: no'
QUOTA = 'events "n2.1" is forbidden: exceeded quota: x'
NOT_READY = 'nodes "n2" is forbidden: not yet ready to handle request'


@pytest.mark.parametrize(
    ("code", "body", "call", "kind", "expected"),
    [
        (409, status("modified"), PATCH, NodeConflict, "has changed since it was read"),
        (409, b"<html>", PATCH, NodeUnreachable, "not an API server"),
        (409, status("exists"), EVENTS, NodeRejected, "answered create events with HTTP 409: exists"),
        (422, status("error in our request"), PATCH, NodeRejected, "HTTP 422: error in our request"),
        (422, status("invalid", CAUSE), PATCH, NodeRejected, "HTTP 422: status.capacity.x: must not be -1"),
        (422, b"<html>", PATCH, NodeUnreachable, "not an API server"),
        (422, b"[" * 100_000, PATCH, NodeUnreachable, "not an API server"),  # nested too deeply
        (404, status("", {"kind": "nodes"}), PATCH, NodeMissing, 'the API server in /etc/k.conf has no Node "n2"'),
        (404, status("", {"kind": "namespaces"}), EVENTS, NodeRejected, "HTTP 404"),
        (404, b"404 page not found", PATCH, NodeUnreachable, "the server in /etc/k.conf is not an API server"),
        (302, b"", PATCH, NodeUnreachable, "not an API server"),
        (410, status("too old"), LIST, NodeUnreachable, "answered list pods with HTTP 410: too old"),
        (429, status("slow down"), PATCH, NodeUnreachable, "HTTP 429: slow down"),
        (500, status("etcd", {"causes": [{"message": "x"}]}), PATCH, NodeUnreachable, "HTTP 500: x. Does it start"),
        (502, b"<html>", PATCH, NodeUnreachable, "HTTP 502. Does it start"),
        (504, status("Timeout"), PATCH, NodeUnreachable, "HTTP 504: Timeout. Does an admission webhook not answer?"),
        (401, status("Unauthorized"), PATCH, NodeUnauthorized, "It rejected the credentials in the same file: are"),
        # A 403 is from the authorizer, NodeRestriction, another admission plugin, a starting API server, or a proxy.
        (403, status(STRANGER), PATCH, NodeForbidden, PATCH_ROLE),
        (403, status(STRANGER), GET, NodeForbidden, 'role with the verb "get" on "nodes"'),
        (403, status("no"), GET, NodeForbidden, 'role with the verb "get" on "nodes"'),
        (403, status(STRANGER), EVENTS, NodeForbidden, EVENTS_ROLE),
        (403, status('User "system:node:n1" cannot patch'), PATCH, NodeForbidden, OWN_ONLY),
        (403, status('node "n1" is not allowed to modify node "n2"'), PATCH, NodeForbidden, OWN_ONLY),
        (403, status(ANONYMOUS), PATCH, NodeUnauthorized, "Has its user a token or a client certificate?"),
        (403, status(WEBHOOK), PATCH, NodeRejected, f"answered patch nodes/status with HTTP 403: {WEBHOOK}"),
        (403, status("labels are forbidden"), PATCH, NodeRejected, "HTTP 403: labels are forbidden"),
        (403, status(QUOTA), EVENTS, NodeRejected, f"HTTP 403: {QUOTA}"),
        (403, status(NOT_READY), PATCH, NodeUnreachable, f"HTTP 403: {NOT_READY}"),
        (403, b"<html>nginx</html>", PATCH, NodeUnreachable, "or does a proxy or a firewall on the way refuse"),
        (403, b"", PATCH, NodeUnreachable, "not an API server"),
    ],
)
def test_each_refusal_has_its_error_and_advice(
    code: int, body: bytes, call: Call, kind: type[NodeError], expected: str
) -> None:
    error = from_http_status(code, body, call, ACCESS)
    assert type(error) is kind
    assert expected in str(error)
    assert ACCESS.server not in str(error)
    assert ACCESS.kubeconfig in str(error) or kind is NodeConflict


@pytest.mark.parametrize("message", [WEBHOOK, 'admission webhook "x" denied the request without explanation'])
@pytest.mark.parametrize("details", [None, {"retryAfterSeconds": 1}, CAUSE])
def test_a_webhook_denies_with_any_code_below_500(message: str, details: Any) -> None:
    for code in (400, 401, 403, 404, 409, 410, 422, 429):
        error = from_http_status(code, status(message, details), PATCH, ACCESS)
        assert isinstance(error, NodeRejected)
        assert error.reason == message


@pytest.mark.parametrize("name", ["p", "p" * 253])
def test_a_policy_denies_with_a_cause(name: str) -> None:
    message = f"nodes \"n2\" is forbidden: ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: no"
    error = from_http_status(422, status(message, {"causes": [{"message": message}]}), PATCH, ACCESS)
    assert isinstance(error, NodeRejected)
    assert error.reason == quotable(message, None)


def test_a_cause_that_is_repeated_is_quoted_once() -> None:
    """The API server validates a Node's metadata several times."""
    cause = {"field": "metadata.annotations", "message": "Too long: may not be more than 262144 bytes"}
    error = from_http_status(422, status("invalid", {"causes": [cause, cause, cause]}), PATCH, ACCESS)
    assert str(error).count("Too long") == 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        *[("7", 7.0), ("0", 0.0), ("999999999", 999_999_999.0)],
        # \u0663 is an Arabic digit.
        *[(invalid, 0.0) for invalid in ("-1", "1.5", "\u0663", "", "9" * 400, "Wed, 21 Oct 2015 07:28:00 GMT")],
    ],
)
def test_the_retry_after_of_a_response_is_kept(header: str, seconds: float) -> None:
    error = from_http_status(429, b"", PATCH, ACCESS, header)
    assert isinstance(error, NodeUnreachable)
    assert error.retry_after == seconds


@given(st.integers(100, 599), st.one_of(st.binary(max_size=40), st.text(max_size=20).map(status)))
def test_the_error_for_any_response_is_printable(code: int, body: bytes) -> None:
    assert str(from_http_status(code, body, PATCH, ACCESS)).isprintable()


def tls_error(reason: str | None) -> ssl.SSLError:
    """An error in the TLS handshake. reason: OpenSSL's name of the error; None if the connection has ended."""
    error = ssl.SSLError(1, "x") if reason else ssl.SSLEOFError(8, "EOF occurred in violation of protocol")
    error.reason = reason  # type: ignore[assignment]  # ssl itself sets None
    return error


def caused(by: BaseException) -> Exception:
    """An error of urllib3 with this cause."""
    error: Exception = urllib3.exceptions.HTTPError("x")
    error.__cause__ = by
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (tls_error("WRONG_VERSION_NUMBER"), "(WRONG_VERSION_NUMBER)"),
        (tls_error("TLSV1_ALERT_INTERNAL_ERROR"), "(TLSV1_ALERT_INTERNAL_ERROR)"),
        (tls_error("NO_CERTIFICATE_ASSIGNED"), "(NO_CERTIFICATE_ASSIGNED)"),
        (tls_error(None), "(it ended the TLS handshake)"),
        (socket.gaierror(-2, "Name or service not known"), "(its name cannot be resolved: Name or service not known)"),
        (ConnectionRefusedError(111, "x"), "(Connection refused). Is it running or overloaded? Is its address right,"),
        (TimeoutError("x"), "(timed out)"),
        (urllib3.exceptions.IncompleteRead(3, 5), "response is incomplete (IncompleteRead)"),
        (ValueError("odd\x1b"), "(ValueError)"),
    ],
)
def test_no_response_is_unreachable_with_its_cause(error: Exception, expected: str) -> None:
    explained = from_transport_error(caused(error), ACCESS)
    assert type(explained) is NodeUnreachable
    assert expected in str(explained)
    assert str(explained).startswith(f"the API server in {ACCESS.kubeconfig} cannot be reached")
    assert ACCESS.server not in str(explained)
    assert str(explained).isprintable()


def test_a_failed_proxy_is_named() -> None:
    error = urllib3.exceptions.ProxyError("x", OSError())
    error.__cause__ = ConnectionRefusedError(111, "x")
    assert str(from_transport_error(error, ACCESS)).startswith("the proxy in /etc/k.conf (proxy-url) cannot be reached")


CLOCK = "a certificate that cannot be trusted (why). Is this machine's clock right?"
OTHER_NAMES = "presented a certificate for other names, or without subjectAltName. Is its address right?"


@pytest.mark.parametrize(
    ("code", "authority", "expected"),
    [
        # The codes are OpenSSL's: X509_V_ERR_HOSTNAME_MISMATCH, and so on.
        (62, "ca", OTHER_NAMES),  # another name
        (64, "ca", OTHER_NAMES),  # another IP address
        (9, "ca", CLOCK),  # not yet valid
        (10, None, CLOCK),  # expired
        # No authority has signed the certificate.
        (20, "ca", "cannot be trusted (why). Is the certificate-authority in the same file that of this cluster?"),
        (20, None, "cannot be trusted (why). The file names no certificate-authority; add the cluster's"),
    ],
)
def test_the_error_for_an_untrusted_certificate_has_advice(code: int, authority: str | None, expected: str) -> None:
    """test_certificates.py tests which certificates OpenSSL refuses."""
    error = ssl.SSLCertVerificationError(1, "a name of the certificate")
    error.verify_code, error.verify_message = code, "why"
    explained = from_transport_error(caused(error), ClusterAccess("/etc/k.conf", "https://h", authority=authority))
    assert type(explained) is NodeUnauthorized
    assert str(explained).endswith(expected)


# How an API server denies impersonation, before and since Kubernetes 1.36.
OLDER = 'users "system:node:n2" is forbidden: User "sa" cannot impersonate resource "users" in API group ""'
NEWER = 'nodes.authentication.k8s.io "n2" is forbidden: User "sa" cannot impersonate:associated-node resource "nodes"'


@pytest.mark.parametrize("message", [OLDER, NEWER])
@pytest.mark.parametrize("call", [GET, PATCH])
def test_the_error_for_a_denied_impersonation_has_advice(message: str, call: Call) -> None:
    access = ClusterAccess("/etc/k.conf", "https://192.0.2.1:6443", impersonated="system:node:n2")
    error = from_http_status(403, status(message), call, access)
    assert isinstance(error, NodeForbidden)
    assert "This needs Kubernetes 1.36 or later, the roles in identity-own-node.yaml" in str(error)
