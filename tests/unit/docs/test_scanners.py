"""The exception for a scanner that the security model shows is for the binding that the scanner flags, and no other."""

from __future__ import annotations

import json
import re

import yaml

from tests import ROOT


def test_the_exception_is_for_the_binding_that_may_patch_the_status_of_nodes() -> None:
    documents = [*yaml.safe_load_all((ROOT / "packaging/kubernetes/identity.yaml").read_text())]
    roles = {
        document["metadata"]["name"]
        for document in documents
        if document["kind"] == "ClusterRole"
        and any("nodes/status" in rule["resources"] and "patch" in rule["verbs"] for rule in document["rules"])
    }
    flagged = {
        (document["kind"], document["metadata"]["name"])
        for document in documents
        if document["kind"] == "ClusterRoleBinding" and document["roleRef"]["name"] in roles
    }
    page = (ROOT / "docs/security.md").read_text()
    (exceptions,) = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL))
    excepted = {
        (resource["attributes"]["kind"], resource["attributes"]["name"])
        for exception in exceptions
        for resource in exception["resources"]
    }
    assert excepted == flagged
