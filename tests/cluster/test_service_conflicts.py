"""Guards that do not hold, again and again: it is reported once, and costs two requests a minute.

The condition costs one more, once where it can be written.
"""

from __future__ import annotations

from itertools import count

from capacityd.reconcile.apply import TRIES
from capacityd.service.schedule import BACKOFF_MAX
from tests.cluster import faults
from tests.cluster.faults import Action
from tests.cluster.proxy import Proxy
from tests.cluster.service import PROMPT, Service


def always_another(s: Service) -> Action:
    """Somebody writes our key between each of our GETs and PATCHes."""
    numbers = count(100)
    return faults.before(lambda _: s.cluster.set_capacity(s.node, {"example.com/dongle": str(next(numbers))}))


def test_a_conflict_that_does_not_end(proxied: Service, proxy: Proxy) -> None:
    s, message = proxied, f"tried {TRIES} times; another writer changed the Node first each time"
    proxy.fault(always_another(s), "PATCH", f"/api/v1/nodes/{s.node}/status", times=None)
    before = len(proxy.requests)
    first = [*["GET", "PATCH"] * TRIES, "PATCH"]

    def methods() -> list[str]:
        return [request.method for request in proxy.requests[before:] if "/nodes/" in request.path]

    s.machine.plug("1-2")
    s.wait(lambda: methods() == first and message in s.log(), PROMPT, "it has tried for the first time")
    for _ in range(3):  # each event would end a pause, and reads the Node
        passes = s.passes()
        s.join(proxy.url)
        s.wait_passes(1, passes)
    assert methods() == first
    s.wait(lambda: methods() == [*first, "GET", "PATCH"], 3 * BACKOFF_MAX, "it has tried once more")
    assert s.log().count(message) == 1
    assert s.condition()["status"] == "False"
    assert message in s.last_pass().error
    assert set(s.events()) == {"example.com/dongle: none → 1 (found)"}
