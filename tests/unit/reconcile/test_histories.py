"""Random histories of the service, its Node and all that may happen to them: no promise is broken.

The judge (tests/support/judge) knows the promises, and what is admitted. Both stand in docs/explanation.md.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as how_hard
from hypothesis import strategies as st

from tests.support.model.acts import Act, AllCausesEnd
from tests.support.model.world import World
from tests.unit.reconcile.random_acts import RESYNC, pauses, random_acts

usual = how_hard().max_examples


@pytest.mark.timeout(3600)  # all examples take minutes, on a busy machine many
@how_hard(max_examples=min(3 * usual, 20_000), suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**16), st.booleans(), st.lists(st.tuples(random_acts, pauses), min_size=6, max_size=12))
def test_no_history_breaks_a_promise(seed: int, registered: bool, history: list[tuple[Act, float]]) -> None:
    """At the end, all causes end, and nothing happens for some hours."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        world = World(Path(folder) / "machine", seed, registered=registered)
        for act, pause in history:
            act.happens(world)
            world.run(pause)
        AllCausesEnd().happens(world)
        world.run(4.0 * RESYNC)
