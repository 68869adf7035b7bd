"""Decides whether a resource applies to this machine: the tests of its `when`, and the machine's values for them."""

from __future__ import annotations

from collections.abc import Iterable

from capacityd.discovery.explain import explain_when
from capacityd.discovery.matcher import match_all
from capacityd.model.errors import HostError
from capacityd.model.host import Host, resolve_link
from capacityd.model.quoting import length_text, quoted
from capacityd.model.reading import Absent, Explanation, Reading, Unknown
from capacityd.model.text import has_escapes, strip_control
from capacityd.schema.config import Resource
from capacityd.schema.matchers import Value

_NODE_NAME_UNKNOWN = "the Node's name is not known; give it with --node-name, or as node_name in [kubernetes]"
"""The host name is not used instead, because it may differ from the Node's name."""


def check_when(resource: Resource, host: Host, node_name: str | None, *, explain: bool) -> Reading | None:
    """Returns None if the resource applies to this machine. Otherwise returns the reading: Absent if a test of `when`
    fails, Unknown if a value could not be read.

    node_name: the Node's name, or None if it is unknown. explain: whether to add the explanation.
    """

    def read(key: str) -> Value:
        return _machine_value(key, host, resource, node_name=node_name)

    result = match_all(resource.when, read)
    if result.matches:
        return None
    reading: Absent | Unknown
    if result.matches is None:
        reading = Unknown(f"when: {result.reason}", result.cause, explanation=Explanation(result.detail))
    else:
        reading = Absent(f"does not apply to this machine: {result.reason}", applies=False)
    return explain_when(resource, reading, result=result, read=read) if explain else reading


def _machine_value(key: str, host: Host, resource: Resource, *, node_name: str | None) -> Value:
    """The machine's value for a key of the resource's `when`: arch, node_name, path, dmi.NAME or devicetree.NAME.

    The value of path is the list of the configured paths that exist.
    """
    group, _, name = key.partition(".")
    if group == "dmi":
        return _dmi_text(host, f"/sys/class/dmi/id/{name}")
    if group == "devicetree":
        return tuple(host.lines(f"/proc/device-tree/{name}"))
    if group == "path":
        return _existing_paths(host, resource.when_paths)
    if group == "arch":
        return host.arch()
    if group != "node_name":
        raise NotImplementedError(f"no value for the key {key} of `when`")
    if node_name is None:
        raise HostError(_NODE_NAME_UNKNOWN)
    return node_name


def _existing_paths(host: Host, paths: Iterable[str]) -> tuple[str, ...]:
    """The paths that exist. Raises HostError if none is known to exist and at least one could not be checked."""
    existing = []
    first_error: HostError | None = None
    for path in paths:
        try:
            exists = host.exists(path)
        except HostError as e:
            first_error = first_error or e
            continue
        if exists:
            existing.append(path)
            continue
        advice = host.sandbox_advice([path])
        if advice:  # the service's sandbox may hide the path
            first_error = first_error or HostError(f"{path} may exist{advice}")
    if first_error and not existing:
        raise first_error
    return tuple(existing)


def _dmi_text(host: Host, path: str) -> str | None:
    """A DMI text; None if there is no such text. Removes the control characters at both ends, which some vendors leave
    in unset fields.

    Raises HostError if the text is not printable, because a damaged text must not decide whether the resource applies.
    Also raises HostError if the link to the folder is dangling, because then the text is unknown, not missing.
    """
    text = host.text(path)
    if text is None:
        folder = path.rpartition("/")[0]
        resolve_link(host, folder)  # raises HostError if the link is dangling
        return None
    text = strip_control(text)
    if has_escapes(text):
        raise HostError(
            f"{path} contains unprintable characters ({length_text(text)}); test another key: "
            '"capacityd probe --explain" shows the values of all keys of "when"',
            detail=f"it contains {quoted(text)}",
        )
    return text
