"""Why a server's certificate was not accepted. ssl has numbers for the reasons, but no names."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

# X509_V_ERR_* of OpenSSL's x509_vfy.h.
_NO_AUTHORITY = {
    2,  # UNABLE_TO_GET_ISSUER_CERT
    18,  # DEPTH_ZERO_SELF_SIGNED_CERT
    19,  # SELF_SIGNED_CERT_IN_CHAIN
    20,  # UNABLE_TO_GET_ISSUER_CERT_LOCALLY
    21,  # UNABLE_TO_VERIFY_LEAF_SIGNATURE
}
"""No authority has the name of the issuer."""
_SIGNATURE = 7  # CERT_SIGNATURE_FAILURE
"""An authority has the name of the issuer, but another key."""
_VALIDITY = {9, 10}  # CERT_NOT_YET_VALID, CERT_HAS_EXPIRED
_PURPOSE = 26  # INVALID_PURPOSE
_NAME = {62, 64}  # HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH


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


def another_authority_may_fit(error: ssl.SSLCertVerificationError) -> bool:
    """Whether another authority with the name of the issuer may verify the server, after one did not.

    An authority with another key may, or one that has not expired.
    """
    if error.verify_code in _NO_AUTHORITY:  # no authority has the name
        return False
    return not is_about_the_name(error)  # a certificate for other servers is wrong whichever authority signed it


def is_about_the_authority(error: ssl.SSLCertVerificationError) -> bool:
    """Whether no authority has signed the certificate."""
    return error.verify_code in _NO_AUTHORITY or error.verify_code == _SIGNATURE


def is_about_validity(error: ssl.SSLCertVerificationError) -> bool:
    """Whether a certificate has expired or is not valid yet."""
    return error.verify_code in _VALIDITY


def is_about_the_name(error: ssl.SSLCertVerificationError) -> bool:
    """Whether the certificate is for other names or addresses."""
    return error.verify_code in _NAME


def is_about_the_purpose(error: ssl.SSLCertVerificationError) -> bool:
    """Whether the certificate's keyUsage or extendedKeyUsage does not include a server."""
    return error.verify_code == _PURPOSE
