"""Mistakes in the configuration (the service publishes the valid part and removes nothing), and observe = true."""

from __future__ import annotations

from capacityd.model.node import CONFIGURATION_ANNOTATION
from capacityd.model.reading import reading_text
from tests.cluster.agent import DONGLE
from tests.cluster.controlplane import Cluster
from tests.cluster.service import DONGLES, PROMPT, Service

SEATS = "example.com/seats"
STATIC = f'[resources."{SEATS}"]\nstatic = {{ quantity = 7 }}\n'
BROKEN = f'[resources."{SEATS}"]\nstatic = {{ quantiy = 8 }}\n'


def test_after_a_configuration_error_at_boot_the_value_stays(s: Service) -> None:
    """The error is in one resource. The resource is unknown, so its value stays."""
    s.configure(DONGLES + STATIC)
    assert s.cli("apply").returncode == 0
    s.configure(DONGLES + BROKEN)
    s.machine.plug("1-2", events=False)
    s.start()
    assert s.last_applied() == {DONGLE: 2, SEATS: 7}
    assert s.condition()["reason"] == "ConfigurationRejected"
    assert f"; unknown: {SEATS}: its configuration has an error" in s.condition()["message"]
    assert all(SEATS in mistake for mistake in s.status()["configuration_errors"])


def test_after_a_reload_with_errors_the_previous_configuration_stays(s: Service) -> None:
    """The previous configuration and its hash stay. The condition reports the errors; restarts add no second Event."""
    s.configure(DONGLES + STATIC)
    s.start()
    good, before = s.config.read_text(), configuration(s)
    assert before
    misspelt = good.replace("quantity", "quantiy").replace("lower_after", "lower_afterr")
    for bad in (good.replace(DONGLES, "").replace('"]', '"'), misspelt):  # the condition changes each time
        s.config.write_text(bad)
        s.reload()
        assert (configuration(s), s.last_applied()) == (before, {DONGLE: 1, SEATS: 7})
        assert (s.condition()["status"], s.condition()["reason"]) == ("False", "ConfigurationRejected")
        assert s.status()["previous_configuration_active"]
    assert f"the configuration has errors: {s.config}:" in s.condition()["message"]
    s.machine.plug("1-2")
    s.wait_capacity("2")
    s.stop()
    s.start()
    assert s.condition()["reason"] == "ConfigurationRejected"
    assert sum("lower_afterr" in event for event in s.events()) == 1
    s.config.write_text(good.replace("quantity = 7", "quantity = 8").replace(DONGLES, ""))
    s.reload()
    s.wait(lambda: s.last_applied() == {SEATS: 8}, PROMPT, "the good one is taken")
    s.wait(lambda: s.condition()["status"] == "True", PROMPT, "the condition is True again")
    assert configuration(s) not in (None, before)


def test_resources_of_a_file_that_has_lost_its_content_stay(s: Service) -> None:
    """Its resources stay as they are. What nothing configures stays, too, and the condition says so."""
    s.configure(STATIC)
    s.start()
    good = s.config.read_text()
    for content in ("", "\n", "\0" * 512):
        s.config.write_text(content)
        s.reload()
        assert (s.last_applied(), s.condition()["reason"]) == ({SEATS: 7}, "ConfigurationRejected")
        assert s.status()["previous_configuration_active"]
        s.stop()
        s.start()  # there is no previous configuration
        assert (s.last_applied(), s.condition()["reason"]) == ({SEATS: 7}, "ConfigurationRejected")
        assert s.cli("config", "check").returncode == 2
        s.config.write_text(good)
        s.reload()
        s.wait(lambda: s.condition()["reason"] == "Published", PROMPT, "it is configured again")

    s.configure("# no resource")
    s.reload()
    s.wait(lambda: s.condition()["reason"] == "ConfigurationRejected", PROMPT, "nothing configures it")
    assert SEATS in s.condition()["message"]
    assert f"! {SEATS}: not configured: kept, because nothing configures it" in s.cli("status").stdout
    assert (s.cli("status").returncode, s.cli("plan").returncode) == (4, 4)
    s.stop()
    assert "! nothing updates what the last pass has published" in s.cli("status").stdout
    assert s.cli("withdraw").returncode == 0
    assert s.cli("status").stdout == "capacityd is not running\n"
    s.start()
    assert (s.last_applied(), s.condition()) == ({}, {})
    assert s.cli("config", "check").stderr == ""


def test_in_observe_mode_all_is_reported_and_nothing_written(cluster: Cluster, s: Service) -> None:
    """capacityd reports all readings and writes nothing. `withdraw` removes what capacityd published before."""
    assert s.cli("apply").returncode == 0
    before = cluster.node(s.node)
    s.configure(DONGLES + STATIC, "observe = true")
    s.requests()
    s.start()
    s.machine.plug("1-2")
    s.wait(lambda: reading_text(s.last_pass().readings[DONGLE]) == "2", PROMPT, "a pass")
    resources = {r["name"]: r for r in s.status()["resources"]}
    assert [resources[DONGLE][key] for key in ("reading", "published", "capacity")] == [2, 1, "1"]
    assert [resources[name]["note"] for name in (DONGLE, SEATS)] == [
        "would be 2: the configuration changed",
        "would be 7: first published",
    ]
    assert {r.verb for r in s.requests()} == {"create", "get"}
    assert cluster.node(s.node) == before
    s.stop()
    assert s.cli("withdraw").returncode == 0
    node = cluster.node(s.node)
    assert (s.capacity(), s.condition(), node["metadata"].get("annotations", {})) == (None, {}, {})


def test_after_a_withdrawal_no_metrics_are_left(s: Service) -> None:
    """After a reload with another path, the service removes the earlier file, too."""
    first, second = (s.config.with_name(name) for name in ("first.prom", "second.prom"))
    s.configure(textfile=str(first))
    s.start()
    s.wait(first.exists, PROMPT, "the metrics of the first pass")
    s.configure(textfile=str(second))
    s.reload()
    s.wait(lambda: second.exists() and not first.exists(), PROMPT, "they are elsewhere")
    s.stop()
    assert s.cli("withdraw", "--dry-run").returncode == 0
    assert second.exists()
    assert s.cli("withdraw").returncode == 0
    assert not second.exists()


def configuration(s: Service) -> str | None:
    """The hash of the configuration in force, from the Node's annotation."""
    digest: str | None = s.cluster.node(s.node)["metadata"].get("annotations", {}).get(CONFIGURATION_ANNOTATION)
    return digest
