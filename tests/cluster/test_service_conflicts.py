"""Guards that do not hold, again and again: it is reported once, and costs two requests a minute.

The condition costs one more, once where it can be written.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from capacityd.reconcile.apply import TRIES
from capacityd.service.schedule import BACKOFF_MAX
from tests.cluster import faults
from tests.cluster.faults import Action
from tests.cluster.proxy import Proxy
from tests.cluster.service import PROMPT, Service
from tests.cluster.test_service_api_faults import refusal


def always_another(s: Service) -> Action:
    """Somebody writes our key between each of our GETs and PATCHes."""
    numbers = count(100)
    return faults.before(lambda _: s.cluster.set_capacity(s.node, {"example.com/dongle": str(next(numbers))}))


def never_holds(_: Service) -> Action:
    """A double, because it is what no API server does once guards are written as it writes them."""
    return refusal(422)


@pytest.mark.parametrize(
    ("action", "first", "again", "message"),
    [
        (
            always_another,
            [*["GET", "PATCH"] * TRIES, "PATCH"],
            ["GET", "PATCH"],
            f"tried {TRIES} times, each time somebody else wrote the same",
        ),
        (
            never_holds,
            ["GET", "PATCH", "GET", "GET", "PATCH"],
            ["GET", "PATCH", "PATCH"],
            "but it has not: a bug in capacityd",
        ),
    ],
)
def test_a_conflict_that_does_not_end(
    proxied: Service,
    proxy: Proxy,
    action: Callable[[Service], Action],
    first: list[str],
    again: list[str],
    message: str,
) -> None:
    s = proxied
    proxy.fault(action(s), "PATCH", f"/api/v1/nodes/{s.node}/status", times=None)
    before = len(proxy.requests)

    def methods() -> list[str]:
        return [request.method for request in proxy.requests[before:] if "/nodes/" in request.path]

    s.machine.plug("1-2")
    s.wait(lambda: methods() == first and message in s.log(), PROMPT, "it has tried for the first time")
    for _ in range(3):  # each event would end a pause, and reads the Node
        passes = s.passes()
        s.join(proxy.url)
        s.wait_passes(1, passes)
    assert methods() == first
    s.wait(lambda: methods() == [*first, *again], 3 * BACKOFF_MAX, "it has tried once more")
    assert s.log().count(message) == 1
    assert s.condition()["status"] == ("False" if action is always_another else "True")
    assert message in s.last_pass().error
    assert set(s.events()) == {"example.com/dongle: none → 1 (found)"}
