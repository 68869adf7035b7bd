"""A commented starter configuration made from a machine: a resource for each kind of device worth handing out.

What the detectors' defaults leave out stays out (hubs, virtual functions), and so does what they don't suggest (the
system's disk and interface, a mainboard's bridges). Each resource gives the count that its comment tells; one of which
that can't be told is commented out, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from capacityd.errors import HostError
from capacityd.host import Host
from capacityd.inventory import Listed, listing
from capacityd.inventory.lines import toml_line
from capacityd.kinds import Amount, Flag, Test
from capacityd.match import Verdict, holds
from capacityd.model import DeviceDetector, Value

_DOMAIN = "example.com"
_NAMED = 8  # devices that a comment names
_LONGEST = 48  # characters of a suggested name; Kubernetes allows 63
_UNITS = {"size": ("GiB", 1024**3), "speed": ("Mbit/s", 10**6), "number": ("", 1)}
_HEAD = """\
#:schema file:///usr/share/capacityd/schema.json

# A starter configuration made from {host}: delete what no pod shall ask for, name the rest as you like.
# {domain} holds the place of a domain of yours. Look at what it amounts to, and why, before you use it:
#   capacityd config check --config FILE
#   capacityd probe --explain --config FILE
"""


@dataclass(frozen=True, slots=True)
class _Group:
    """Devices alike. line: matches them and nothing else. doubt: why it can't be told how many, "" if it can."""

    line: str
    devices: tuple[Listed, ...]
    doubt: str


def starter(host: Host, detectors: Iterable[DeviceDetector]) -> str:
    """The configuration as TOML. Raises HostError if there is no looking at all."""
    parts = [_HEAD.format(host=host.hostname(), domain=_DOMAIN)]
    taken: set[str] = set()
    for detector in detectors:
        listed = listing(host, detector)
        parts.append(f"\n# {detector.name}: {detector.about}\n{_left_out(detector, listed)}")
        groups = _groups(detector, listed)
        parts += [f"\n{_block(detector, g, _name(detector, g.devices[0], taken))}" for g in groups]
    return "".join(parts)


def _tests(detector: DeviceDetector, asked: Mapping[str, object]) -> tuple[Test, ...]:
    """As the parser makes them of a table."""
    wanted = {**detector.defaults, **asked}
    return tuple(Test(key, detector.keys[key].kind.parse(raw), str(raw)) for key, raw in wanted.items())


def _verdict(device: Listed, tests: Sequence[Test]) -> Verdict:
    def read(key: str) -> Value:
        if key in device.unread:
            raise HostError(device.unread[key])
        return device.values.get(key)

    return holds(tests, read)


def _groups(detector: DeviceDetector, listed: Sequence[Listed]) -> list[_Group]:
    suggested = _tests(detector, detector.suggest)
    kinds: dict[str, list[Listed]] = {}
    for device in listed:
        if device.kind.line and _verdict(device, suggested).counts is not False:
            kinds.setdefault(device.kind.line, []).append(device)
    found = []
    for members in kinds.values():
        asked = _asked(detector, members[0].kind.asked, listed)
        tests = _tests(detector, asked)
        verdicts = [(device, _verdict(device, tests)) for device in listed]
        doubts = [f"{device.name}: {v.reason}" for device, v in verdicts if v.counts is None]
        matched = tuple(device for device, v in verdicts if v.counts)
        found.append(_Group(toml_line(detector.name, asked), matched or tuple(members), doubts[0] if doubts else ""))
    return found


def _asked(detector: DeviceDetector, kind: Mapping[str, object], listed: Sequence[Listed]) -> dict[str, object]:
    """The kind, and of what is suggested all flags (a system disk may come later) and what makes a difference."""
    asked = dict(kind)
    tests = _tests(detector, kind)
    for key, raw in detector.suggest.items():
        (test,) = (t for t in _tests(detector, {key: raw}) if t.key == key)
        differs = (d for d in listed if _verdict(d, tests).counts is not False and not _verdict(d, [test]).counts)
        if isinstance(detector.keys[key].kind, Flag) or any(differs):
            asked[key] = raw
    return asked


def _left_out(detector: DeviceDetector, listed: Sequence[Listed]) -> str:
    """Comments on the devices that are in no group, by what leaves them out."""
    reasons: dict[str, list[str]] = {}
    suggested = _tests(detector, detector.suggest)
    for device in listed:
        test = next((t for t in suggested if _verdict(device, [t]).counts is False), None)
        if test is not None:
            reasons.setdefault(f"for {test.key}", []).append(device.name)
        elif not device.kind.line:
            reasons.setdefault(f"for what can't be read ({device.kind.why})", []).append(device.name)
    if not listed:
        return "# this machine has none\n"
    return "".join(f"# left out {why}: {_names(names)}\n" for why, names in reasons.items())


def _block(detector: DeviceDetector, group: _Group, name: str) -> str:
    first = group.devices[0]
    title = first.title or f"{detector.name} device"
    lines = [f'[resources."{_DOMAIN}/{name}"]', group.line]
    for key, (unit, total) in _totals(detector, group.devices).items():
        lines.append(f'# measure = "{key}"  # {total} {unit}'.rstrip() + ", instead of their number")
        lines += [f'# unit = "{unit}"'] if unit else []
    if group.doubt:
        lines = [f"# not counted, because that can't be told now: {group.doubt}", *(f"# {line}" for line in lines)]
    return "\n".join([f"# {title} ({len(group.devices)}): {_names([d.name for d in group.devices])}", *lines, ""])


def _totals(detector: DeviceDetector, devices: Sequence[Listed]) -> dict[str, tuple[str, int]]:
    """The first measure of each dimension that all of them have -> unit, sum."""
    found: dict[str, tuple[str, int]] = {}
    for dimension, (unit, factor) in _UNITS.items():
        for key, one in detector.keys.items():
            values = [device.values.get(key) for device in devices]
            if isinstance(one.kind, Amount) and one.kind.dimension == dimension and all(values):
                if total := sum(v for v in values if isinstance(v, int)) // factor:
                    found[key] = unit, total
                break
    return found


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _name(detector: DeviceDetector, device: Listed, taken: set[str]) -> str:
    """A name for the kind of this device that no other has yet."""
    ids = "-".join(str(device.values[key]) for key in detector.alike if key in device.values)
    called = re.sub(r"[([].*?[)\]]", " ", device.model)
    stem = re.sub("[^a-z0-9]+", "-", f"{detector.name}-{called if called.strip() else ids}".lower()).strip("-")
    if len(stem) > _LONGEST:
        stem = stem[: _LONGEST + 1].rpartition("-")[0] if "-" in stem[len(detector.name) + 1 : _LONGEST + 1] else stem
    stem = name = stem[:_LONGEST].strip("-")
    number = 1
    while name in taken:
        number += 1
        name = f"{stem}-{number}"
    taken.add(name)
    return name
