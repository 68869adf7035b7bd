"""Sets up TLS from a kubeconfig: accepts the certificates of servers that client-go accepts, and refuses the others.

The rules of client-go are those of Go's crypto/x509 (Certificate.Verify, VerifyHostname, CertPool.AppendCertsFromPEM).
tests/cluster/test_client_go.py compares capacityd with client-go.
"""

from __future__ import annotations

import base64
import os
import re
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from capacityd.model.errors import NodeUnauthorized
from capacityd.node.certificate_errors import another_authority_may_fit, is_about_the_authority, verification_error
from capacityd.node.cluster_access import ClusterAccess

T = TypeVar("T")

# Go ignores blocks of other types (TRUSTED CERTIFICATE), and blocks with headers.
_PEM_CERTIFICATE = re.compile(
    r"^-----BEGIN CERTIFICATE-----[ \t\r]*\n([\w+/=\s]*?)\n-----END CERTIFICATE-----[ \t\r]*$", re.ASCII | re.MULTILINE
)

_KEY_TYPE = re.compile(r"(-----(?:BEGIN|END) )(?:\w+ )*(?=PRIVATE KEY-----)", re.ASCII)
"""The first or last line of a key's PEM block, up to the words PRIVATE KEY: group 1, then the key's type."""
_KEY_TYPES = ("", "RSA ", "EC ")  # "": PKCS #8


class ServerTrust:
    """Verifies a server with the authorities of a kubeconfig, and presents the client certificate.

    During a rotation, several authorities may have the same name. Go tries all of them; OpenSSL may try only one. So a
    context that trusts all authorities is tried first, and then one for each authority alone.
    """

    def __init__(self, access: ClusterAccess) -> None:
        """Raises NodeUnauthorized if a certificate or key cannot be used."""
        self._access = access
        self._authorities = None if access.authority is None else _certificates(access.authority)  # None: the system's
        if self._authorities == []:
            raise NodeUnauthorized(f"the certificate authority in {access.kubeconfig} contains no usable certificate")
        self._all_authorities_context = _context(access, self._authorities)
        self._last_verified = self._all_authorities_context  # the context that last verified the server

    def try_contexts(self, attempt: Callable[[ssl.SSLContext], T]) -> T:
        """Makes the attempt with one context after the other, until one verifies the server. Returns its result.

        attempt: sends a request over a connection that is opened with the context, now or in an earlier attempt. An
        attempt that does not verify the server sends no credentials, because they follow the handshake. Its exception
        may have ssl's exception as a cause or an argument.
        """
        errors: list[Exception] = []
        for context in self._contexts():
            try:
                result = attempt(context)
            except Exception as e:
                failure = verification_error(e)
                if failure is None:
                    raise
                errors.append(e)
                if context is self._all_authorities_context and not another_authority_may_fit(failure):
                    break
            else:
                self._last_verified = context
                return result
        raise _most_specific(errors)

    def _contexts(self) -> Iterator[ssl.SSLContext]:
        """Yields the contexts in the order in which to try them: first the one that verified the server last time."""
        if self._last_verified is not self._all_authorities_context:
            yield self._last_verified
        yield self._all_authorities_context
        if self._authorities and len(self._authorities) > 1:
            for authority in self._authorities:
                yield _context(self._access, [authority])


def _most_specific(errors: Sequence[Exception]) -> Exception:
    """Returns the first error that says more than that no authority signed the certificate; if none does, the first."""
    for e in errors:
        failure = verification_error(e)
        if failure and not is_about_the_authority(failure):
            return e
    return errors[0]


class _Context(ssl.SSLContext):
    """A context for one server. It checks the server's name in the handshake.

    The caller's server_hostname is not used: urllib3 passes none for an IP address, and does not know tls-server-name.
    """

    server_name: str
    """The name or address that the server's certificate must contain."""

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        return super().wrap_socket(*args, **{**options, "server_hostname": self.server_name})

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        return super().wrap_bio(*args, **{**options, "server_hostname": self.server_name})


def _context(access: ClusterAccess, authorities: Sequence[bytes] | None) -> ssl.SSLContext:
    """Returns a context that trusts these authorities (DER), or those of the system. Raises NodeUnauthorized."""
    # Unlike create_default_context(), this does not set VERIFY_X509_STRICT: the authorities of many clusters lack the
    # key identifier that this flag requires.
    context = _Context(ssl.PROTOCOL_TLS_CLIENT)
    context.server_name = access.server_name or _host(access)
    # A trusted certificate need not be a root: it may be an intermediate, or the server's own.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # Names are only in subjectAltName.
    context.hostname_checks_common_name = False
    # Go accepts RSA keys from 1024 bits, and no SHA-1. This is OpenSSL 3's level 1.
    context.set_ciphers("DEFAULT:@SECLEVEL=1")
    if not access.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authorities is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cadata=b"".join(authorities))
    if access.certificate and access.key:
        _load_client_certificate(context, access, certificate=access.certificate, key=access.key)
    return context


def _host(access: ClusterAccess) -> str:
    """Returns the host of the server, or of the proxy if only the proxy uses TLS.

    At least one of the two uses TLS, because VerifiedPool creates a ServerTrust only then. If both use TLS,
    urllib3 verifies the proxy with a context of its own.
    """
    urls = [urlsplit(url) for url in (access.server, access.proxy) if url]
    host = next(url.hostname or "" for url in urls if url.scheme == "https")
    return host.rstrip(".")


def _certificates(pem: str) -> list[bytes]:
    """Returns the certificates in a PEM text (DER). Ignores text between them, and damaged certificates."""
    blocks = map(_decoded, _PEM_CERTIFICATE.findall(pem))
    return [der for der in blocks if _is_certificate(der)]


def _is_certificate(der: bytes) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=der)
    except (ssl.SSLError, ValueError):
        return False
    return True


def _decoded(text: str) -> bytes:
    """Decodes base64; returns b"", which is no certificate, if the text is damaged."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        return b""


def _load_client_certificate(context: ssl.SSLContext, access: ClusterAccess, certificate: str, key: str) -> None:
    """Makes the context present a client certificate. Raises NodeUnauthorized if it or its key is unusable."""
    for possible_key in _with_each_type(key):
        with suppress(ssl.SSLError, ValueError):  # the key may be of the next type
            _load_pair(context, certificate=certificate, key=possible_key)
            return
    if "ENCRYPTED" in key:  # in the first line of PKCS #8, in the header Proc-Type of older formats
        raise NodeUnauthorized(
            f"the client key in {access.kubeconfig} is encrypted with a password: write the key without one, with "
            "`openssl pkey -in KEY -out NEW_KEY`"
        )
    raise NodeUnauthorized(
        f"the client certificate in {access.kubeconfig} cannot be used: the certificate or its key is damaged, or "
        "they do not belong together"
    )


def _with_each_type(key: str) -> Iterator[str]:
    """Yields a private key as it is, then as a key of each type. The type that its PEM block names may be wrong.

    OpenSSL relies on the named type. Go (crypto/tls.X509KeyPair) tries each type.
    """
    yield key
    for key_type in _KEY_TYPES:
        yield _KEY_TYPE.sub(rf"\1{key_type}", key)


def _load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    with _memory_file(certificate) as certificate_file, _memory_file(key) as key_file:
        # Without a password, OpenSSL would ask for one on the terminal if the key is encrypted.
        context.load_cert_chain(certificate_file, key_file, password=lambda: "")


@contextmanager
def _memory_file(text: str) -> Iterator[str]:
    """The path of a file that exists only in memory, until the context ends: OpenSSL requires files."""
    fd = os.memfd_create("client-certificate")
    try:
        with open(fd, "wb", closefd=False) as f:
            f.write(text.encode("latin-1", "replace"))
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)
