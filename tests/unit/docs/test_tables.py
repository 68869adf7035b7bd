"""The page on installation lists every place of a kubeconfig."""

from __future__ import annotations

import re

from capacityd.node.kubelet_kubeconfig import KUBECONFIG_PATHS
from tests import ROOT


def test_the_page_on_installation_has_every_path_of_a_kubeconfig() -> None:
    page = (ROOT / "docs/install.md").read_text()
    assert re.findall(r"^\| .* \| `(/.*)` \|$", page, re.MULTILINE) == [*KUBECONFIG_PATHS]
