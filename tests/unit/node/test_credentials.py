"""Which kubeconfig is used, which credentials are read from it, and the error of each kubeconfig that is unusable."""

from __future__ import annotations

import base64
import json
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from capacityd.model.errors import CredentialsMissing, NodeError, NodeUnauthorized, NodeUnreachable
from capacityd.node import CredentialsCache, Machine, kubelet_kubeconfig, open_node
from capacityd.node.kubeconfig import load

SERVER = "https://192.0.2.1:6443"
SECRET = "s3cr3t"
V1 = "client.authentication.k8s.io/v1"


def config(
    cluster: Mapping[str, Any] | None = None, user: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """A kubeconfig with this cluster and this user. more: other keys at the top."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "other"}, {"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": SERVER, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        **more,
    }


def written(folder: Path, document: object, name: str = "kubelet.conf") -> str:
    """Writes a text, or a document as JSON, into a file. Returns the file's path."""
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


def program(folder: Path, script: str, name: str = "plugin") -> str:
    """Writes an executable shell script. Returns its path."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def plugin(folder: Path, script: str, **more: Any) -> str:
    """Writes a kubeconfig whose exec plugin is this shell script. Returns the kubeconfig's path."""
    entry = {"apiVersion": V1, "command": program(folder, script), **more}
    return written(folder, config(user={"exec": entry}))


def credential(**status: Any) -> str:
    """The output of an exec plugin."""
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})


def test_the_kubeconfig_is_the_first_place_that_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [str(tmp_path / name) for name in ("none", "folder/none", "first", "second")]
    monkeypatch.setattr(kubelet_kubeconfig, "KUBECONFIG_PATHS", places)
    monkeypatch.setenv("KUBECONFIG", written(tmp_path, config(), "users-own"))
    with pytest.raises(NodeUnauthorized, match="Has this machine joined a cluster") as raised:
        load(None)
    assert all(place in str(raised.value) for place in places)
    written(tmp_path, config(user={"token": "2"}), "second")
    assert load(None).token == "2"
    written(tmp_path, config(user={"token": "1"}), "first")
    assert load(None).token == "1"
    assert load(places[3]).token == "2"


def test_a_file_that_may_not_be_searched_or_read_has_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    path = written(tmp_path, config())
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with monkeypatch.context() as patch:
        patch.setattr("os.stat", refuse)
        with pytest.raises(
            NodeUnauthorized, match=r"cannot look .* /var/lib/kubelet/kubeconfig.*permission denied.*root"
        ):
            load(None)
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(NodeUnauthorized, match=r"permission denied\. Run this command as root"):
        load(path)


def test_files_are_relative_to_the_kubeconfig_and_read_each_time(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        config(
            {"certificate-authority": "pki/ca.crt", "tls-server-name": "kubernetes", "proxy-url": "http://p:3128"},
            {"client-certificate": "pki/both.pem", "client-key": "pki/both.pem", "tokenFile": "token"},
        ),
    )
    (tmp_path / "pki").mkdir()
    written(tmp_path / "pki", "authority", "ca.crt")
    both = tmp_path / "pki" / "both.pem"
    both.write_bytes(b"# caf\xe9\npair")
    written(tmp_path, " a-token\n", "token")
    configuration = load(path)
    assert (configuration.server, configuration.authority, configuration.token) == (SERVER, "authority", "a-token")
    assert configuration.certificate == configuration.key == "# café\npair"
    assert configuration.verify
    assert (configuration.server_name, configuration.proxy) == ("kubernetes", "http://p:3128")
    both.write_text("renewed")
    assert load(path).certificate == "renewed"


def test_a_kubeconfig_may_be_yaml_and_have_no_user(tmp_path: Path) -> None:
    text = f"""
        current-context: c
        contexts: [{{name: c, context: {{cluster: k}}}}]
        clusters:
        - name: k
          cluster: {{server: "{SERVER}/", insecure-skip-tls-verify: true}}
    """
    configuration = load(written(tmp_path, text))
    assert (configuration.server, configuration.verify) == (SERVER, False)
    assert (configuration.token, configuration.certificate) == (None, None)


WRONG: list[Any] = [  # a kubeconfig, and a part of the error
    *[(text, "is empty") for text in ("", "\n", "# only a comment\n", "---\n", "null", "{}")],
    *[(text, "is invalid: the file is not a mapping") for text in ("[]", "0")],
    (f"token: {SECRET}\n  token: [{SECRET}", "is not valid YAML, line 2"),
    *[(text, "is not valid YAML") for text in ("[" * 600, f"current-context: !!bool {SECRET}")],
    ({"kind": "Config"}, "contains no current-context"),
    (config() | {"current-context": ["c"]}, "current-context is not text"),
    (config(contexts=[]), "has no context with the name of its current-context"),
    (config(contexts="c"), "is invalid: contexts is not a list"),
    (config(contexts=[{"name": "c", "context": []}]), "has no cluster that its context names"),
    (config(clusters=[]), "has no cluster that its context names"),
    (config(users=[{"name": "u", "user": "x"}]), "user is not a mapping"),
    (config(users=[]), "has no user that its context names"),
    (config({"server": ""}), "has no server such as"),
    (config({"server": "192.0.2.1:6443"}), "has no server such as"),
    (config({"server": "https://me:s3cr3t@h"}), "has no server such as"),
    (config({"server": "https://h?token=s3cr3t"}), "has no server such as"),
    *[
        (config({"proxy-url": f"{scheme}://h"}), "has an invalid proxy-url; name an HTTP")
        for scheme in ("socks5", "https")
    ],
    (config({"certificate-authority-data": "s3cr3t!"}), "certificate-authority-data is not base64"),
    (config({"certificate-authority": "/nonexistent/ca"}), " does not exist. Has the kubelet joined"),
    (config({"certificate-authority": "/"}), "cannot be read: Is a directory"),
    (config({"certificate-authority": "a\0b"}), "cannot be read: it is not a path"),
    (config({"certificate-authority": "/dev/zero"}), "cannot be read: Not a regular file"),
    (config(user={"client-certificate": "/nonexistent/pem", "client-key": "x"}), "the client-certificate named in"),
    (config(user={"client-certificate-data": "eA=="}), "a client certificate without its key"),
    (config(user={"client-key-data": "eA=="}), "a key without its certificate"),
    (config(user={"token": "s3cr3t\ns3cr3t"}), "a token with invalid characters"),
    (config(user={"token": "s3cr3té"}), "a token with invalid characters"),
    *[
        (config(user={"tokenFile": text}), "the token file named in")
        for text in ("-----BEGIN s3cr3t", "LS0tLS1CRUdJTis3cr3t", "eyJs3cr3t.x.y", "s3cr3t\n", "s3cr3t" * 50)
    ],
    (config(user={"token": SECRET, "auth-provider": {"name": "gcp"}}), "uses auth-provider: "),
    (config(user={"username": "u", "password": SECRET}), "uses username: "),
    (
        config(user={"token": SECRET, "as": "u", "as-groups": ["g"]}),
        "uses as-groups: only the user can be impersonated",
    ),
    (config(user={"token": SECRET, "as": "u\nX-Header: v"}), "names a user with invalid characters (as)"),
    (config(user={"token": SECRET, "as": ["u"]}), "as is not text"),
    (config(user={"exec": {"apiVersion": V1}}), "an exec plugin without a command"),
    (config(user={"exec": {"command": "x", "args": "x"}}), "args is not a list"),
    (config(user={"exec": {"command": "x", "env": ["x"]}}), "exec.env is not a mapping"),
    (config(user={"exec": {"apiVersion": V1, "command": "x", "interactiveMode": "Always"}}), "needs a terminal"),
    (config(user={"exec": {"apiVersion": "v9", "command": "x"}}), "an unsupported apiVersion; supported are"),
    (config(user={"exec": {"apiVersion": V1, "command": "no-such-plugin"}}), "is not installed or not executable"),
    (config(user={"exec": {"apiVersion": V1, "command": "/dev/null"}}), "is not installed or not executable"),
]


@pytest.mark.parametrize(("document", "message"), WRONG)
def test_an_error_names_the_cause_but_no_secret(tmp_path: Path, document: object, message: str) -> None:
    path = written(tmp_path, document)
    with pytest.raises(NodeUnauthorized) as raised:
        load(path)
    assert message in str(raised.value)
    assert "exec plugin" in str(raised.value) or path in str(raised.value)
    assert SECRET not in str(raised.value)
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    ("exists", "missing"),  # the files that exist, and the first one that is missing
    [
        ((), "kubeconfig"),
        (("kubeconfig",), "pki/current.pem"),
        (("kubeconfig", "pki/current.pem"), "token"),
        (("kubeconfig", "pki/current.pem", "token"), "token"),  # it is empty: not written yet
        (("kubeconfig", "pki/current.pem", "token", "token's text"), "ca.crt"),
    ],
)
def test_until_all_files_exist_the_machine_has_not_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: tuple[str, ...], missing: str
) -> None:
    """The files that were read and the first missing file are watched. Paths are relative to the kubeconfig."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pki").mkdir()
    both = {"client-certificate": "pki/current.pem", "client-key": "pki/current.pem", "tokenFile": "token"}
    contents = {
        "kubeconfig": json.dumps(config({"certificate-authority": "ca.crt"}, both)),
        "pki/current.pem": "pair",
        "token": SECRET if "token's text" in exists else "",
    }
    for name in exists:
        if name in contents:
            written(tmp_path, contents[name], name)
    cache = CredentialsCache()
    with pytest.raises(CredentialsMissing):
        open_node("kubeconfig", None, Machine("host", None), cache).identify()
    assert str(tmp_path / missing) in cache.files
    assert set(cache.files) == {str(tmp_path / name) for name in {*exists, missing} - {"token's text"}}


def test_files_that_cannot_be_used_are_watched_too(tmp_path: Path) -> None:
    """The user may have to change any of these files."""
    path = written(tmp_path, config(user={"tokenFile": "token"}))
    written(tmp_path, "caf\xe9 \x01", "token")
    cache = CredentialsCache()
    with pytest.raises(NodeUnauthorized, match="a token with invalid characters"):
        open_node(path, None, Machine("host", None), cache).identify()
    assert set(cache.files) == {path, f"{tmp_path}/token"}


def test_credentials_are_read_from_the_output_of_a_plugin(tmp_path: Path) -> None:
    """The token is too long for a pipe's buffer."""
    token = SECRET * 50_000
    configuration = load(plugin(tmp_path, f"cat <<'END'\n{credential(token=token)}\nEND"))
    assert (configuration.token, configuration.certificate) == (token, None)
    assert SECRET not in repr(configuration)
    configuration = load(plugin(tmp_path, f"echo '{credential(clientCertificateData='cert', clientKeyData='key')}'"))
    assert (configuration.certificate, configuration.key) == ("cert", "key")


def test_a_plugin_gets_its_arguments_environment_and_cluster(tmp_path: Path) -> None:
    script = (
        f'printf "%s\\n" "$@" "$MINE" "$KUBERNETES_EXEC_INFO" >{tmp_path}/info; read line && exit 9; '
        f"echo '{credential(token=SECRET)}'"
    )
    entry = {
        "apiVersion": V1,
        "command": "./bin/plugin",  # relative to the kubeconfig, whatever the working directory
        "args": ["get-token", "a b"],
        "env": [{"name": "MINE", "value": "yes"}],
        "provideClusterInfo": True,
    }
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin", script)
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"since": "DATE"}}
    cluster = {"certificate-authority-data": "eHl6", "extensions": [{"name": "other"}, extension]}
    text = json.dumps(config(cluster, {"exec": entry})).replace('"DATE"', "2026-01-01")  # JSON has no dates, YAML has
    assert load(written(tmp_path, text)).token == SECRET
    first, second, mine, info = (tmp_path / "info").read_text().splitlines()
    assert (first, second, mine) == ("get-token", "a b", "yes")
    spec = json.loads(info)["spec"]
    assert spec["interactive"] is False
    assert spec["cluster"] == {
        "server": SERVER,
        "certificate-authority-data": "eHl6",
        "config": {"since": "2026-01-01"},
    }


def test_a_token_or_certificate_in_the_kubeconfig_takes_precedence(tmp_path: Path) -> None:
    entry = {"apiVersion": V1, "command": program(tmp_path, "exit 1")}
    assert load(written(tmp_path, config(user={"exec": entry, "token": "t"}))).token == "t"
    keys = ("client-certificate", "client-key")
    data = {f"{key}-data": base64.b64encode(key.encode()).decode() for key in keys}
    configuration = load(written(tmp_path, config(user={"exec": entry, **data, **dict.fromkeys(keys, "none")})))
    assert (configuration.certificate, configuration.key) == keys


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "sleep 1000 & echo s3cr3t | tee /dev/stderr; exit 3",
            "failed (exit status 3). Its output is not shown, because it may contain secrets",
        ),
        ("echo s3cr3t >&2; kill -9 $$", "was killed by signal 9. Its output"),
        ("yes", "printed more than 1048576 bytes"),
        ("echo s3cr3t", "did not print JSON"),
        ('echo \'{"kind": "ExecCredential", "token": "s3cr3t"}\'', "did not print an ExecCredential"),
        (f"echo '{credential(token=SECRET)}' | sed s/ExecCredential/Secret/", "did not print an ExecCredential"),
        (f"echo '{credential()}'", "neither a token nor a certificate"),
        (f"echo '{credential(clientCertificateData='s3cr3t')}'", "neither a token nor a certificate"),
        (f"echo '{credential(token=[SECRET])}'", "a value that is not text"),
        (f"echo '{credential(token=SECRET)}' | sed s@/v1@/v1beta1@", "printed an apiVersion other than"),
    ],
)
def test_a_plugin_that_fails_is_an_error_without_its_secret(tmp_path: Path, script: str, message: str) -> None:
    with pytest.raises(NodeError) as raised:
        load(plugin(tmp_path, script))
    assert message in str(raised.value)
    ended_badly = "failed" in message or "killed by" in message
    assert raised.value.cause == ("unreachable" if ended_badly else "other"), "the plugin may need the network"
    assert SECRET not in "".join(traceback.format_exception(raised.value))
    assert str(raised.value).isprintable()


def test_a_plugin_that_does_not_end_in_time_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(NodeUnreachable, match=r"did not end within 0\.2 s"):
        load(plugin(tmp_path, "sleep 1000"), plugin_timeout=0.2)
