"""Why a server's certificate was not accepted. ssl has numbers for the reasons, but no names."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

# X509_V_ERR_* of OpenSSL's x509_vfy.h.
_NO_AUTHORITY = {2, 18, 19, 20, 21}
"""No authority has the name of the issuer."""
_SIGNATURE = 7
"""An authority has the name of the issuer, but another key."""
_VALIDITY = {9, 10}
_PURPOSE = 26
_NAME = {62, 64}


def verification_error(error: BaseException) -> ssl.SSLCertVerificationError | None:
    """Returns the exception of ssl among an exception and its causes."""
    return next((e for e in causes(error) if isinstance(e, ssl.SSLCertVerificationError)), None)


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yields the exception and all its causes. Versions of urllib3 keep these as cause, context, reason or argument."""
    waiting = [error]
    seen: set[int] = set()
    while waiting:
        e = waiting.pop(0)
        if id(e) in seen:
            continue
        seen.add(id(e))
        yield e
        possible = [e.__cause__, e.__context__, getattr(e, "reason", None), *e.args]
        waiting += [cause for cause in possible if isinstance(cause, BaseException)]


def another_authority_may_fit(error: BaseException) -> bool:
    """Whether the verification failed although an authority has the name of the issuer: another may have it, too."""
    failure = verification_error(error)
    return failure is not None and failure.verify_code not in _NO_AUTHORITY | _NAME


def says_more(error: BaseException) -> bool:
    """Whether a failed verification says more than that no authority signed the certificate."""
    failure = verification_error(error)
    return failure is not None and failure.verify_code not in _NO_AUTHORITY | {_SIGNATURE}


def is_about_validity(error: ssl.SSLCertVerificationError) -> bool:
    """Whether a certificate has expired or is not valid yet."""
    return error.verify_code in _VALIDITY


def is_about_the_name(error: ssl.SSLCertVerificationError) -> bool:
    """Whether the certificate is for other names or addresses."""
    return error.verify_code in _NAME


def is_about_the_purpose(error: ssl.SSLCertVerificationError) -> bool:
    """Whether the certificate's keyUsage or extendedKeyUsage does not include a server."""
    return error.verify_code == _PURPOSE
