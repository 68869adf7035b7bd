"""Histories in which capacityd breaks a promise today. Each is the shortest one that is known.

The random histories (random_acts.py) leave out the acts that lead there. Whoever mends a finding removes its history's
mark here, and adds its acts there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from capacityd.schema.config import Settings
from tests.support.judge.judge import BrokenPromise
from tests.support.model import others
from tests.support.model.acts import AllCausesEnd, ConfigurationChanges, RecordFails, has
from tests.support.model.others import OtherAnnotates, OtherWrites, OtherWritesAllocatable, ServerFails
from tests.support.model.server import A, B
from tests.support.model.world import World
from tests.unit.reconcile.known import KNOWN
from tests.unit.reconcile.told import History, tell

_ONLY_A = ConfigurationChanges(frozenset({A}), labelled=frozenset({A}))

FINDINGS: dict[str, History] = {
    "R1: an intention outlives its write, and takes another writer's key": [
        (has(B, 1), 15.0),
        (ServerFails(lost_requests=99), 0.0),
        (has(A, 2), 2.0),
        (OtherWrites(A, "2"), 0.0),
        (OtherAnnotates('{"example.com/a":2,"example.com/b":1}'), 0.0),
        (ServerFails(), 200.0),
        (has(A, 3), 200.0),
    ],
    "R2: while a reduction is held, another writer's number stays": [
        (ConfigurationChanges(settings=Settings(lower_after=360.0)), 15.0),
        (has(A, 4), 200.0),
        (has(A, 3), 2.0),
        (OtherWrites(A, "8"), 0.0),
        (OtherWritesAllocatable(A, "8"), 200.0),
    ],
    "R3: more is allocatable than is published, again and again": [
        (has(A, 4), 200.0),
        (others.BecomesUnhealthy(frozenset({A}), "9"), 400.0),
    ],
    "R5: a number without a record is refused for ever": [
        (RecordFails("unwritable"), 0.0),
        (has(A, 4), 200.0),
        (OtherAnnotates(None), 0.0),
        (has(A, 5), 60.0),
        (AllCausesEnd(), 400.0),
    ],
    "U7: after a restore of the cluster, a key that nothing configures stays": [
        (has(A, 4), 15.0),
        (has(B, 2), 200.0),
        (others.ClusterIsBackedUp(), 1.0),
        (_ONLY_A, 200.0),
        (others.ClusterIsRestored(), 400.0),
    ],
}


@pytest.mark.parametrize("history", FINDINGS.values(), ids=FINDINGS)
@pytest.mark.xfail(strict=True, raises=BrokenPromise)
def test_a_finding_breaks_no_promise(history: History, tmp_path: Path) -> None:
    tell(World(tmp_path / "machine"), history)


def test_what_is_excused_is_an_expected_failure() -> None:
    """Whoever mends a finding removes its excuse, too."""
    assert KNOWN.keys() <= {finding.partition(":")[0] for finding in FINDINGS}
