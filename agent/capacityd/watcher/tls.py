"""The TLS settings of the watcher's connections."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from capacityd.watcher.target import Target, WatchFailure


def context_of(target: Target) -> ssl.SSLContext:
    """The context of all connections to this server: a new one takes 3.7 MiB. Raises WatchFailure."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # As in node/tls.py: a trusted certificate need not be a root; names are only in subjectAltName; Go accepts RSA keys
    # from 1024 bits.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.hostname_checks_common_name = False
    context.set_ciphers("DEFAULT:@SECLEVEL=1")
    try:
        if not target.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif target.authority is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cadata=target.authority.encode("ascii", "ignore").decode())
        if target.certificate and target.key:
            with _memory_file(target.certificate) as certificate, _memory_file(target.key) as key:
                # Without a password, OpenSSL would ask for one on the terminal if the key is encrypted.
                context.load_cert_chain(certificate, key, password=lambda: "")
    except (ssl.SSLError, ValueError):
        raise WatchFailure("cannot be watched with these certificates") from None
    return context


@contextmanager
def _memory_file(text: str) -> Iterator[str]:
    """The path of a file that exists only in memory, until the context ends: OpenSSL requires files."""
    fd = os.memfd_create("client-certificate")
    try:
        os.write(fd, text.encode("latin-1", "replace"))
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)
