"""The exceptions of capacityd. Each class defines the exit status of a command.

Every message says what is wrong, where, and how to fix it. Anybody may read a message, so it does not quote text from
the machine, from credentials or from a server. The only exception is the message of a Kubernetes Status.
"""

from __future__ import annotations

from enum import Enum

from capacityd.model.reasons import RetryCause
from capacityd.model.text import printable


class Cause(Enum):
    """The cause of an unknown reading. The values are the same in JSON."""

    CONFIGURATION = "configuration"  # the resource has an error in the configuration
    UNREADABLE = "unreadable"  # the machine does not provide the data
    NO_MEASURE = "no_measure"  # a device matches but has no value to add up
    TOO_LARGE = "too_large"  # the number is larger than Kubernetes can count
    PROGRAM_FAILED = "program_failed"  # a program of the detector exec failed or printed no number
    NOT_TRUSTED = "not_trusted"  # another user could change the program to run, or chose the file to read
    TIMEOUT = "timeout"  # the program or the detector did not end in time
    HANGING = "hanging"  # the detector of an earlier pass still hangs in the kernel
    KILLED = "killed"  # a signal killed the detector, or it used too much memory
    DETECTOR_FAILED = "detector_failed"  # the detector has a defect or could not be started


class CapacitydError(Exception):
    """An error for the user. str() returns the whole message, which anybody may read."""

    exit_status = 1


class UsageError(CapacitydError):
    """The command line asks for something that can't be done."""

    exit_status = 2


class ConfigError(CapacitydError):
    """The configuration is invalid. The message contains a line for each error.

    line: the line of the file at which the parser stopped; 0 if unknown.
    """

    exit_status = 2

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class HostError(CapacitydError):
    """Some data of the machine could not be read, so the value is unknown, not absent.

    errno: None if no system call has failed. cause: the cause of the resulting unknown reading. detail: the text from
    the machine that could not be used, which only `probe --explain` shows.
    """

    def __init__(
        self, message: str, errno: int | None = None, cause: Cause = Cause.UNREADABLE, *, detail: str = ""
    ) -> None:
        super().__init__(printable(message))  # the message may contain a path, and a path may contain any bytes
        self.errno = errno
        self.cause = cause
        self.detail = detail

    def with_message(self, message: str) -> HostError:
        """The same error with another message."""
        return HostError(message, self.errno, self.cause, detail=self.detail)


class AmbiguousValue(HostError):
    """A value could not be read, but only a few values are possible.

    A test in the configuration fails if no possible value matches. Otherwise, the test's result is unknown.
    """

    def __init__(self, error: HostError, possible: tuple[str, ...]) -> None:
        super().__init__(str(error), errno=error.errno, cause=error.cause, detail=error.detail)
        self.possible = possible


class NotRecorded(HostError):
    """A recording does not contain the requested data. The recorded machine may have the data."""


class ProgramFailed(HostError):
    """A program could not be run, or did not produce its result."""

    def __init__(self, message: str, errno: int | None = None, *, detail: str = "") -> None:
        super().__init__(message, errno=errno, cause=Cause.PROGRAM_FAILED, detail=detail)


class NodeError(CapacitydError):
    """The Node could not be read or written.

    reason: the API server's reason; by default, the message.
    """

    cause = RetryCause.OTHER
    """The cause decides how soon the service retries."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class NodeFileUnusable(NodeError):
    """The file of a Node or of a list of Nodes can't be read, or contains neither."""

    exit_status = 2


class NodeUnreachable(NodeError):
    """The API server sends no usable response, or HTTP 429 or 5xx. A later attempt may succeed.

    retry_after: the server's Retry-After in seconds; 0 if it sent none.
    """

    exit_status = 3
    cause = RetryCause.UNREACHABLE

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NodeUnauthorized(NodeError):
    """The credentials can't be used, lack a right or belong to another Node, or a certificate is not trusted.

    A change of the files with the credentials may end the error.
    """

    exit_status = 3


class CredentialsMissing(NodeUnauthorized):
    """The kubeconfig or a file that it names is missing. Probably, this machine has not joined a cluster yet."""


class CredentialsNotTrusted(NodeUnauthorized):
    """Another user could change the kubeconfig, a file that it names, or its exec plugin."""


class NodeForbidden(NodeUnauthorized):
    """The API server accepts the credentials, but denies this request."""


class NodeMissing(NodeError):
    """The Node does not exist: it is not registered yet, or was deleted.

    server: the API server's name in messages.
    """

    def __init__(self, server: str, node: str) -> None:
        super().__init__(
            f'{server} has no Node "{node}". Has the kubelet registered? If it uses another name '
            "(--hostname-override), set --node-name, or node_name in the configuration. If it was renamed, its "
            "kubeconfig is still that of the old name: let it join the cluster again"
        )


class NodeConflict(NodeError):
    """Another writer changed the Node after it was read (HTTP 409). The pass must read, plan and write again."""

    cause = RetryCause.CONFLICT


class NodeRejected(NodeError):
    """The API server, or one of its admission policies or webhooks, denies the content of a write."""
