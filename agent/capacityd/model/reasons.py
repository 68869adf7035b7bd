"""What the service does and why: a worker's jobs and activities, reasons for a pass, causes of a retry, kernel events.

The resident process imports this module, so the module imports little.
"""

from __future__ import annotations

from enum import Enum


class Job(str, Enum):
    """The job of a worker."""

    CHECK = "check"  # check the configuration
    RECONCILE = "reconcile"  # run a reconcile pass


class PassReason(str, Enum):
    """The reason for a reconcile pass. The values are the same in `status`."""

    ADDRESSES = "addresses"  # an IP address has changed
    BOOT = "boot"  # the service has started
    CLOCK = "clock"  # the clock was set
    CONFIG = "config"  # the configuration was checked again
    CREDENTIALS = "credentials"  # a file with credentials has changed
    DEVICES = "devices"  # a device has changed, according to udev
    FILE = "file"  # a file that a resource is read from has changed
    HARDWARE = "hardware"  # an event of hardware may have been lost
    LINKS = "links"  # a network link has changed
    MOUNTS = "mounts"  # a file system was mounted or unmounted
    NODE = "node"  # the Node has changed
    PLUGINS = "plugins"  # the kubelet's list of device plugins has changed
    POLL = "poll"  # the Node or an event source can't be watched, so passes look for changes at intervals
    ROUTES = "routes"  # a route, or a rule that selects routes, may have changed
    REQUEUE = "requeue"  # an earlier pass requested it
    RESUME = "resume"  # the machine was suspended
    RETRY = "retry"  # the last pass failed
    RESYNC = "resync"  # the resync period has passed
    START = "start"  # start_jitter has passed
    SWAPS = "swaps"  # a swap area was added or removed


class Activity(str, Enum):
    """A worker's activity."""

    CHECK = "check"  # the worker checks the configuration
    PROBE = "probe"  # the worker reads the machine
    NODE = "node"  # the worker contacts the API server, or runs the kubeconfig's exec plugin


class RetryCause(str, Enum):
    """What is wrong. It decides how soon capacityd tries again (model/pace.py)."""

    UNREACHABLE = "unreachable"  # no response, or the API server is overloaded
    DENIED = "denied"  # the credentials lack a right
    CREDENTIALS = "credentials"  # there are no credentials yet
    CONFLICT = "conflict"  # another writer changes the Node before each write
    REJECTED = "rejected"  # the API server denies the content of a write
    UNKNOWN = "unknown"  # a resource could not be read
    OTHER = "other"


class KernelEvents(str, Enum):
    """Kernel events that come neither from udev nor from files."""

    LINKS = "links"
    ADDRESSES = "addresses"
    ROUTES = "routes"
    MOUNTS = "mounts"
    SWAPS = "swaps"
