"""What an autoscaler must be told about the nodes of an empty group, for `template`."""

from __future__ import annotations

from enum import Enum


class Autoscaler(str, Enum):
    """An autoscaler with a notation. The values are those of the command line."""

    AWS = "aws"
    AZURE = "azure"
    GKE = "gke"
    CLUSTER_API = "cluster-api"
    GARDENER = "gardener"
    KARPENTER = "karpenter"
