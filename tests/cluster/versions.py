"""Which versions of Kubernetes have a feature, according to the table in versions.md."""

from __future__ import annotations

import re

from tests import ROOT
from tests.cluster.binaries import numbers

PAGE = ROOT / "tests/cluster/versions.md"

OWN_NODE_ONLY = "a kubelet's identity reads its own Node only"
BOUND_TOKENS = "a token is bound to a Node"
CONSTRAINED_IMPERSONATION = "a ServiceAccount may act as its own Node"
CLAIMS = "the scheduler's message mentions claims"
CLAIMS_GONE = "the scheduler's message no longer mentions claims"
DEVICE_CLASSES = "DeviceClasses belong to resource.k8s.io/v1"
CLASS_NAMES = "a DeviceClass has the name of an extended resource"
MUTATING_POLICIES = "MutatingAdmissionPolicies belong to admissionregistration.k8s.io/v1"


def differences() -> dict[str, str]:
    """The first version with each feature, such as 1.31. A feature is named by the first cell of its row."""
    table = PAGE.read_text().partition("\n## What differs\n")[2]  # a row: | a token is bound to a Node | 1.31 | … |
    return dict(re.findall(r"^\| (.+?) \| (\d+\.\d+) \| .+ \|$", table, re.MULTILINE))


def has_feature(version: str, feature: str) -> bool:
    """Whether a version has a feature. Raises KeyError for an unknown feature."""
    return numbers(version)[:2] >= numbers(differences()[feature])
