"""The one place where what can go wrong on the way to the API server becomes an error that says what to do about it."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from capacityd.errors import NodeConflict, NodeDenied, NodeError, NodeMissing, NodeRejected, NodeUnreachable
from capacityd.printable import printable

_LONGEST = 300
_LONGEST_WAIT = 3600.0  # seconds; a server that asks for more is not taken at its word
_ANONYMOUS = "system:anonymous"
# X509_V_ERR_*, as in OpenSSL's x509_vfy.h; Python's ssl has no names for them.
_NOT_YET_VALID, _EXPIRED = 9, 10


@dataclass(frozen=True, slots=True)
class Call:
    """A request: what was asked of which server, with the credentials of which kubeconfig.

    verb, resource: as a role names them. expired: when the client certificate in it did, "" if it did not.
    """

    server: str
    kubeconfig: str
    verb: str = ""
    resource: str = ""
    node: str = ""
    identity: str = ""
    expired: str = ""


class Refusal(Exception):
    """An answer other than 2xx, on its way through the client to refused()."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body


@dataclass(frozen=True, slots=True)
class _Said:
    """What a Status object says; all empty if the answer was none."""

    message: str = ""
    causes: tuple[str, ...] = ()
    details: Mapping[str, object] = field(default_factory=dict)
    is_status: bool = False


def clip(text: str | bytes) -> str:
    """What somebody else said, fit for a message of ours."""
    clean = printable(text.strip())
    return clean if len(clean) <= _LONGEST else clean[:_LONGEST] + "…"


def refused(refusal: Refusal, call: Call) -> NodeError:
    """What an answer other than 2xx means."""
    said = _said(refusal.body)
    status = refusal.status
    told = f": {clip('; '.join(said.causes) or said.message)}" if said.causes or said.message else ""
    # A guard that does not hold is told from a bad value by the missing causes only.
    guard = status == 409 or (status == 422 and said.is_status and not said.causes)
    if guard and call.resource == "nodes/status":
        return NodeConflict(f'Node "{call.node}" is not as it was when it was read ({status})')
    if status == 401:
        return NodeDenied(f"{_credentials(call)} were not accepted by {call.server} (401): {_why_not_accepted(call)}")
    if status == 403:
        return NodeDenied(_forbidden(call, said))
    if status == 404 and said.details.get("kind") == "nodes":
        return NodeMissing(
            f'there is no Node "{call.node}" on {call.server} (404): has the kubelet registered? Does it use another '
            "name (--hostname-override)?"
        )
    if status == 429 or status >= 500:
        return NodeUnreachable(f"{call.server} says: not now ({status}){told}", _retry_after(refusal.headers))
    if status < 400 or not said.is_status:
        return NodeUnreachable(
            f"what answers at {call.server} is not an API server ({status} for {call.verb} {call.resource}); is the "
            f"address in {call.kubeconfig} right?"
        )
    return NodeRejected(f"{call.server} refuses to {call.verb} {call.resource} ({status}){told}")


def no_answer(error: BaseException, call: Call) -> NodeError:
    """What it means that there was no answer, or only part of one. error: from urllib3, ssl or socket."""
    chain = list(_chain(error))
    for explain in (_proxy, _trust, _tls, _connection, _slow, _broken):
        for e in chain:
            found = explain(e, call)
            if found is not None:
                return found
    known = next((os.strerror(e.errno) for e in chain if isinstance(e, OSError) and e.errno), None)
    # urllib3 1.26 has always met a TypeError before, because it tries what Python 2 could.
    last = next((e for e in reversed(chain) if not isinstance(e, TypeError)), error)
    reason = known or clip(str(last)) or type(last).__name__
    return NodeUnreachable(f"the API server {call.server} can't be reached, or gives no whole answer: {reason}")


def garbage(call: Call, reason: str) -> NodeUnreachable:
    """For an answer that reads well but is not what was asked for, or too much of it."""
    return NodeUnreachable(f"{call.server} gave an answer that can't be used ({call.verb} {call.resource}): {reason}")


def _credentials(call: Call) -> str:
    return f"the credentials in {call.kubeconfig}"


def _why_not_accepted(call: Call) -> str:
    if call.expired:
        return (
            f"its client certificate expired on {call.expired}. Is this machine's clock right? The kubelet renews its "
            "own certificate while it runs; kubeadm can make a new one"
        )
    return "expired or revoked, or of another cluster? They are read anew each time"


def _forbidden(call: Call, said: _Said) -> str:
    who = call.identity or _user(said.message)
    if who == _ANONYMOUS:
        return f"{_credentials(call)} are none that {call.server} knows (403): it takes us for {_ANONYMOUS}"
    whom = f'the identity "{printable(who)}"' if who else f"the identity in {call.kubeconfig}"
    node = f'Node "{call.node}"'
    what = {"nodes": node, "nodes/status": f"nodes/status of {node}"}.get(call.resource, call.resource)
    if who.startswith("system:node:") and who != f"system:node:{call.node}":
        needs = "a kubelet's identity reaches its own Node only"
    elif who.startswith("system:node:"):
        needs = "the Node authorizer grants that (is --authorization-mode=Node on?), or an admission policy forbids it"
    else:
        where = ' in the namespace "default"' if call.resource == "events" else ""
        needs = f'it needs a role with the verb "{call.verb}" on "{call.resource}"{where}'
    return f"{whom} may not {call.verb} {what} (403): {needs}. The API server says: {said.message}"


def _user(message: str) -> str:
    found = re.search(r'User "([^"]+)"', message)
    return found[1] if found else ""


def _proxy(e: BaseException, call: Call) -> NodeError | None:
    import urllib3.exceptions

    if isinstance(e, urllib3.exceptions.ProxyError):
        return NodeUnreachable(f"the proxy-url in {call.kubeconfig} can't be used: {clip(str(e.args[0]))}")
    return None


def _trust(e: BaseException, call: Call) -> NodeError | None:
    where = f"the API server {call.server}"
    if isinstance(e, ssl.SSLCertVerificationError):
        return NodeDenied(f"{where} {_distrusted(e, call)}")
    # urllib3's own for a wrong name; it has moved within urllib3 from version to version.
    if type(e).__name__ == "CertificateError":
        return NodeDenied(f"{where} presents a certificate for other names ({clip(str(e))}); {_right_address(call)}")
    # In TLS 1.3 the refusal of a client certificate shows at the first read only.
    reason = str(e.reason) if isinstance(e, ssl.SSLError) else ""
    if "ALERT" in reason and any(word in reason for word in ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")):
        return NodeDenied(f"{where} refuses the client certificate ({clip(reason)}): {_why_not_accepted(call)}")
    return None


def _tls(e: BaseException, call: Call) -> NodeError | None:
    if isinstance(e, ssl.SSLEOFError | ssl.SSLZeroReturnError):  # a server with too much to do does it, too
        return NodeUnreachable(
            f"the API server {call.server} closed the connection before there was TLS; is it overloaded, or "
            f"{_right_address(call)}"
        )
    if isinstance(e, ssl.SSLError):
        reason = clip(str(e.reason or e))
        return NodeUnreachable(f"the API server {call.server}: no TLS connection ({reason}); {_right_address(call)}")
    return None


def _connection(e: BaseException, call: Call) -> NodeError | None:
    import urllib3.exceptions

    where, right = f"the API server {call.server}", _right_address(call)
    if isinstance(e, socket.gaierror):
        return NodeUnreachable(f"{where}: its name can't be resolved ({clip(str(e.strerror))}); {right}")
    if isinstance(e, ConnectionRefusedError):
        return NodeUnreachable(f"{where} refuses the connection; is it up, and {right}")
    # NewConnectionError is for any failure to connect, although by its place in their tree it is a timeout.
    if isinstance(e, urllib3.exceptions.ConnectTimeoutError) and not isinstance(
        e, urllib3.exceptions.NewConnectionError
    ):
        return NodeUnreachable(f"{where} does not answer the attempt to connect; is it up, and {right}")
    return None


def _slow(e: BaseException, call: Call) -> NodeError | None:
    import urllib3.exceptions

    if isinstance(e, urllib3.exceptions.ReadTimeoutError | TimeoutError):
        return NodeUnreachable(f"the API server {call.server} took too long to answer")
    return None


def _broken(e: BaseException, call: Call) -> NodeError | None:
    if isinstance(e, ConnectionError):
        return NodeUnreachable(f"the API server {call.server} closed the connection before it had answered")
    return None


def _right_address(call: Call) -> str:
    return f"is the address in {call.kubeconfig} right?"


def _distrusted(e: ssl.SSLCertVerificationError, call: Call) -> str:
    if e.verify_code == _EXPIRED:
        return "presents a certificate that has expired; or is this machine's clock wrong?"
    if e.verify_code == _NOT_YET_VALID:
        return "presents a certificate that is not valid yet; is this machine's clock right?"
    return (
        f"presents a certificate of another authority than the one in {call.kubeconfig} ({clip(e.verify_message)}); is "
        "it the right cluster?"
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and all that it was made from: as cause, context, reason or argument, depending on the version."""
    waiting, seen = [error], set()
    while waiting:
        e = waiting.pop(0)
        if id(e) in seen:
            continue
        seen.add(id(e))
        yield e
        inner = [e.__cause__, e.__context__, getattr(e, "reason", None), *e.args]
        waiting += [x for x in inner if isinstance(x, BaseException)]


def _said(body: bytes) -> _Said:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return _Said()
    if not isinstance(found, dict) or found.get("kind") != "Status":
        return _Said()
    details = found.get("details")
    details = details if isinstance(details, dict) else {}
    causes = details.get("causes")
    texts = [_cause(c) for c in causes if isinstance(c, dict)] if isinstance(causes, list) else []
    return _Said(clip(str(found.get("message") or "")), tuple(texts), details, is_status=True)


def _cause(cause: Mapping[str, object]) -> str:
    return ": ".join(str(cause[key]) for key in ("field", "message") if cause.get(key))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    text = next((value for name, value in headers.items() if name.lower() == "retry-after"), "")
    # The other form, a date, is for caches; the API server always gives seconds.
    return min(float(text), _LONGEST_WAIT) if re.fullmatch(r"[0-9]{1,9}", text.strip(), re.ASCII) else None
