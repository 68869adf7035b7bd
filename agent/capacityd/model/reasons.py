"""Why the service acts: the jobs of a worker, the reasons for a pass, the causes of a retry, the kernel's events.

The resident process imports this module, so it imports little.
"""

from __future__ import annotations

from enum import Enum


class Job(str, Enum):
    """What a worker is started for."""

    CHECK = "check"
    RECONCILE = "reconcile"


class PassReason(str, Enum):
    """Why a reconcile pass is made. The values are those of `status`."""

    BOOT = "boot"  # the service has started
    CONFIG = "config"  # the configuration was checked again
    CREDENTIALS = "credentials"  # a file that the credentials are in has changed
    FILE = "file"  # a file that a resource is read from has changed
    HARDWARE = "hardware"  # an event of a device, a link, an address, a mount or swap
    KUBELET = "kubelet"  # the kubelet has restarted
    PLUGINS = "plugins"  # the kubelet's list of device plugins has changed
    REQUEUE = "requeue"  # an earlier pass asked for it
    RESUME = "resume"  # the machine was suspended
    RETRY = "retry"  # the last pass failed
    RESYNC = "resync"  # the period has passed
    START = "start"  # start_jitter has passed


class Activity(str, Enum):
    """What a worker is doing."""

    CHECK = "check"  # it checks the configuration
    PROBE = "probe"  # it reads the machine
    NODE = "node"  # it talks to the API server, or runs the exec plugin of the kubeconfig


class RetryCause(str, Enum):
    """What kind of error a pass ended with. It decides the pace of retries (service/schedule.py)."""

    UNREACHABLE = "unreachable"  # no response, or an API server that is overloaded
    MISSING = "missing"  # there is no such Node
    STATE = "state"  # this machine could not save what must last
    DENIED = "denied"  # the credentials lack a right
    CREDENTIALS = "credentials"  # there are none yet
    CONFLICT = "conflict"  # another writer comes in between each time
    REJECTED = "rejected"  # the API server denies the content of a write
    OTHER = "other"


class KernelEvents(str, Enum):
    """Events that do not come from udev, and not from a file of the configuration."""

    LINKS = "links"
    ADDRESSES = "addresses"
    MOUNTS = "mounts"
    SWAPS = "swaps"
