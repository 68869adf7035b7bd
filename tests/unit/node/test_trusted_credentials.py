"""A kubeconfig, its files and its exec plugin are used only if nobody but root could change them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from capacityd.linux.trust import SERVICE_TRUST
from capacityd.model.errors import CredentialsNotTrusted, NodeUnauthorized, NodeUnreachable
from capacityd.node import credential_files
from capacityd.node.kubeconfig import load
from kubectl_capacityd.cluster.operator_kubeconfig import load_operators
from tests.support.reachable import make_reachable
from tests.unit.node.test_credentials import V1, config, credential, program, written

OTHER = 12345  # the uid of another user
pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users"), pytest.mark.other_user]


@pytest.fixture
def kubelet(tmp_path: Path) -> Path:
    """A folder with a kubeconfig, an authority, a token and an exec plugin, all of which only root may change."""
    folder = tmp_path / "kubelet"
    (folder / "bin").mkdir(parents=True)
    (folder / "token").write_text("t")
    (folder / "ca.crt").write_text("ca")
    program(folder / "bin", f"touch {tmp_path}/ran; echo '{credential(token='t')}'", "login")
    plugin_kubeconfig(folder)
    return folder


def plugin_kubeconfig(folder: Path, command: str = "bin/login") -> str:
    """Writes a kubeconfig with this exec plugin into the folder. Returns its path."""
    user = {"exec": {"apiVersion": V1, "command": command}}
    return written(folder, config({"certificate-authority": "ca.crt"}, user), "kubeconfig")


def token_kubeconfig(folder: Path) -> str:
    return written(folder, config({"certificate-authority": "ca.crt"}, {"tokenFile": "token"}), "kubeconfig")


def give_away(path: Path) -> None:
    os.chown(path, OTHER, OTHER, follow_symlinks=False)


def move_behind_anothers_link(path: Path) -> None:
    target = path.with_name("target")
    path.rename(target)
    path.symlink_to(target)
    give_away(path)


CHANGES: dict[str, tuple[str, Callable[[Path], object], str]] = {  # the file, its change, and the remedy in the error
    "kubeconfig that all may write": ("kubeconfig", lambda path: path.chmod(0o666), "chmod go-w"),
    "another's kubeconfig": ("kubeconfig", give_away, "chown root"),
    "kubeconfig behind another's link": ("kubeconfig", move_behind_anothers_link, "chown -h root"),
    "another's authority": ("ca.crt", give_away, "chown root"),
    "another's token": ("token", give_away, "chown root"),
    "another's plugin": ("bin/login", give_away, "chown root"),
    "plugin in a folder that all may write": ("bin", lambda path: path.chmod(0o777), "chmod go-w"),
}


@pytest.mark.parametrize(("name", "change", "remedy"), CHANGES.values(), ids=CHANGES)
def test_what_another_user_could_change_is_not_used(
    kubelet: Path, name: str, change: Callable[[Path], object], remedy: str
) -> None:
    path = token_kubeconfig(kubelet) if name == "token" else str(kubelet / "kubeconfig")
    change(kubelet / name)
    for timeout in (5.0, None):  # None: a check, which runs no plugin
        with pytest.raises(CredentialsNotTrusted) as raised:
            load(path, plugin_timeout=timeout)
        assert str(raised.value).endswith(f": {remedy} {kubelet / name!s}")
    assert not (kubelet.parent / "ran").exists()


def test_a_plugin_of_another_user_is_not_run_wherever_it_is_found(
    kubelet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin_kubeconfig(kubelet, "login")
    monkeypatch.setenv("PATH", f"{kubelet}/first:{kubelet}/bin:/usr/bin:/bin")
    assert load(str(kubelet / "kubeconfig")).token == "t"
    (kubelet / "first").mkdir(mode=0o777)
    (kubelet / "first").chmod(0o777)
    assert load(str(kubelet / "kubeconfig")).token == "t"
    program(kubelet / "first", f"touch {kubelet.parent}/theirs", "login")
    with pytest.raises(CredentialsNotTrusted, match=f"chmod go-w {kubelet}/first"):
        load(str(kubelet / "kubeconfig"))
    assert not (kubelet.parent / "theirs").exists()


def test_a_plugin_does_not_run_in_the_current_folder(kubelet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python would load modules from the current folder."""
    user = {"exec": {"apiVersion": V1, "command": "/usr/bin/python3", "args": ["-m", "login"]}}
    path = written(kubelet, config(user=user), "kubeconfig")
    theirs = kubelet / "theirs"
    theirs.mkdir()
    (theirs / "login.py").write_text(f"open({str(kubelet.parent / 'ran')!r}, 'w')")
    monkeypatch.chdir(theirs)
    with pytest.raises(NodeUnreachable):
        load(path)
    assert not (kubelet.parent / "ran").exists()


def test_a_file_that_another_user_creates_and_removes_is_never_used(kubelet: Path) -> None:
    """The file is in a folder like /tmp. A load finds no file, or refuses it."""
    make_reachable(kubelet)
    shared = kubelet / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    theirs, ready = shared / "theirs", kubelet / "ready"
    path = written(kubelet, config({"certificate-authority": "ca.crt"}, {"tokenFile": str(theirs)}), "kubeconfig")
    ready.write_text("another's")
    ready.chmod(0o755)
    loop = f"while :; do cp -p {ready} {theirs}; rm -f {theirs}; done"
    attacker = subprocess.Popen(["setpriv", f"--reuid={OTHER}", "--clear-groups", "sh", "-c", loop])
    outcomes = set()
    deadline = time.monotonic() + 20
    try:
        while "CredentialsNotTrusted" not in outcomes and time.monotonic() < deadline:
            try:
                outcomes.add(f"used {load(path).token}")
            except NodeUnauthorized as e:
                outcomes.add(type(e).__name__)
    finally:
        attacker.kill()
        attacker.wait()
    assert "CredentialsNotTrusted" in outcomes
    assert outcomes <= {"CredentialsMissing", "CredentialsNotTrusted"}


def test_a_check_runs_no_plugin(kubelet: Path) -> None:
    assert load(str(kubelet / "kubeconfig"), plugin_timeout=None, trust=SERVICE_TRUST).token is None
    assert not (kubelet.parent / "ran").exists()


# The modes of each distribution's files and folders, the kubeconfig first. "g": the distribution's own group owns the
# file. "u": its own user does.
DISTRIBUTIONS: dict[str, dict[str, str]] = {
    "kubeadm": {"etc/kubernetes/kubelet.conf": "600", "etc/kubernetes": "755"},
    "kubespray": {"etc/kubernetes/kubelet.conf": "640", "etc/kubernetes": "755u"},
    "k0s, load balancer": {"run/k0s/nllb/kubeconfig.yaml": "444", "run/k0s/nllb": "755", "run/k0s": "711"},
    "AKS": {"var/lib/kubelet/kubeconfig": "600", "var/lib/kubelet": "700"},
    "MicroK8s": {
        "var/snap/microk8s/42/credentials/kubelet.config": "660g",
        "var/snap/microk8s/42/credentials": "770g",
        "var/snap/microk8s/42/certs/ca.crt": "660g",
        "var/snap/microk8s/42/certs": "770g",
    },
}


@pytest.mark.parametrize("modes", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)
def test_the_files_of_distributions_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modes: dict[str, str]
) -> None:
    """MicroK8s' group may write its files, and Kubespray's user may own a folder. Other users may do neither."""
    monkeypatch.setattr(credential_files, "_KUBERNETES", f"{tmp_path}/etc/kubernetes")
    monkeypatch.setattr(credential_files, "_MICROK8S", f"{tmp_path}/var/snap/microk8s/")
    kubeconfig = tmp_path / next(iter(modes))
    authority = kubeconfig.parent.parent / "certs" / "ca.crt"
    for path in (kubeconfig, authority):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    written(kubeconfig.parent, config({"certificate-authority": str(authority)}, {"token": "t"}), kubeconfig.name)
    for name, mode in modes.items():
        (tmp_path / name).chmod(int(mode.rstrip("gu"), 8))
        os.chown(tmp_path / name, OTHER if mode.endswith("u") else 0, OTHER if mode.endswith("g") else 0)
    assert load(str(kubeconfig), trust=SERVICE_TRUST).token == "t"
    kubeconfig.chmod(0o662)
    with pytest.raises(CredentialsNotTrusted):
        load(str(kubeconfig))


def test_an_operators_kubeconfig_is_read_whoever_could_change_it(kubelet: Path) -> None:
    """kubectl reads it too. But an exec plugin is run only if nobody but the kubeconfig's owner and group could change
    the kubeconfig."""
    path = token_kubeconfig(kubelet)
    (kubelet / "kubeconfig").chmod(0o666)
    assert load_operators(path).token == "t"
    path = plugin_kubeconfig(kubelet)
    give_away(kubelet / "bin" / "login")
    with pytest.raises(CredentialsNotTrusted, match=f"chmod go-w {path}"):
        load_operators(path)
    assert not (kubelet.parent / "ran").exists()
    give_away(kubelet / "kubeconfig")
    (kubelet / "kubeconfig").chmod(0o664)
    assert load_operators(path).token == "t"
