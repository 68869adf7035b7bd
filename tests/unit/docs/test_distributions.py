"""The page on distributions has every path of a kubeconfig, in the order of the search."""

from __future__ import annotations

import re

from capacityd.node.kubelet_kubeconfig import KUBECONFIG_PATHS
from tests import ROOT

PAGE = (ROOT / "docs/distributions.md").read_text()


def test_the_table_has_every_path_in_its_order() -> None:
    assert tuple(re.findall(r"^\| .* \| `(/.*)` \|$", PAGE, re.MULTILINE)) == KUBECONFIG_PATHS
