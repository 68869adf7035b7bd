"""What the proxy's faults do is asserted where they are used; here, that a failure within one is not lost."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.cluster import faults
from tests.cluster.api import Api
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import ADMIN, token_of
from tests.cluster.proxy import fault_proxy


def test_a_failing_callback_fails_the_test(cluster: Cluster) -> None:
    def fails(_: faults.Request) -> None:
        raise AssertionError("seen from the test")

    def use() -> None:
        with fault_proxy(cluster) as proxy, suppress(OSError):
            proxy.fault(faults.before(fails))
            Api(proxy.url, proxy.ca_file, token_of(ADMIN)).get("/version")

    with pytest.raises(AssertionError, match="seen from the test"):
        use()
