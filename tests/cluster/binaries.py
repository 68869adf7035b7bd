"""The programs of the control plane, which are built once into a cache folder.

Kubernetes and etcd are published as Go modules, so the build needs only `go`, and downloads only modules. As a command,
this module builds the named programs that are missing (default: all). It prints the folder, and progress to standard
error.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.network import persistently

HERE = Path(__file__).resolve().parent

PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "fakeruntime": "./fakeruntime",
    "deviceplugin": "./deviceplugin",
}
SERVERS = tuple(name for name in PACKAGES if name != "kubectl")
"""The programs that run during most tests. kubectl takes a minute more to build, and few tests need it."""

FLAGS = ("-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false -l")
"""Without debug information and inlining, the compiler needs a fifth less CPU time. The tests mostly wait."""
_DURATION = "5 minutes on 2 cores, if Go's own caches are empty, which then take 4 GB"

# Go's own archive is usually unpacked to the first. Debian's non-default versions are in the second, not on the PATH.
OTHER_PLACES = ("/usr/local/go/bin/go", "/usr/lib/go-*/bin/go")


class BuildError(Exception):
    """The programs can't be built. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Source:
    """A folder with the go.mod for building programs. version: what the programs report, such as 1.36.3.

    flags: for `go build`. packages: the Go package of each program.
    """

    folder: Path
    version: str
    flags: tuple[str, ...] = ()
    packages: Mapping[str, str] = field(default_factory=lambda: PACKAGES)


class Programs(Mapping[str, Path]):
    """The programs of one version, by name. Looking up a missing program builds it and the programs it runs with."""

    def __init__(self, folder: Path, source: Callable[[], Source], names: Sequence[str]) -> None:
        """source: called when a program must be built."""
        self.folder = folder
        self._source = source
        self._names = names

    def __getitem__(self, name: str) -> Path:
        if name not in self._names:
            raise KeyError(name)
        self.need(SERVERS if name in SERVERS else [name])
        return self.folder / name

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def missing(self, names: Collection[str]) -> list[str]:
        return [name for name in self._names if name in names and not (self.folder / name).exists()]

    def need(self, names: Collection[str]) -> None:
        """Builds the programs with these names that are missing. Raises BuildError."""
        if self.missing(names):
            with locked(self.folder):
                # Another run may have built them while this one waited for the lock.
                if missing := self.missing(names):
                    build(missing, self.folder, self._source())


def programs() -> Programs:
    """The programs of the pinned version."""
    return Programs(cache_folder(), lambda: Source(HERE, pinned()), list(PACKAGES))


def cache_folder(source: Path = HERE, name: str = "cluster") -> Path:
    """The folder of a build. Its name contains a hash of the modules and of our programs, not of the flags."""
    key = hashlib.sha256()
    for file in [source / "go.mod", source / "go.sum", *sorted(source.glob("*/*.go"))]:
        key.update(f"{file.relative_to(source)}\0{len(file.read_bytes())}\0".encode() + file.read_bytes())
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "capacityd", name, key.hexdigest()[:16])


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    # The lock is beside the folder: inside, it could be deleted with the folder while another process holds it.
    with open(folder.with_suffix(".lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another build of the control plane")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(names: list[str], folder: Path, source: Source) -> None:
    """Builds these programs together, to keep all cores busy. After an interruption, go reuses compiled packages."""
    go = find_go()
    say(f"building {', '.join(names)} {source.version} with {go}: once, about {_DURATION}")
    start = time.monotonic()
    unfinished = folder / ".unfinished"
    # The build downloads modules. A retry keeps those that were downloaded before.
    persistently(lambda: _build(go, names, unfinished, source), BuildError)
    for name in names:
        (unfinished / _built_as(source.packages[name])).rename(folder / name)
    unfinished.rmdir()
    say(f"built {', '.join(names)}: {time.monotonic() - start:.0f} s")


def _build(go: Path, names: list[str], target: Path, source: Source) -> None:
    flags = [*FLAGS, *source.flags, f"-ldflags={link_flags(source.version)}"]
    packages = [source.packages[name] for name in names]
    command: list[str | Path] = [go, "build", *flags, "-o", f"{target}/", *packages]
    done = subprocess.run(command, cwd=source.folder, env=go_environment(), stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise BuildError(f"{', '.join(names)} could not be built:\n{done.stderr[-4000:]}")


def _built_as(package: str) -> str:
    """The name that go gives to a program: the last part of the package path that is no version, such as v3."""
    *_, before, last = ["", *package.split("/")]
    return before if re.fullmatch(r"v\d+", last) else last


def go_environment() -> dict[str, str]:
    settings = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    # The compiler collects garbage only if it needs more memory than this, which saves a sixth of the CPU time.
    memory = {"GOGC": "off", "GOMEMLIMIT": "1GiB"}
    return os.environ | settings | memory


def link_flags(version: str) -> str:
    """The linker flags that set the version that the programs report, as a release build does."""
    major, minor, _ = version.split(".")
    values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    return "-s -w " + " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in values.items())


def pinned() -> str:
    """The version of Kubernetes that go.mod names, such as 1.36.3."""
    match = re.search(r"k8s\.io/kubernetes v(\d+\.\d+\.\d+)", (HERE / "go.mod").read_text())
    if match is None:
        raise BuildError("go.mod names no version of k8s.io/kubernetes")
    return match[1]


def find_go() -> Path:
    """The path of a go that is new enough. If only an older go is installed, it downloads a newer one (fetch_go)."""
    versions = {Path(path): version(path) for path in installed_go()}
    if not versions:
        raise BuildError(
            "the control plane for the tests is built with go, which is not installed: install any version of it "
            "(`apt-get install golang-go`), a newer one that is needed is fetched as a Go module"
        )
    fitting = [go for go in versions if versions[go] >= numbers(directive("go"))]
    return fitting[0] if fitting else fetch_go(max(versions, key=lambda go: versions[go]))


def installed_go() -> list[str]:
    """The paths of every go on this machine, of any version."""
    paths = [shutil.which("go"), *(path for place in OTHER_PLACES for path in glob.glob(place))]
    return [path for path in paths if path]


def fetch_go(old: Path) -> Path:
    """Downloads the toolchain that go.mod names, which is published as a Go module.

    Since 1.21, go does this by itself, unless a distribution has set GOTOOLCHAIN=local.
    """
    system, machine = run_go(old, "env", "GOOS", "GOARCH").split()
    module = f"golang.org/toolchain@v0.0.1-{directive('toolchain')}.{system}-{machine}"
    say(f"{old} is too old for the control plane: fetching {module}")
    # This works because run_go() uses an empty folder: an old go can't read our go.mod.
    output = persistently(lambda: run_go(old, "mod", "download", "-json", module), BuildError)
    folder = Path(json.loads(output)["Dir"])
    # Modules do not store permissions, so make the programs executable.
    for file in [*folder.glob("bin/*"), *folder.glob("pkg/tool/*/*")]:
        file.chmod(file.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return folder / "bin" / "go"


def run_go(go: Path, *arguments: str) -> str:
    """Runs go in an empty folder. Returns its output. Raises BuildError."""
    with tempfile.TemporaryDirectory() as empty:
        environment = go_environment()
        result = subprocess.run([go, *arguments], cwd=empty, env=environment, stdout=subprocess.PIPE, text=True)
    if result.returncode:
        raise BuildError(f"{go} {' '.join(arguments)} failed: {result.stdout}")
    return result.stdout


def directive(name: str) -> str:
    """The value of a line of go.mod, such as 1.26.0 for go."""
    match = re.search(rf"^{name} (\S+)$", (HERE / "go.mod").read_text(), re.MULTILINE)
    if match is None:
        raise BuildError(f"go.mod has no line `{name} …`")
    return match[1]


def version(go: str) -> tuple[int, ...]:
    return numbers(run_go(Path(go), "env", "GOVERSION"))


def numbers(text: str) -> tuple[int, ...]:
    """The first numbers in a version, at most three: (1, 26, 8) for go1.26.8."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def say(message: str) -> None:
    print(f"control plane: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        programs().need(sys.argv[1:] or PACKAGES.keys())
    except BuildError as error:
        sys.exit(f"control plane: {error}")
    print(cache_folder())
