"""What capacityd breaks today although it is not admitted, and what no choice of random acts can avoid.

Each entry goes with its finding in test_expected_failures.py.
"""

from __future__ import annotations

from math import inf

from tests.support.judge.admitted import ADMITTED, Admitted
from tests.support.judge.faults import What
from tests.support.judge.ghosts import Ghosts, is_lower
from tests.support.judge.judge import Judge
from tests.support.judge.promises import Breach
from tests.support.model.server import SECRET


def r2(ghosts: Ghosts, breach: Breach) -> float:
    """While a reduction is held, another writer's number stays."""
    published = ghosts.published.get(breach.entry)
    is_another = breach.fault is not None and breach.fault.what in (What.ANOTHER, What.ALLOCATABLE, What.LABEL)
    readings = (ghosts.reading(breach.entry, ghosts.given), ghosts.reading(breach.entry, ghosts.readings))
    is_held = published is not None and any(is_lower(reading, published) for reading in readings)
    return inf if is_another and is_held else 0.0


KNOWN = {"R2": Admitted("", ("true_only_while_right", "true_when_written", "right_in_time"), r2)}


def lenient_judge() -> Judge:
    """A judge that excuses what is known."""
    return Judge((*ADMITTED, *KNOWN.values()), [SECRET])
