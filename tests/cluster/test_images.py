"""The page on images: the real API server validates its Cluster API template by Cluster API's schema."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT
from tests.cluster.controlplane import Cluster
from tests.cluster.credentials import ADMIN
from tests.cluster.kubectl import KUBEADM_CONFIG_TEMPLATE, apply_crd, kubectl
from tests.support.pages import blocks

NAME = "template.yaml"


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[Path]:
    """The administrator's kubeconfig. Makes Cluster API's kind known to the API server."""
    kubeconfig = cluster.kubeconfig(ADMIN)
    definition = apply_crd(cluster, kubeconfig, *KUBEADM_CONFIG_TEMPLATE)
    yield kubeconfig
    kubectl(cluster, kubeconfig, "delete", "-f", definition)


def test_the_template_is_valid(cluster: Cluster, admin: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs/install.md").read_text()
    (template,) = (block.text for block in blocks(page) if block.name == NAME)
    (tmp_path / NAME).write_text(template)
    done = kubectl(cluster, admin, "apply", "--dry-run=server", "--validate=strict", "-f", tmp_path / NAME)
    assert done.returncode == 0, done.stderr
