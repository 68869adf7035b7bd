"""Mistakes in the service's configuration: what is good is published, and nothing is removed because of one."""

from __future__ import annotations

from pathlib import Path

from capacityd.model.node import CONFIGURATION_ANNOTATION
from tests.cluster.agent import DONGLE
from tests.cluster.service import DONGLES, PROMPT, Service

SEATS = "example.com/seats"
STATIC = f'[resources."{SEATS}"]\nstatic = {{ quantity = 7 }}\n'
BROKEN = f'[resources."{SEATS}"]\nstatic = {{ quantiy = 8 }}\n'


def test_a_configuration_error_at_boot(s: Service) -> None:
    """In one resource: it is unknown, so its value stays. In the syntax of a file: nothing is removed."""
    s.configure(DONGLES + STATIC)
    assert s.cli("apply").returncode == 0
    s.configure(DONGLES + BROKEN)
    s.machine.plug("1-2", events=False)
    s.start()
    assert s.last_applied() == {DONGLE: 2, SEATS: 7}
    assert s.condition()["reason"] == "ConfigurationRejected"
    assert f"; unknown: {SEATS}: configuration: " in s.condition()["message"]
    assert 'did you mean "quantity"?' in s.log()
    assert all(SEATS in mistake for mistake in s.status()["configuration_errors"])
    s.stop()
    broken = s.config.parent / "conf"
    broken.mkdir()
    (broken / "1.toml").write_text(s.config.read_text().replace(BROKEN, "").replace(DONGLES, ""))
    (broken / "2.toml").write_text("[resources.")
    rename(s, broken)
    s.start()
    assert s.last_applied() == {DONGLE: 2, SEATS: 7}
    assert s.condition()["reason"] == "ConfigurationRejected"


def test_nothing_is_configured(s: Service) -> None:
    assert s.cli("apply").returncode == 0
    s.configure("")
    s.start()
    assert s.last_applied() == {DONGLE: 1}
    assert "withdraw" in str(s.last_pass().changes)


def test_a_reload_with_errors(s: Service) -> None:
    """The one before it stays in force, with its hash. The condition reports them; one Event, also after a restart."""
    s.configure(DONGLES + STATIC)
    s.start()
    good, before = s.config.read_text(), configuration(s)
    assert before
    misspelt = good.replace("quantity", "quantiy").replace("lower_after", "lower_afterr")
    # Each is a write of the condition, and after some of them there is one a minute only.
    for bad in (good.replace(DONGLES, "").replace('"]', '"'), None, misspelt):
        if bad is None:
            s.config.unlink()
        else:
            s.config.write_text(bad)
        s.reload()
        assert (configuration(s), s.last_applied()) == (before, {DONGLE: 1, SEATS: 7})
        assert (s.condition()["status"], s.condition()["reason"]) == ("False", "ConfigurationRejected")
        status = s.status()
        assert status["previous_configuration_active"]
        assert status["configuration_errors"]
    message = s.condition()["message"]
    assert f"the configuration has errors: {s.config}:" in message
    assert "; and 2 more (capacityd config check)" in message
    s.machine.plug("1-2")
    s.wait_capacity("2")
    s.stop()
    s.start()
    assert s.condition()["reason"] == "ConfigurationRejected"
    assert sum("lower_afterr" in event for event in s.events()) == 1
    s.config.write_text(good.replace("quantity = 7", "quantity = 8").replace(DONGLES, ""))
    s.reload()
    s.wait(lambda: s.last_applied() == {SEATS: 8}, PROMPT, "the good one is taken")
    assert s.status()["configuration_errors"] == []
    s.wait(lambda: s.condition()["status"] == "True", PROMPT, "the condition is True again")
    assert configuration(s) not in (None, before)


def test_a_reload_may_end_an_error(s: Service) -> None:
    good = s.config.read_text()
    s.config.write_text(good.replace("kubeconfig = ", f'node_name = "another-{s.node}"\nkubeconfig = '))
    s.start()
    assert "Remove node_name" in s.last_pass().error
    s.config.write_text(good)
    s.reload()
    assert s.capacity() == "1"


def configuration(s: Service) -> str | None:
    """The hash of the one in force, as the Node has it."""
    digest: str | None = s.cluster.node(s.node)["metadata"].get("annotations", {}).get(CONFIGURATION_ANNOTATION)
    return digest


def rename(s: Service, config: Path) -> None:
    s.command = [config if word == s.config else word for word in s.command]
