"""What the kernel knows about links, addresses and routes, from ip(8) in JSON."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from capacityd.host.program import run
from capacityd.model.errors import HostError
from capacityd.model.quoting import quoted
from capacityd.model.text import printable

Json = Mapping[str, Any]

_IP = ("/bin/ip", "-json", "-details", "-Numeric")
_TIMEOUT = 10.0  # seconds
_MAX_BYTES = 64 * 1024 * 1024
"""Largest output. A link needs about 1,500 bytes, and a route 130, so this is enough for 40,000 links or half a million
routes."""
_INTERRUPTED = b"Dump was interrupted"
"""What ip writes to standard error if a list has changed while the kernel sent it (rtnl_dump_filter_l in iproute2's
lib/libnetlink.c). The exit status of ip is 0 nevertheless."""
_NOT_SUPPORTED = tuple(os.strerror(code).encode() for code in (errno.EOPNOTSUPP, errno.EAFNOSUPPORT))
"""What ip writes to standard error if the kernel has no such list at all, or no such list for the address family."""
_ATTEMPTS = 5
"""How often a list is requested that changes while the kernel sends it."""


def ip(*arguments: str) -> Sequence[Json]:
    """The objects that ip prints, in the kernel's order.

    Raises HostError, with EOPNOTSUPP if the kernel has no such list, and ValueError for unexpected output.
    """
    for _ in range(_ATTEMPTS):
        status, out, err = run([*_IP, *arguments], _TIMEOUT, max_output=_MAX_BYTES)
        if status:
            detail = f"standard error: {quoted(printable(err.strip()))}"
            code = errno.EOPNOTSUPP if any(text in err for text in _NOT_SUPPORTED) else None
            raise HostError(f"{_IP[0]} exited with status {status}", code, detail=detail)
        if _INTERRUPTED not in err:
            # The name of an interface may have any bytes but "/" and white space. ip may print nothing for an empty
            # list, and {} for an object that a filter leaves out.
            objects = json.loads(out.decode("utf-8", "surrogateescape") or "[]", strict=False)
            return [printed for printed in objects if printed]
    raise HostError(f"they changed during {_ATTEMPTS} attempts")


@contextmanager
def ip_errors(subject: str) -> Iterator[None]:
    """Adds to HostErrors that the subject could not be read. Exceptions at unexpected output become HostErrors."""
    failed = f"{subject} could not be read"
    try:
        yield
    except HostError as e:
        raise HostError(f"{failed}: {e}", e.errno, e.cause, detail=e.detail) from e
    except (LookupError, TypeError, ValueError, AttributeError) as e:
        raise HostError(f"{failed}: unexpected output of {_IP[0]}", detail=printable(str(e))) from e
