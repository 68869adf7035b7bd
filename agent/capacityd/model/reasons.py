"""What the service does and why: a worker's jobs and activities, reasons for a pass, causes of a retry, kernel events.

The resident process imports this module, so the module imports little.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Job(str, Enum):
    """The job of a worker."""

    CHECK = "check"  # check the configuration
    RECONCILE = "reconcile"  # run a reconcile pass


class Occasion(str, Enum):
    """What a pass was about, as `status` shows it: the kind of thing that a reader would look at."""

    START = "start"  # the service
    CONFIGURATION = "configuration"
    CREDENTIALS = "credentials"
    HARDWARE = "hardware"  # devices, links, addresses, routes, mounts, swap
    FILE = "file"  # a file that a resource is read from
    NODE = "node"  # the Node, or the kubelet's list of device plugins
    RETRY = "retry"  # an error of the last pass
    TIME = "time"  # nothing: the pass was due


class PassReason(str, Enum):
    """The reason for a reconcile pass."""

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


_OCCASIONS = {
    PassReason.BOOT: Occasion.START,
    PassReason.START: Occasion.START,
    PassReason.CONFIG: Occasion.CONFIGURATION,
    PassReason.CREDENTIALS: Occasion.CREDENTIALS,
    PassReason.FILE: Occasion.FILE,
    PassReason.NODE: Occasion.NODE,
    PassReason.PLUGINS: Occasion.NODE,
    PassReason.RETRY: Occasion.RETRY,
    PassReason.CLOCK: Occasion.TIME,
    PassReason.POLL: Occasion.TIME,
    PassReason.REQUEUE: Occasion.TIME,
    PassReason.RESUME: Occasion.TIME,
    PassReason.RESYNC: Occasion.TIME,
}
"""Reason -> what the pass was about. The others are events of hardware."""


def occasions_of(reasons: Iterable[PassReason]) -> tuple[Occasion, ...]:
    """What a pass with these reasons was about, sorted."""
    return tuple(sorted({_OCCASIONS.get(reason, Occasion.HARDWARE) for reason in reasons}))


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
