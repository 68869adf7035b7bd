"""The exceptions of capacityd: a small tree, each with the exit status that a command ends with.

Every message is for the person who runs the agent: what is wrong, where, and what to do about it.
"""

from __future__ import annotations


class CapacitydError(Exception):
    """Something that the user must hear of; str() of it is the whole message."""

    exit_status = 1


class UsageError(CapacitydError):
    """The command line asks for something that can't be done."""

    exit_status = 2


class ConfigError(CapacitydError):
    """The configuration can't be used; the message has a line for each mistake."""

    exit_status = 2


class HostError(CapacitydError):
    """Something of the machine could not be read. What it would have said is unknown, not absent."""

    def __init__(self, message: str, errno: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno


class NodeError(CapacitydError):
    """The Node could not be read or written."""


class NodeUnreachable(NodeError):
    """No answer, or one that says "later". May heal by itself.

    retry_after: seconds that the server asked to wait, if it did.
    """

    exit_status = 3

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NodeDenied(NodeError):
    """The API server does not let us in: no, expired or too weak credentials, or a certificate not trusted."""

    exit_status = 3


class NodeMissing(NodeError):
    """There is no such Node: not registered yet, or no more."""


class NodeConflict(NodeError):
    """A guard of the patch did not hold: somebody else wrote in between. Read, plan and write again."""


class NodeRejected(NodeError):
    """The API server refuses what was sent; sending it again can't help."""
