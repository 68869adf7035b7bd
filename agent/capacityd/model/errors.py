"""The exceptions of capacityd: a small tree, each with the exit status that a command ends with.

Every message is for the person who runs the agent: what is wrong, where, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from capacityd.model.reasons import RetryCause


class Cause(Enum):
    """The cause of an unknown reading. The values are those in JSON."""

    CONFIGURATION = "configuration"  # the resource has an error in the configuration
    UNREADABLE = "unreadable"  # the machine does not provide what the reading needs
    NO_MEASURE = "no_measure"  # a device matches, and has no value to add up
    TOO_LARGE = "too_large"  # more than Kubernetes can count
    PROGRAM_FAILED = "program_failed"  # a program of the detector exec failed or printed no number
    TIMEOUT = "timeout"  # the program or the detector did not end in time
    HANGING = "hanging"  # the detector of an earlier pass hangs in the kernel, so no other is started
    KILLED = "killed"  # the detector was killed by a signal, or because it used too much memory
    DETECTOR_FAILED = "detector_failed"  # a defect in the detector, or it could not be started


class CapacitydError(Exception):
    """An error for the user; str() of it is the whole message."""

    exit_status = 1


class UsageError(CapacitydError):
    """The command line asks for something that can't be done."""

    exit_status = 2


class ConfigError(CapacitydError):
    """The configuration is invalid; the message has a line for each error.

    line: of the file that was being read, where the parser stopped; 0 if it has none.
    """

    exit_status = 2

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class HostError(CapacitydError):
    """Something of the machine could not be read, so the value is unknown, not absent.

    cause: that of a reading that is unknown for this error.
    """

    def __init__(self, message: str, errno: int | None = None, cause: Cause = Cause.UNREADABLE) -> None:
        super().__init__(message)
        self.errno = errno
        self.cause = cause


class AmbiguousValue(HostError):
    """A value could not be read, but it is one of a few. A test that matches none of them fails.

    possible: the values that it may have.
    """

    def __init__(self, error: HostError, possible: tuple[str, ...]) -> None:
        super().__init__(str(error), error.errno, error.cause)
        self.possible = possible


class NotRecorded(HostError):
    """A recording does not have what was asked for, although the machine may."""


class ProgramFailed(HostError):
    """A program could not be run, or did not do what it is for."""

    def __init__(self, message: str, errno: int | None = None) -> None:
        super().__init__(message, errno, Cause.PROGRAM_FAILED)


class StateError(CapacitydError):
    """This machine can't keep what has to outlive a worker: a full or read-only file system."""


class NodeError(CapacitydError):
    """The Node could not be read or written."""

    cause = RetryCause.OTHER
    """It decides the pace at which the service tries again."""


class InvalidDocument(NodeError):
    """A document of Kubernetes, from the API server or from a file, is of another kind, or has an invalid field."""


class NodeUnreachable(NodeError):
    """No response, one that cannot be used, or HTTP 429 or 5xx. A later attempt may succeed.

    retry_after: seconds that the server asked to wait, if it did.
    """

    exit_status = 3
    cause = RetryCause.UNREACHABLE

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NodeDenied(NodeError):
    """The API server denies access: credentials are missing, expired or lack a right, or a certificate is not trusted.

    files: those that the credentials are in, where they are known. A change of one may end it.
    """

    exit_status = 3
    cause = RetryCause.DENIED
    files: tuple[str, ...] = ()


class CredentialsMissing(NodeDenied):
    """There is no kubeconfig, or a file that it names does not exist: this machine has not joined a cluster yet.

    files: where what is missing is expected.
    """

    cause = RetryCause.CREDENTIALS

    def __init__(self, message: str, files: Sequence[str]) -> None:
        super().__init__(message)
        self.files = tuple(files)


class PluginFailed(NodeDenied):
    """The exec plugin of a kubeconfig failed. It may need the network, so it is tried again as a server is."""

    cause = RetryCause.UNREACHABLE


class NodeForbidden(NodeDenied):
    """The API server accepts the credentials, but denies this request."""


class NodeMissing(NodeError):
    """There is no such Node: it is not registered yet, or was deleted."""

    cause = RetryCause.MISSING


class NodeConflict(NodeError):
    """Somebody else wrote in between. Read, plan and write again.

    reason: what the API server says about it.
    """

    cause = RetryCause.CONFLICT

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class NodeListExpired(NodeError):
    """The API server no longer has the version of the list whose first pages have been read."""


class NodeRejected(NodeError):
    """The API server, or an admission policy or webhook in it, denies the content of a write."""

    cause = RetryCause.REJECTED

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message
        """The reason that the API server gives."""


class NodeWriteFailed(NodeUnreachable):
    """A server error (HTTP 5xx) in response to a write: the API server is starting, or cannot store what was written.

    rejection: the error if it is the latter.
    """

    def __init__(self, message: str, retry_after: float | None, rejection: NodeRejected) -> None:
        super().__init__(message, retry_after)
        self.rejection = rejection
