"""README.md of this folder: the machines, and the right answer of each machine for each need.

python -m tests.corpus.page writes it anew (make docs).
"""

from __future__ import annotations

from tests.corpus.described import HERE, machines, needs

PAGE = HERE / "README.md"

_INTRODUCTION = """# The corpus

These are recordings of the hardware that real kernels see in virtual machines (tests/corpus/machines). The right
answers are written by hand, from the parts of each machine. `make check` runs every detector on every machine. If a
reading changes, a test fails and shows the device and the rule. `python -m tests.corpus` records the machines again,
and fails if a need, a bus or a class reads differently on the new recording. This takes some minutes to build the
systems that the machines boot, then one or two minutes for each machine. [Pitfalls](pitfalls.md) lists what hardware
does unexpectedly, and which machine or test shows that capacityd handles it.

`-` is absent: nothing is published. `unknown` means that the number cannot be known: a published number stays.
"""

_MACHINES = """The file of each machine lists its parts, the right answers for these needs and for the
[recipes](../../docs/recipes.md), and every device that each detector must find, with its values.
"""


def page() -> str:
    """The whole page."""
    rows = [["need", *machines()], ["---"] * (1 + len(machines()))]
    for need in needs():
        answers = (machine.truth[need.name] for machine in machines().values())
        rows.append([need.name, *("-" if answer == "absent" else str(answer) for answer in answers)])
    lines = [_INTRODUCTION, *(f"| {' | '.join(row)} |" for row in rows)]
    lines += ["", "## The needs", ""]
    lines += [f"- **{need.name}**: {need.about}. `{' '.join(need.toml.split())}`" for need in needs()]
    lines += ["", "## The machines", "", _MACHINES]
    lines += [f"- [{machine.name}](machines/{machine.name}.toml): {machine.about}." for machine in machines().values()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
