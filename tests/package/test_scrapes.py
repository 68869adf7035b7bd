"""Prometheus scrapes a file of metrics and stores what tests/support/scrapes.py promises."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from tests.cluster.processes import PATIENCE, wait_until
from tests.support.prometheus import serving
from tests.support.scrapes import GPU, NodeAt, scrape, series, text_of

NODE = NodeAt(1.0e9, 1.0e9 + 0.5, denied=(GPU,), condition=("Denied", "False"))


@pytest.fixture
def exporter() -> Iterator[str]:
    """The address of a server that has the file of metrics."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text_of(NODE))

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_scrape(exporter: str, tmp_path: Path) -> None:
    target = {"targets": [exporter], "labels": {"instance": "n1"}}
    config = {"scrape_configs": [{"job_name": "node", "scrape_interval": "1s", "static_configs": [target]}]}
    with serving(tmp_path, config=yaml.safe_dump(config)) as prometheus:

        def stored() -> dict[str, float]:
            now = time.time()
            samples = prometheus.query('{__name__=~"up|capacityd_.+"}', now, now, 1.0)
            return {_series(s.labels): s.values[-1][1] for s in samples}

        assert wait_until(stored, PATIENCE, "it has scraped") == scrape("n1", NODE)


def _series(labels: Mapping[str, str]) -> str:
    return series(labels["__name__"], **{name: value for name, value in labels.items() if name != "__name__"})
