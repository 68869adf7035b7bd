"""Random histories break no promise.

A history is a list of acts (the hardware changes, another writer writes, a server fails) in a simulated world.
The judge (tests/support/judge) checks the promises of docs/explanation.md, and knows the exceptions admitted there.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.model.acts import Act, end_causes
from tests.support.model.world import World
from tests.unit.reconcile.random_acts import RESYNC, pauses, random_acts

usual_examples = settings().max_examples


@pytest.mark.timeout(3600)  # all examples take minutes, and many minutes on a busy machine
@settings(max_examples=min(3 * usual_examples, 20_000), suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**16), st.booleans(), st.lists(st.tuples(random_acts, pauses), min_size=6, max_size=12))
def test_no_history_breaks_a_promise(seed: int, registered: bool, history: list[tuple[Act, float]]) -> None:
    """After the history, all faults end, and quiet hours pass. registered: whether the Node exists at the start."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        world = World(Path(folder) / "machine", seed, registered=registered)
        for act, pause in history:
            act.happens(world)
            world.run(pause)
        end_causes().happens(world)
        world.run(4.0 * RESYNC)
