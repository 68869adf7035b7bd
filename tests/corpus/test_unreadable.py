"""What can't be read never makes a number smaller, hides a device, or reads otherwise in a recording.

`python -m tests.corpus.unreadable` takes a place of each sort on each machine; here are some, chosen by a seed.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import settings

from tests.corpus.described import machines
from tests.corpus.unreadable import run
from tests.support.forked import can_be_alone

SEED = 20261123
PLACES = max(1, settings().max_examples // 100)
"""On each machine."""
_QUICK = settings().max_examples < 100
CHOSEN = [random.Random(SEED).choice(sorted(machines()))] if _QUICK else sorted(machines())


@pytest.mark.slow
@pytest.mark.skipif(not can_be_alone(), reason="needs namespaces")
@pytest.mark.parametrize("machine", CHOSEN)
def test_unreadable_is_never_absent(machine: str, tmp_path: Path) -> None:
    trees, wrong = run(machine, str(tmp_path), SEED, PLACES)
    assert trees >= PLACES
    assert wrong == []
