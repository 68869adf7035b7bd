"""The shortest histories of the unit tests on the real API server, with a webhook of the test's own.

Time is not simulated here: at the end the service starts with a new state, as if all backoffs had elapsed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.cluster.controlplane import Cluster
from tests.cluster.kills import Killer, killer
from tests.cluster.service import Service, service
from tests.cluster.webhook import Webhook, webhook
from tests.support.machines import bare
from tests.support.recovery import A, Alters, B, C, Denies, damage, remove, remove_obstacle

pytestmark = pytest.mark.protocol


class RealMachine:
    """A machine on which one pass is made after another."""

    def __init__(self, s: Service, passes: Killer, hook: Webhook) -> None:
        self._s, self._passes, self.hook = s, passes, hook
        self.record = s.state_directory / "published.json"

    def has(self, **quantities: int) -> None:
        """These are configured from now on, and no others."""
        self.wanted = {f"example.com/{name}": quantity for name, quantity in quantities.items()}
        resources = (f'[resources."{n}"]\nstatic = {{ quantity = {q} }}\n' for n, q in self.wanted.items())
        self._s.configure("".join(resources), lower_after="0s", lower_after_boot="0s")

    def make_pass(self) -> None:
        (self._s.runtime_directory / "config.json").unlink(missing_ok=True)
        self._passes.start()
        self._passes.finish()

    def begin_anew(self) -> None:
        (self._s.runtime_directory / "state.json").unlink(missing_ok=True)

    @property
    def published(self) -> Mapping[str, int]:
        found = self._s.cluster.node(self._s.node)["status"]["capacity"]
        return {name: int(quantity) for name, quantity in found.items() if name in (A, B, C)}

    @property
    def condition(self) -> Mapping[str, str]:
        return self._s.condition()

    def check_right(self) -> None:
        self.make_pass()
        assert (self.published, self._s.last_applied()) == (self.wanted, self.wanted)
        assert self.condition["status"] == "True", self.condition


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[RealMachine]:
    with service(cluster, bare()) as s, webhook(cluster, s.node) as hook, killer(s) as passes:
        s.runtime_directory.mkdir()
        yield RealMachine(s, passes, hook)


@pytest.fixture
def m(running: RealMachine) -> RealMachine:
    """A machine that has published a, with a record."""
    running.hook.denies = running.hook.alters = ()
    running.begin_anew()
    running.has(a=4)
    running.check_right()
    return running


@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 410, 413, 422, 429, 451, 500, 503, 504, 599])
def test_a_webhook_denies_with_any_code(m: RealMachine, code: int) -> None:
    """One of two new resources, beside a change: the others are published at once, and nothing is refused for ever."""
    m.hook.denies = (Denies(C, code),)
    m.has(a=5, b=0, c=1)
    m.make_pass()
    assert m.published == {A: 5, B: 0}
    message = f'denied: {C}: admission webhook "validate.example.com" denied the request: not on my Nodes'
    assert (m.condition["reason"], m.condition["message"]) == ("Denied", message)
    m.has(a=5, b=2, c=1)
    m.make_pass()
    assert m.published == {A: 5, B: 2}
    m.hook.denies = ()
    m.begin_anew()
    m.check_right()


@pytest.mark.parametrize("value", [None, "{}", "garbage", f'{{"{A}":1}}'])
def test_a_webhook_alters_the_annotation(m: RealMachine, value: str | None) -> None:
    m.hook.alters = (Alters("annotation", value),)
    m.has(a=8, b=4)
    m.make_pass()
    assert (m.condition["status"], m.condition["reason"]) == ("False", "Rejected"), "at once"
    m.make_pass()
    assert m.condition["status"] == "False"
    m.hook.alters = ()
    m.begin_anew()
    m.check_right()


@pytest.mark.parametrize("value", [None, "3"])
def test_a_webhook_alters_a_quantity(m: RealMachine, value: str | None) -> None:
    m.hook.alters = (Alters(A, value),)
    m.has(a=8, b=4)
    m.make_pass()
    assert m.published == {B: 4} | ({A: int(value)} if value else {})
    assert (m.condition["status"], m.condition["reason"]) == ("False", "Denied")
    m.hook.alters = ()
    m.begin_anew()
    m.check_right()


@pytest.mark.parametrize("fault", ["directory", "loop", "pipe", "unwritable", "missing"])
def test_a_fault_of_the_record(m: RealMachine, fault: str) -> None:
    """A raise goes on, and a new resource waits."""
    kept = m.record.read_bytes()
    damage(m.record, fault)
    if fault == "unwritable":
        m.record.write_bytes(kept)
    m.has(a=5, b=1)
    m.make_pass()
    new = {B: 1} if fault == "missing" else {}
    assert m.published == {A: 5, **new}
    assert m.condition["reason"] == ("Published" if new else "StateNotWritable")
    remove_obstacle(m.record)
    if not new:
        remove(m.record)
        m.record.write_bytes(kept)
    m.begin_anew()
    m.check_right()
