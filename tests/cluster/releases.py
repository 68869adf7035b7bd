"""Versions of Kubernetes other than the pinned one, each built once into its own cache folder.

The go.mod for building a version lists the same modules in the same versions as the go.mod of Kubernetes. Only the
modules that Kubernetes takes from its own repository (the folder staging) are replaced by the published ones.

As a command, this module builds the named versions (default: all). It prints progress and the folders to standard
error.
"""

from __future__ import annotations

import json
import sys
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cluster import binaries
from tests.cluster.binaries import BuildError, Programs, Source, cache_folder, find_go, numbers, run_go, say
from tests.network import persistently

RELEASES = Path(__file__).with_name("releases.txt")
_MODULE = "k8s.io/kubernetes"
_STAGING = "./staging/"
# The programs that differ between versions. The protocols of the fake runtime and the device plugin have not changed.
_PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler", "kubelet", "kubectl")


def releases() -> list[str]:
    """All tested versions, such as 1.30.14, with the pinned one. The oldest comes first."""
    lines = [line for line in RELEASES.read_text().splitlines() if not line.startswith("#")]
    return sorted([*lines, binaries.pinned()], key=numbers)


def release(name: str) -> str:
    """The tested version for a name such as 1.30. Any full version, such as 1.30.4, is accepted. Raises BuildError."""
    if len(numbers(name)) == 3:
        return name
    for version in releases():
        if minor(version) == name:
            return version
    raise BuildError(f"Kubernetes {name} is none of {', '.join(releases())}")


def minor(version: str) -> str:
    """The first two numbers of a version, such as 1.30 for 1.30.14."""
    return ".".join(version.split(".")[:2])


def programs(version: str, kubelet: str | None = None) -> Mapping[str, Path]:
    """The programs of this version, each built when it is looked up. kubelet: the kubelet's version, if different."""
    paths: Mapping[str, Path] = binaries.programs()
    if version != binaries.pinned():
        paths = ChainMap(_released(version), paths)  # type: ignore[arg-type]  # nothing is written to it
    if kubelet is not None and kubelet != version:
        paths = ChainMap({"kubelet": programs(kubelet)["kubelet"]}, paths)  # type: ignore[arg-type]
    return paths


def _released(version: str) -> Programs:
    folder = cache_folder().parent / f"kubernetes-{version}"
    return Programs(folder, lambda: _source(version, folder), _PROGRAMS)


def _source(version: str, folder: Path) -> Source:
    """Writes the go.mod. go adds a go.sum with the checksums of all downloads, from the public checksum database."""
    go = find_go()
    output = persistently(lambda: run_go(go, "mod", "download", "-json", f"{_MODULE}@v{version}"), BuildError)
    theirs = json.loads(run_go(go, "mod", "edit", "-json", json.loads(output)["GoMod"]))
    (folder / "go.mod").write_text(go_mod(version, theirs))
    return Source(folder, version, ("-mod=mod",))


def go_mod(version: str, theirs: dict[str, Any]) -> str:
    """The go.mod for building a version. Raises BuildError. theirs: Kubernetes' own, printed by `go mod edit -json`."""
    replaced = [(entry["Old"]["Path"], entry["New"]) for entry in theirs.get("Replace") or []]
    if other := [path for path, new in replaced if not new["Path"].startswith(_STAGING)]:
        raise BuildError(f"Kubernetes {version} replaces {', '.join(other)} by what is not its own")
    staging = f"v0.{version.partition('.')[2]}"
    lines = ["module capacityd/tests/cluster/release", f"go {theirs['Go']}", "require (", f"\t{_MODULE} v{version}"]
    lines += [f"\t{entry['Path']} {entry['Version']}" for entry in theirs["Require"]]
    lines += [")", "replace (", *(f"\t{path} => {path} {staging}" for path, _ in replaced), ")", ""]
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    for version in [release(name) for name in arguments] or releases():
        say(f"Kubernetes {version}: {programs(version)['kube-apiserver'].parent}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BuildError as error:
        sys.exit(f"control plane: {error}")
