"""What the service does, and why: a worker's jobs and activities, reasons for passes, causes of retries, kernel events.

The resident process imports this module, so the module imports little.
"""

from __future__ import annotations

from enum import Enum


class Job(str, Enum):
    """The job of a worker."""

    CHECK = "check"  # check the configuration
    RECONCILE = "reconcile"  # run a reconcile pass


class PassReason(str, Enum):
    """The reason for a reconcile pass. `status` shows the values."""

    CONFIG = "configuration"  # the configuration was checked again, or a file with credentials has changed
    DEVICES = "devices"  # udev reports a changed device, or an event of the machine may have been lost
    FILE = "file"  # a file that a resource is read from has changed
    KERNEL = "kernel"  # a link, an address, a route, a mount or a swap area may have changed (KernelEvents)
    NODE = "node"  # the Node or the kubelet's list of device plugins may have changed
    RESUME = "resume"  # the machine was suspended, or its clock was set
    START = "start"  # the service has started
    TIMER = "timer"  # a resync or a retry is due, or an earlier pass has asked for a pass at this time


class Activity(str, Enum):
    """A worker's activity."""

    CHECK = "check"  # the worker checks the configuration
    PROBE = "probe"  # the worker reads the machine
    NODE = "node"  # the worker contacts the API server, or runs the kubeconfig's exec plugin


class RetryCause(str, Enum):
    """The cause of a failed pass. The cause decides how soon capacityd tries again."""

    UNREACHABLE = "unreachable"  # no response, or the API server is overloaded
    CONFLICT = "conflict"  # another writer changes the Node before each write
    OTHER = "other"


class KernelEvents(str, Enum):
    """Kernel events that come neither from udev nor from files."""

    LINKS = "links"
    ADDRESSES = "addresses"
    ROUTES = "routes"
    MOUNTS = "mounts"
    SWAPS = "swaps"
