"""README.md of this folder: all machines and readings, the truth of each, and where each fact about hardware is shown.

python -m tests.corpus.page writes it anew (make docs).
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from capacityd.model.config import Resource
from tests import ROOT
from tests.corpus.described import (
    HERE,
    NOT_RECORDED,
    Machine,
    host,
    machines,
    needs,
    parsed,
    read,
    resources,
    resources_of_page,
)
from tests.support.readings import device_detector, outcome

PAGE = ROOT / "tests/corpus/README.md"

_INTRODUCTION = """# The corpus

These are recordings of the hardware that real kernels see in virtual machines (tests/corpus/machines). The right
answers are written by hand, from the parts of each machine. `make check` runs every detector on every machine. If a
reading changes, a test fails and shows the device and the rule. `python -m tests.corpus` records the machines again,
and fails if a need, a bus or a class reads differently on the new recording. This takes some minutes to build the
systems that the machines boot, then one or two minutes for each machine.

`-` is absent: nothing is published. `unknown` means that the number cannot be known: a published number stays.
"""


_MACHINES = """Each section lists the parts of a machine; the right answer and capacityd's answer for each need that
concerns the machine and for each of the [recipes](../../docs/recipes.md); and how many devices each detector must list,
and lists. Tests compare the devices one by one, with their values.
"""


@dataclass(frozen=True, slots=True)
class Fact:
    """A pitfall. shown: "machine: need", "machine: detector" or a test's path; instead: why it can't be had."""

    group: str
    text: str
    shown: tuple[str, ...]
    instead: str

    def problems(self) -> list[str]:
        """The missing parts."""
        errors = [] if self.shown or self.instead else ["it is neither shown nor explained"]
        return errors + [f"there is no {place}" for place in self.shown if not _is_there(place)]


@cache
def facts() -> tuple[Fact, ...]:
    """In the order of the file."""
    groups = parsed(HERE / "facts.toml")
    return tuple(
        Fact(group, fact["fact"], tuple(fact.get("shown", ())), fact.get("instead", ""))
        for group, facts_of_group in groups.items()
        for fact in facts_of_group
    )


def _is_there(place: str) -> bool:
    machine, colon, what = place.partition(": ")
    if colon:
        known = machines().get(machine)
        return known is not None and (what in known.truth or what in known.devices)
    path, _, test = place.partition("::")
    return (ROOT / path).exists() and re.search(rf"^def {test}\b", (ROOT / path).read_text(), re.M) is not None


def page() -> str:
    """The whole page."""
    rows = _rows()
    lines = [_INTRODUCTION, *(f"| {' | '.join(row)} |" for row in (rows[0], ["---"] * len(rows[0]), *rows[1:]))]
    lines += ["", "## The needs", ""]
    lines += [f"- **{need.name}**: {need.about}. `{' '.join(need.toml.split())}`" for need in needs()]
    lines += ["", "## The machines", "", _MACHINES]
    for machine in machines().values():
        source = f"[As QEMU is given it](machines/{machine.name}.toml)"
        lines += [f"### {machine.name}", "", f"{machine.about}. {source}.", ""]
        lines += ["| | truth | capacityd reads |", "| --- | --- | --- |"]
        lines += [f"| {' | '.join(row)} |" for row in _truth(machine)]
        lines.append("")
    lines += ["## Pitfalls, and what shows that each is handled", ""]
    for group in dict.fromkeys(fact.group for fact in facts()):
        lines += [f"### {group}", ""]
        lines += [f"- {fact.text}. {_where(fact)}" for fact in facts() if fact.group == group]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _where(fact: Fact) -> str:
    shown = ", ".join(f"`{place}`" for place in fact.shown)
    return " ".join(part for part in (f"Shown by {shown}." if shown else "", fact.instead) if part)


def _rows() -> list[list[str]]:
    """A header, and a row for each need."""
    with tempfile.TemporaryDirectory() as folder:
        known = resources(Path(folder))
    rows = [[need.name, *(_cell(name, known[need.name]) for name in machines())] for need in needs()]
    return [["need", *machines()], *rows, ["devices", *map(_devices, machines().values())]]


def _truth(machine: Machine) -> list[list[str]]:
    """Rows of what, truth, and what capacityd reads, without those that are none in both."""
    with tempfile.TemporaryDirectory() as folder:
        known, everyday = resources(Path(folder)), resources_of_page(Path(folder))
    right = {**dict.fromkeys(everyday, "absent"), **NOT_RECORDED, **machine.page}
    outcomes: list[tuple[str, object, object]] = [
        *((name, truth, outcome(read(machine.name, known[name]))) for name, truth in machine.truth.items()),
        *((f"everyday: {name}", right[name], outcome(read(machine.name, of))) for name, of in everyday.items()),
        *(
            (f"devices of {detector}", len(devices), _listed(machine, detector))
            for detector, devices in machine.devices.items()
        ),
    ]
    return [[what, str(truth), str(actual)] for what, truth, actual in outcomes if {truth, actual} - {"absent", 0}]


def _listed(machine: Machine, detector: str) -> int:
    """How many devices a detector lists."""
    return len([*device_detector(detector).find(host(machine.name))])


def _cell(machine: str, resource: Resource) -> str:
    reading = outcome(read(machine, resource))
    return "-" if reading == "absent" else str(reading)


def _devices(machine: Machine) -> str:
    return str(sum(_listed(machine, detector) for detector in machine.devices))


if __name__ == "__main__":
    PAGE.write_text(page())
