"""What the root's files say about the project: its address, and the tools that a contributor runs."""

from __future__ import annotations

import email
import re
import subprocess

from tests import ROOT

_ADDRESS = re.compile(r"https://[\w.-]+/[\w-]+/capacityd(?![\w-])")


def test_the_projects_address_is_the_same_everywhere() -> None:
    """pyproject.toml, under [project.urls], decides."""
    (address,) = re.findall(r'^Repository = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    written: dict[str, set[str]] = {}
    for name in listed():
        if name.endswith((".md", ".toml", ".yaml", ".yml")) or name.startswith("packaging/"):
            written[name] = set(_ADDRESS.findall((ROOT / name).read_text()))
    assert {name: addresses for name, addresses in written.items() if addresses - {address}} == {}
    where = {name for name, addresses in written.items() if addresses}
    assert {f"packaging/deb/{name}" for name in ("control", "watch", "upstream/metadata")} | {"SECURITY.md"} <= where


def test_addresses_of_the_projects_own_files_have_a_target() -> None:
    """Links in a checkout are relative; those on the web name the main branch."""
    for name in listed():
        if name.startswith((".github/", "packaging/deb/")) or name == "pyproject.toml":
            for path in re.findall(r"/blob/main/([\w./-]+\w)", (ROOT / name).read_text()):
                assert (ROOT / path).is_file(), f"{name}: {path}"


def listed() -> list[str]:
    """The project's files."""
    output = subprocess.run(["sh", ROOT / "packaging/sources"], capture_output=True, text=True, check=True).stdout
    return output.rstrip("\0").split("\0")


def test_make_deb_installs_what_the_build_needs() -> None:
    """On a bare machine, too, dpkg-buildpackage must find what packaging/deb/control declares, and build-essential."""
    control = email.message_from_string((ROOT / "packaging/deb/control").read_text())
    needed = {re.split(r"[ :|]", entry.strip())[0] for entry in control["Build-Depends"].split(",")}
    provided = {"debhelper-compat": "debhelper", "dh-sequence-python3": "dh-python"}
    command = ("make", "--dry-run", "--no-print-directory", "packages-deb")
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {provided.get(name, name) for name in needed} | {"build-essential"} <= {*output.split()}
