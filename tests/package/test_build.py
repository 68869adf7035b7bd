"""What is in the package, and that nothing else decides that but the sources."""

from __future__ import annotations

import email
import subprocess
from pathlib import Path

from tests.package.packages import Packages, tools_of
from tests.package.trees import RELEASES, debian

MOST = 100_000  # what every node downloads and keeps
MOST_TOOLS = 50_000
_SHARE = "/usr/share/capacityd/"
# Not in the overrides, because the other release's lintian would call that unused, or does not know the tag: a node of
# Kubernetes has systemd; one source is for both, and Debian 12 does not know a newer standard.
ACCEPTED = {"12": "package-supports-alternative-init-but-no-init.d-script", "13": "out-of-date-standards-version"}
# In a chroot of the release, whose tree stays as it is.
_LINTIAN = """
mount -t tmpfs tmpfs "$1/tmp"
mount -t proc proc "$1/proc"
cp "$2"/* "$1/tmp"
exec chroot "$1" env -C /tmp sh -c 'lintian --pedantic --display-info --allow-root --suppress-tags="$0" *.changes' "$3"
"""


def test_two_builds_are_identical(packages: Packages, twin: Path) -> None:
    assert packages.current.read_bytes() == twin.read_bytes()
    assert tools_of(packages.current).read_bytes() == tools_of(twin).read_bytes()


def test_size(packages: Packages) -> None:
    assert packages.current.stat().st_size <= MOST
    assert tools_of(packages.current).stat().st_size <= MOST_TOOLS


def test_lintian(packages: Packages, release: str) -> None:
    """Nothing, however small; what is accepted has its reason beside it in the overrides."""
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", _LINTIAN, "sh"]
    tree = debian(f"lintian-{release}", RELEASES[release], ["lintian"])
    result = subprocess.run([*command, tree, packages.folder, ACCEPTED[release]], capture_output=True, text=True)
    assert (result.stdout, result.returncode) == ("", 0), result.stderr


def test_every_override_has_a_reason(packages: Packages) -> None:
    for path in packages.sources.glob("packaging/deb/**/*lintian-overrides"):
        before = ""
        for line in path.read_text().splitlines():
            assert line.startswith("#") or before.startswith("#"), f"{path.name}: {line}"
            before = line


def test_dependencies(packages: Packages) -> None:
    """No version but Python's, as Ubuntu 22.04 and 24.04 have all of these too: 22.04 has Python 3.10 and tomli."""
    fields = email.message_from_string(out("--field", packages.current))
    depends = {d.strip() for d in fields["Depends"].split(",")}
    libraries = {f"python3-{name}" for name in ("jsonpatch", "kubernetes", "pyudev", "systemd", "yaml")}
    assert depends == {"python3:any", "python3 (>= 3.10)", "python3 (>= 3.11) | python3-tomli"} | libraries
    assert fields["Architecture"] == "all"
    tools = email.message_from_string(out("--field", tools_of(packages.current)))
    assert {d.strip() for d in tools["Depends"].split(",")} == {
        f"capacityd (= {fields['Version']})",
        "python3:any",
        "python3-rich",
    }
    assert (fields["Suggests"], tools["Architecture"]) == ("capacityd-tools", "all")


def test_every_module_is_in_one_package(packages: Packages) -> None:
    agent = {f"{_SHARE}{path.relative_to(packages.sources / 'agent')}" for path in modules(packages)}
    main, tools = (
        {path for path in files(package) if path.startswith(_SHARE) and path.endswith(".py")}
        for package in (packages.current, tools_of(packages.current))
    )
    assert main | tools == agent | {f"{_SHARE}farewell.py"}
    assert main & tools == set()


def test_files(packages: Packages) -> None:
    """What there is beside modules."""
    assert others(packages.current) == {
        "/etc/capacityd/capacityd.toml",
        "/usr/bin/capacityd",
        "/usr/lib/systemd/catalog/capacityd.catalog",
        "/usr/lib/systemd/system-preset/50-capacityd.preset",
        "/usr/lib/systemd/system/capacityd.service",
        "/usr/share/doc/capacityd/changelog.Debian.gz",
        "/usr/share/doc/capacityd/copyright",
        "/usr/share/doc/capacityd/examples/kubernetes/own-identity.conf",
        "/usr/share/lintian/overrides/capacityd",
        "/usr/share/man/man5/capacityd.toml.5.gz",
        "/usr/share/man/man8/capacityd.8.gz",
        "/usr/share/python3/runtime.d/capacityd.rtupdate",
    }
    assert {path for path, mode in files(packages.current).items() if "x" in mode} == {
        "/usr/bin/capacityd",
        "/usr/share/python3/runtime.d/capacityd.rtupdate",
    }
    assert {"/etc/capacityd/conf.d/", "/usr/lib/capacityd/conf.d/"} <= {row[-1] for row in rows(packages.current)}


def test_files_of_the_tools(packages: Packages) -> None:
    """The examples are all there, as they are used; but for the drop-in, which nodes have."""
    found = others(tools_of(packages.current))
    examples = {path for path in found if "/examples/" in path}
    conf = packages.sources / "conf"
    assert examples == {
        f"/usr/share/doc/capacityd/examples/{path}"
        for path in (
            *(path.name for path in conf.glob("examples/*")),
            *(str(path.relative_to(conf)) for name in ("cloud-init", "prometheus") for path in conf.glob(f"{name}/*")),
            "kubernetes/identity.yaml",
            "kubernetes/policy.yaml",
        )
    }
    assert {path for path in found if "/examples/" not in path} == {
        "/usr/share/bash-completion/completions/capacityd",
        "/usr/share/capacityd/schema.json",
        "/usr/share/doc/capacityd-tools/changelog.Debian.gz",
        "/usr/share/doc/capacityd-tools/copyright",
        "/usr/share/lintian/overrides/capacityd-tools",
        "/usr/share/python3/runtime.d/capacityd-tools.rtupdate",
        "/usr/share/zsh/vendor-completions/_capacityd",
    }


def others(package: Path) -> set[str]:
    """The files that are no modules."""
    return {path for path in files(package) if not path.startswith(_SHARE) or not path.endswith(".py")}


def files(package: Path) -> dict[str, str]:
    """Each with its mode."""
    assert all(row[1] == "root/root" for row in rows(package))
    return {row[-1]: row[0] for row in rows(package) if not row[0].startswith("d")}


def rows(package: Path) -> list[list[str]]:
    """What dpkg-deb says of each file and folder; the path, last, from /."""
    found = [line.split() for line in out("--contents", package).splitlines()]
    return [[*row[:-1], row[-1].removeprefix(".")] for row in found]


def modules(packages: Packages) -> list[Path]:
    found = sorted((packages.sources / "agent/capacityd").rglob("*.py"))
    assert found
    return found


def out(*arguments: str | Path) -> str:
    return subprocess.run(["dpkg-deb", *arguments], capture_output=True, text=True, check=True).stdout
