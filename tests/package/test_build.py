"""The contents and the dependencies of the package."""

from __future__ import annotations

import email
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests import ROOT
from tests.package.packages import Packages
from tests.package.trees import RELEASES, debian

_LINK = re.compile(r"\]\(([^()\s#]+)[^()\s]*\)")  # finds docs/install.md in "[…](docs/install.md#debian)"
# The tags that each release's lintian may report. They are no overrides in the package, because the other release's
# lintian would report an override as unused.
_ACCEPTED = {
    "12": "package-supports-alternative-init-but-no-init.d-script,newer-standards-version",
    "13": "newer-standards-version",
}
# Runs in a chroot of the release, and leaves its tree unchanged.
_LINTIAN = """
mount -t tmpfs tmpfs "$1/tmp"
mount -t proc proc "$1/proc"
cp "$2"/* "$1/tmp"
exec chroot "$1" env -C /tmp sh -c 'lintian --pedantic --display-info --allow-root --suppress-tags="$0" *.changes' "$3"
"""


@pytest.mark.whole
@pytest.mark.parametrize("release", ["12", "13"])
def test_lintian_reports_only_the_accepted_tags(packages: Packages, release: str) -> None:
    unshare = ("unshare", "--mount", "--propagation", "private", "sh", "-euc", _LINTIAN, "sh")
    tree = debian(f"lintian-{release}", RELEASES[release], ["lintian"])
    command: list[str | Path] = [*unshare, tree, packages.folder, _ACCEPTED[release]]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.stdout, result.returncode) == ("", 0), result.stderr


def test_the_dependencies_are_those_of_the_code(packages: Packages) -> None:
    """Only Python has a minimum version. Ubuntu 22.04 has Python 3.10, and needs tomli.

    Every node has the programs of systemd and udev. `kubectl capacityd template` needs some of iproute2 to read the
    network of its own machine.
    """
    libraries = ("kubernetes", "psutil", "pyudev", "tabulate", "urllib3", "yaml")
    common = {"python3:any", "python3 (>= 3.10)", "python3 (>= 3.11) | python3-tomli"}
    common |= {f"python3-{library}" for library in libraries}
    of_node, of_kubectl = (
        email.message_from_string(out("--field", package)) for package in (packages.current, packages.kubectl)
    )
    assert {*of_node["Depends"].split(", ")} == common | {"python3-systemd", "iproute2"}
    assert of_node["Recommends"] == "systemd, udev"
    assert {*of_kubectl["Depends"].split(", ")} == common
    assert of_kubectl["Recommends"] == "iproute2"
    for fields in (of_node, of_kubectl):
        assert fields["Architecture"] == "all"
        assert not {"Breaks", "Conflicts", "Replaces"} & {*fields}


@pytest.mark.parametrize("name", ["capacityd", "kubectl-capacityd"])
def test_a_package_contains_what_its_table_lists(packages: Packages, name: str) -> None:
    """A package contains the files of its table in packaging/README.md, all files of its folders, and no others."""
    package = packages.current if name == "capacityd" else packages.kubectl
    section = (ROOT / "packaging/README.md").read_text().partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    # A row is "| CONTENT | SOURCE | PATH |".
    table = re.findall(r"^\|.*\| (\S.*?)? ?\| (/\S+) \|$", section, re.MULTILINE)
    expected = set[str]()
    for source, installed in table:
        if installed.endswith("/"):
            folder = packages.sources / source
            paths = [path for path in folder.rglob(pattern_of(source, installed)) if path.is_file()]
            expected |= {installed + str(path.relative_to(folder)) for path in paths}
        else:
            expected.add(installed)
    assert {*files(package)} == expected
    programs = {"capacityd": {"capacityd"}, "kubectl-capacityd": {"kubectl-capacityd", "kubectl_complete-capacityd"}}
    assert {path for path, mode in files(package).items() if re.match("-.*x", mode)} == {
        *(f"/usr/bin/{program}" for program in programs[name]),
        f"/usr/share/python3/runtime.d/{name}.rtupdate",
    }
    has_drop_in_folder = "/etc/capacityd/conf.d/" in {row[-1] for row in rows(package)}
    assert has_drop_in_folder == (name == "capacityd")


def pattern_of(source: str, installed: str) -> str:
    """Which files of a folder are packaged. source, installed: the folder in the project and on a machine."""
    if source == "docs/":
        return "*.md"
    is_code = installed.endswith("capacityd/")
    return "*.py" if is_code else "*"


def test_the_code_that_runs_as_root_is_as_large_as_the_page_on_security_says() -> None:
    modules = (ROOT / "agent/capacityd").rglob("*.py")
    lines = sum(len(module.read_text().splitlines()) for module in modules)
    (said,) = re.findall(r"(\S+)\s+lines\s+of\s+Python", (ROOT / "docs/security.md").read_text())
    assert abs(lines - int(said.replace(",", ""))) < 0.05 * lines, f"{lines} lines"


def test_the_package_is_as_large_as_the_page_on_installation_says(packages: Packages) -> None:
    assert "capacityd itself takes at most 2 MiB" in (ROOT / "docs/install.md").read_text()
    assert 1 < installed_mib(packages.current) <= 2


def installed_mib(package: Path) -> float:
    return int(out("--field", package, "Installed-Size")) / 1024


def test_links_in_the_package_lead_somewhere(packages: Packages, tmp_path: Path) -> None:
    """Each link of a page and each part of the kustomization is in the package or on the web."""
    subprocess.run(["dpkg-deb", "--extract", packages.current, tmp_path], check=True)
    top = tmp_path / "usr/share/doc/capacityd"
    links = [(page, target) for page in top.rglob("*.md") for target in _LINK.findall(page.read_text())]
    kustomization = top / "examples/kubernetes/kustomization.yaml"
    parts = yaml.safe_load(kustomization.read_text().replace("# - ", "- "))["resources"]
    assert {"../prometheus", "../grafana"} < {*parts}, "also the parts in comments, which a user can choose"
    for file, target in [*links, *((kustomization, part) for part in parts)]:
        assert target.startswith("https://") or (file.parent / target).exists(), f"{file}: {target}"


# Runs in a chroot of the release, and leaves its tree unchanged.
_BUILD = """
mount -t tmpfs tmpfs "$1/tmp"
mount -t proc proc "$1/proc"
cp "$2"/*.dsc "$2"/*.tar.xz "$1/tmp"
exec chroot "$1" env -i -C /tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/nonexistent sh -euc \\
    'dpkg-source --extract *.dsc source; cd source; dpkg-buildpackage --no-sign'
"""


@pytest.mark.whole
def test_the_source_package_builds_with_what_it_declares(packages: Packages) -> None:
    """The build also runs the unit tests, without a network."""
    control = email.message_from_string((packages.sources / "packaging/deb/control").read_text())
    declared = [re.split(r"[ :|]", entry.strip())[0] for entry in control["Build-Depends"].split(",")]
    tree = debian("build-13", RELEASES["13"], ["build-essential", *declared])
    unshare = ("unshare", "--mount", "--net", "--propagation", "private", "sh", "-euc", _BUILD, "sh")
    done = subprocess.run([*unshare, tree, packages.folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert re.search(r"^\d+ passed", done.stdout, re.MULTILINE)


@pytest.mark.whole
def test_a_source_package_is_clean_after_a_build(packages: Packages, tmp_path: Path) -> None:
    """The package contains all project files (packaging/deb as debian/). "clean" removes all files of a build."""
    (source,) = packages.folder.glob("*.dsc")
    unpacked = tmp_path / "unpacked"
    subprocess.run(["dpkg-source", "--extract", source, unpacked], check=True, capture_output=True)
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/nonexistent", "DEB_BUILD_OPTIONS": "nocheck"}
    before = contents(unpacked)
    sources = contents(packages.sources)
    assert before == {re.sub("^packaging/deb/", "debian/", path): data for path, data in sources.items()}
    subprocess.run(["debian/rules", "binary"], cwd=unpacked, env=environment, check=True, capture_output=True)
    assert contents(unpacked) != before, "the build has left files"
    subprocess.run(["debian/rules", "clean"], cwd=unpacked, env=environment, check=True, capture_output=True)
    assert contents(unpacked) == before


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a source tree, without dpkg-source's own folder .pc."""
    paths = (path for path in folder.rglob("*") if path.is_file() and ".pc" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def files(package: Path) -> dict[str, str]:
    """The mode of each file."""
    assert all(row[1] == "root/root" for row in rows(package))
    return {row[-1]: row[0] for row in rows(package) if not row[0].startswith("d")}


def rows(package: Path) -> list[list[str]]:
    """The columns that dpkg-deb prints for each file, link and folder. The last one is the path, from /."""
    lines = [line.split()[:6] for line in out("--contents", package).splitlines()]
    return [[*row[:-1], row[-1].removeprefix(".")] for row in lines]


def out(*arguments: str | Path) -> str:
    return subprocess.run(["dpkg-deb", *arguments], capture_output=True, text=True, check=True).stdout
