"""The same commands with each version of the client that may be on a node, and with each kind of credentials."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cluster import faults
from tests.cluster.agent import DONGLE, RECORD, Agent, told
from tests.cluster.clients import VERSIONS, client
from tests.cluster.controlplane import BASE_CAPACITY, Cluster
from tests.cluster.credentials import Credentials
from tests.cluster.proxy import Proxy
from tests.cluster.test_requests import EVENT, GET, PATCH, WHO, counted


@pytest.fixture(scope="module", params=VERSIONS)
def python(request: pytest.FixtureRequest) -> Path:
    return client(request.param)


@pytest.mark.parametrize("version", VERSIONS)
def test_it_is_this_version_and_on_its_own(version: str) -> None:
    program = "import kubernetes, sys; print(kubernetes.__version__, kubernetes.__file__)"
    found, place = subprocess.check_output([client(version), "-I", "-c", program], text=True).split()
    assert Path(place).is_relative_to(client(version).parents[1])
    assert found == version


@pytest.mark.parametrize("credentials", ["token", "certificate", "exec"])
def test_apply_plan_and_withdraw(
    cluster: Cluster, node: str, tmp_path: Path, python: Path, credentials: Credentials
) -> None:
    agent = Agent(cluster, node, tmp_path / "agent", credentials=credentials, python=python)
    with cluster.audit.requests(agent.user) as requests:
        assert json.loads(agent.run("plan", "--json").stdout)["changes"][0]["new"] == "4"
    assert counted(requests) == {WHO: 1, GET: 1}
    with cluster.audit.requests(agent.user) as requests:
        agent.run("apply")
    assert counted(requests) == {WHO: 1, GET: 1, PATCH: 1, EVENT: 1}
    assert {request.user_agent.partition("/")[0] for request in requests.all()} == {"capacityd"}
    found = cluster.node(node)
    assert found["status"]["capacity"] == {**BASE_CAPACITY, DONGLE: "4"}
    assert json.loads(found["metadata"]["annotations"][RECORD]) == {DONGLE: 4}
    assert [entry["manager"] for entry in found["metadata"]["managedFields"]].count("capacityd") == 1
    with cluster.audit.requests(agent.user) as requests:
        agent.run("apply")
    assert counted(requests) == {WHO: 1, GET: 1}
    agent.run("withdraw")
    assert cluster.capacity(node) == BASE_CAPACITY
    assert [message for _, message in told(cluster, node)] == [
        f"{DONGLE}: none → 4 (found)",
        f"{DONGLE}: 4 → none (withdrawn)",
    ]


def test_every_version_tells_a_guard_that_does_not_hold_from_a_refusal(
    cluster: Cluster, proxy: Proxy, node: str, tmp_path: Path, python: Path
) -> None:
    """Each has its own exceptions for what is not 2xx; ours must come of all of them."""
    agent = Agent(cluster, node, tmp_path / "agent", python=python, server=proxy.url)

    def change(_: faults.Request) -> None:
        cluster.set_capacity(node, {DONGLE: "9"})

    proxy.fault(faults.before(change), "PATCH")
    with cluster.audit.requests(agent.user) as requests:
        agent.run("apply", status=4)
    assert [request.code for request in requests.all() if request.verb == "patch"] == [422, 200]
    assert cluster.capacity(node)[DONGLE] == "9"
    cluster.admin.delete(f"/api/v1/nodes/{node}")
    assert f'there is no Node "{node}"' in agent.run("apply", status=1).stderr
    agent.kubeconfig.write_text(agent.kubeconfig.read_text().replace("secret-of", "not-the-secret-of"))
    assert "were not accepted" in agent.run("apply", status=3).stderr
