"""The `kubernetes` client, bound to one server with one set of credentials, as it works with all versions from 12 on.

Its pool of connections is replaced by ours, which every request of every version goes through: one call is one request,
answers are read whole and up to a limit, and refusals never reach the client's own handling of them. What the
environment says of proxies does not count, as versions differ on it; a kubeconfig's proxy-url does.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from capacityd import __version__
from capacityd.errors import NodeDenied
from capacityd.node.faults import Call, Refusal, garbage, no_answer, refused
from capacityd.node.kubeconfig import Access

# Seconds to connect, and between two pieces of an answer; after 10 the API server says which admission webhook hangs.
_TIMEOUT = (5.0, 12.0)
_MOST = 4 << 20  # bytes of an answer; a Node of the greatest size that etcd takes has 1.5 MiB
_MANAGER = "capacityd"
_REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Client:
    """The requests that we make. Each raises the NodeError for what went wrong. identity: as whom, once it is known."""

    def __init__(self, access: Access) -> None:
        from kubernetes import client

        self.access = access
        self.identity = ""
        configuration = client.Configuration()
        configuration.host = access.server
        configuration.proxy = None
        configuration.verify_ssl = access.verify
        api: Any = client.ApiClient(configuration)
        api.user_agent = f"capacityd/{__version__}"
        if access.token:
            # Configuration's own place for it has had two names.
            api.set_default_header("Authorization", f"Bearer {access.token}")
        self._pool = api.rest_client.pool_manager = _Pool(access)
        self._headers = dict(api.default_headers)
        self._core: Any = client.CoreV1Api(api)

    def read_node(self, name: str) -> object:
        """The Node as JSON."""
        call = self._call("get", "nodes", name)
        return self._ask(call, lambda how: self._core.read_node(name, **how).data)

    def patch_node_status(self, name: str, patch: Sequence[Mapping[str, object]]) -> object:
        """The Node as JSON after this JSON Patch."""
        call = self._call("patch", "nodes/status", name)
        # A list is what makes it a JSON Patch; mappings must be dicts.
        body = [dict(operation) for operation in patch]
        return self._ask(call, lambda how: self._core.patch_node_status(name, body, field_manager=_MANAGER, **how).data)

    def create_event(self, node: str, event: Mapping[str, object]) -> None:
        """An Event in the namespace default, where those about Nodes belong."""
        call = self._call("create", "events", node)
        self._ask(call, lambda how: self._core.create_namespaced_event("default", dict(event), **how).data)

    def review_self(self) -> object:
        """Who we are, a SelfSubjectReview as JSON; None from a server that has no such thing, or does not tell."""
        call = self._call("create", "selfsubjectreviews", "")
        body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
        headers = {**self._headers, "Content-Type": "application/json", "Accept": "application/json"}

        def ask(_: Mapping[str, object]) -> bytes:
            # By hand: the older versions of the client have no method for it, and their general ones differ.
            try:
                return self._pool.request("POST", self.access.server + _REVIEW, body=body, headers=headers).data
            except Refusal as e:
                if e.status in (403, 404, 405):
                    return b"null"
                raise

        return self._ask(call, ask)

    def _call(self, verb: str, resource: str, node: str) -> Call:
        return Call(
            self.access.server, self.access.kubeconfig, verb, resource, node, self.identity, self.access.expired()
        )

    def _ask(self, call: Call, ask: Callable[[Mapping[str, Any]], bytes]) -> object:
        import urllib3.exceptions

        try:
            body = ask({"_preload_content": False, "_request_timeout": _TIMEOUT})
        except Refusal as e:
            raise refused(e, call) from e
        except _TooMuch as e:
            raise garbage(call, f"more than {_MOST} bytes") from e
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as e:
            raise no_answer(e, call) from e
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as e:
            raise garbage(call, "it is not JSON, or only a part of it") from e


class _TooMuch(Exception):
    """An answer that is larger than any that we ask for."""


class _Answer:
    """A whole answer, in the shape that each version of the client wants."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str], data: bytes) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        self.data = data


class _Pool:
    """In the place of urllib3's PoolManager."""

    def __init__(self, access: Access) -> None:
        import urllib3

        options: dict[str, Any] = {"ssl_context": _tls(access), "retries": False, "maxsize": 1}
        # Debian's urllib3 1.26, unless told, asks for a trusted certificate whatever the context says, and adds to
        # the authorities of the context those that the system trusts.
        options |= {"cert_reqs": "CERT_REQUIRED" if access.verify else "CERT_NONE", "ca_certs": None}
        if access.server_name:
            options["server_hostname"] = access.server_name
        if access.proxy:
            user = urlsplit(access.proxy).netloc.rpartition("@")[0]
            headers = urllib3.make_headers(proxy_basic_auth=unquote(user)) if user else None
            self._urllib3: Any = urllib3.ProxyManager(access.proxy, proxy_headers=headers, **options)
        else:
            self._urllib3 = urllib3.PoolManager(**options)
        self._verify = access.verify
        weakref.finalize(self, self._urllib3.clear)  # else urllib3 1.26 leaves its sockets to the garbage collector

    def request(self, method: str, url: str, **how: Any) -> _Answer:
        """As PoolManager.request; raises Refusal for what is not 2xx, what urllib3 raises, _TooMuch."""
        how |= {"preload_content": False, "redirect": False, "retries": False}
        how.setdefault("timeout", _urllib3_timeout())
        with warnings.catch_warnings():
            if not self._verify:
                # It warns at each request; who wrote insecure-skip-tls-verify knows.
                warnings.simplefilter("ignore")
            answer = self._urllib3.request(method, url, **how)
        try:
            data = answer.read(_MOST + 1, decode_content=False)
            if len(data) > _MOST:
                raise _TooMuch
            if not answer.length_remaining:  # else it broke off, and so did the connection
                # The next request follows within milliseconds, and TLS anew costs a server more than a GET does.
                answer.release_conn()
        finally:
            answer.close()  # if it has not been given back
        if not 200 <= answer.status <= 299:
            raise Refusal(answer.status, dict(answer.headers), data)
        return _Answer(answer.status, answer.reason, answer.headers, data)

    def clear(self) -> None:
        """As PoolManager.clear."""
        self._urllib3.clear()


def _urllib3_timeout() -> Any:
    import urllib3

    return urllib3.Timeout(connect=_TIMEOUT[0], read=_TIMEOUT[1])


def _tls(access: Access) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=_authorities(access))
    except (ssl.SSLError, ValueError) as e:
        raise NodeDenied(
            f"the certificate authority of {access.kubeconfig} holds no certificate that can be read"
        ) from e
    # Python 3.13 turned this on; many a cluster's authority lacks the key identifier that it asks for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # The name is checked by urllib3 then; up to 1.26 it can't have ssl do it for a server that goes by its address.
    context.check_hostname = False
    if not access.verify:
        context.verify_mode = ssl.CERT_NONE
    if access.certificate and access.key:
        _load_certificate(context, access)
    return context


def _authorities(access: Access) -> str | None:
    """None for those that the system trusts."""
    if access.authority is None:
        return None
    found = re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", access.authority, re.DOTALL)
    # Given an empty text, ssl would trust what the system trusts.
    if not found:
        raise ValueError
    return "\n".join(found)


def _load_certificate(context: ssl.SSLContext, access: Access) -> None:
    # OpenSSL wants a file; this one is in memory only, and gone with its descriptor.
    fd = os.memfd_create("client-certificate")
    try:
        with open(fd, "wb", closefd=False) as f:
            f.write(f"{access.certificate}\n{access.key}\n".encode("latin-1", "replace"))
        context.load_cert_chain(f"/proc/self/fd/{fd}", password=lambda: "")
    except (ssl.SSLError, ValueError) as e:
        raise NodeDenied(
            f"the client certificate of {access.kubeconfig} can't be used: it, or its key, is damaged, or they "
            "don't belong together"
        ) from e
    finally:
        os.close(fd)
