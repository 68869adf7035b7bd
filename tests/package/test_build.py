"""What is in the package, and that nothing else decides that but the sources."""

from __future__ import annotations

import email
import subprocess
from pathlib import Path

from tests.package.packages import Packages

MOST = 100_000


def test_two_builds_are_identical(packages: Packages, twin: Path) -> None:
    assert packages.current.read_bytes() == twin.read_bytes()


def test_size(packages: Packages) -> None:
    assert packages.current.stat().st_size <= MOST


def test_lintian(packages: Packages) -> None:
    """Nothing, however small; what is accepted has its reason beside it in the overrides."""
    (changes,) = packages.folder.glob("*.changes")
    # That a node of Kubernetes has systemd is no exception to write down: newer versions don't know the tag.
    without = "--suppress-tags=package-supports-alternative-init-but-no-init.d-script"
    command: list[str | Path] = ["lintian", "--pedantic", "--display-info", "--allow-root", without, changes]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.stdout, result.returncode) == ("", 0)


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
    libraries = {f"python3-{name}" for name in ("jsonpatch", "kubernetes", "pyudev", "rich", "systemd", "yaml")}
    assert depends == {"python3:any", "python3 (>= 3.10)", "python3 (>= 3.11) | python3-tomli"} | libraries
    assert fields["Architecture"] == "all"


def test_files(packages: Packages) -> None:
    rows = [line.split() for line in out("--contents", packages.current).splitlines()]
    files = {row[-1].removeprefix("."): row[0] for row in rows if not row[0].startswith("d")}
    assert all(row[1] == "root/root" for row in rows)
    agent = {f"/usr/share/capacityd/{p.relative_to(packages.sources / 'agent')}" for p in modules(packages)}
    assert agent <= set(files)
    others = {path for path in set(files) - agent if not path.startswith("/usr/share/doc/")}
    assert others == {
        "/etc/capacityd/capacityd.toml",
        "/usr/bin/capacityd",
        "/usr/lib/systemd/catalog/capacityd.catalog",
        "/usr/lib/systemd/system-preset/50-capacityd.preset",
        "/usr/lib/systemd/system/capacityd.service",
        "/usr/share/capacityd/farewell.py",
        "/usr/share/capacityd/schema.json",
        "/usr/share/bash-completion/completions/capacityd",
        "/usr/share/lintian/overrides/capacityd",
        "/usr/share/man/man5/capacityd.toml.5.gz",
        "/usr/share/man/man8/capacityd.8.gz",
        "/usr/share/python3/runtime.d/capacityd.rtupdate",
        "/usr/share/zsh/vendor-completions/_capacityd",
    }
    assert {path for path, mode in files.items() if "x" in mode} == {
        "/usr/bin/capacityd",
        "/usr/share/python3/runtime.d/capacityd.rtupdate",
    }
    assert {"/etc/capacityd/conf.d/", "/usr/lib/capacityd/conf.d/"} <= {row[-1].removeprefix(".") for row in rows}


def modules(packages: Packages) -> list[Path]:
    found = sorted((packages.sources / "agent/capacityd").rglob("*.py"))
    assert found
    return found


def out(*arguments: str | Path) -> str:
    return subprocess.run(["dpkg-deb", *arguments], capture_output=True, text=True, check=True).stdout
