"""COMMAND...: runs a command as on a system where user namespaces are switched off (user.max_user_namespaces=0).

The setting itself would apply to this whole system, so a filter of system calls returns its error (seccomp(2)).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

_CLONE_NEWUSER = 0x10000000
_NUMBERS = {"x86_64": (272, 56), "aarch64": (97, 220)}
"""The numbers of unshare(2) and clone(2)."""
_CLONE3 = 435  # its flags are in memory, which a filter can't read; without it, programs use clone(2)
_LOAD, _IF_EQUAL, _IF_BITS, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER, _FIRST_ARGUMENT = 0, 16
"""Positions in struct seccomp_data."""
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2


def deny_user_namespaces() -> None:
    """From now on, this process and its children can create no user namespace."""
    unshare, clone = _NUMBERS[platform.machine()]
    # Each instruction: code, instructions to skip if true and if false, operand.
    program = [
        (_LOAD, 0, 0, _NUMBER),
        (_IF_EQUAL, 2, 0, unshare),
        (_IF_EQUAL, 1, 0, clone),
        (_IF_EQUAL, 3, 4, _CLONE3),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_IF_BITS, 0, 2, _CLONE_NEWUSER),
        (_RETURN, 0, 0, _ERROR | errno.ENOSPC),
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
        (_RETURN, 0, 0, _ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *instruction) for instruction in program))
    # struct sock_fprog
    described = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, described, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    deny_user_namespaces()
    os.execvp(sys.argv[1], sys.argv[1:])
