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
from capacityd.node import kubelet_kubeconfig
from capacityd.node.api_node import ApiNode
from capacityd.node.identity import CredentialsCache, Machine
from capacityd.node.kubeconfig import load

SERVER = "https://192.0.2.1:6443"
SECRET = "s3cr3t"
V1 = "client.authentication.k8s.io/v1"


def config(
    cluster: Mapping[str, Any] | None = None, user: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """A kubeconfig with this cluster and this user. more: other keys at the top level."""
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


def with_plugin(folder: Path, script: str, **more: Any) -> str:
    """Writes a kubeconfig whose exec plugin is this shell script. Returns its path. more: other keys of the plugin."""
    entry = {"apiVersion": V1, "command": program(folder, script), **more}
    return written(folder, config(user={"exec": entry}))


def credential(**status: Any) -> str:
    """The output of an exec plugin: an ExecCredential with this status."""
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
        message = r"cannot look for /var/lib/kubelet/.*: permission denied\. Run this command as root"
        with pytest.raises(NodeUnauthorized, match=message):
            load(None)
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(NodeUnauthorized, match=r"Permission denied\. Run this command as root"):
        load(path)


def test_files_are_relative_to_the_kubeconfig_and_read_each_time(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        config(
            {
                "server": f"{SERVER}/",
                "certificate-authority": "pki/ca.crt",
                "tls-server-name": "kubernetes",
                "proxy-url": "http://p:3128",
            },
            {"client-certificate": "pki/both.pem", "client-key": "pki/both.pem", "tokenFile": "token"},
        ),
    )
    (tmp_path / "pki").mkdir()
    written(tmp_path / "pki", "authority", "ca.crt")
    both = tmp_path / "pki" / "both.pem"
    both.write_bytes(b"# caf\xe9\npair")
    written(tmp_path, " a-token\n", "token")
    access = load(path)
    assert (access.server, access.authority, access.token) == (SERVER, "authority", "a-token")
    assert access.certificate == access.key == "# café\npair"
    assert (access.server_name, access.proxy) == ("kubernetes", "http://p:3128")
    both.write_text("renewed")
    assert load(path).certificate == "renewed"


def test_a_context_may_name_no_user(tmp_path: Path) -> None:
    access = load(written(tmp_path, config(contexts=[{"name": "c", "context": {"cluster": "k"}}], users=[])))
    assert (access.token, access.certificate) == (None, None)


NO_CONTEXT = "contains no current-context: is it complete?"
NOT_INSTALLED = "is not installed or not executable"
BAD_HEADER = "refers to a token or a user (as) with invalid characters"
NO_SERVER = "has no server such as"
BAD_PROXY = "has an invalid proxy-url; name an HTTP"


def plugin_config(**entry: Any) -> dict[str, Any]:
    """A kubeconfig whose exec plugin has these keys."""
    return config(user={"exec": {"apiVersion": V1, **entry}})


WRONG: list[Any] = [  # a kubeconfig, and a part of the error
    *((text, NO_CONTEXT) for text in ("", "# only a comment\n", "null", "{}")),
    *((text, "is invalid: the file is not an object") for text in ("[]", "0")),
    (f"token: {SECRET}\n  token: [{SECRET}", "is not valid YAML, line 2"),
    (f"current-context: !!bool {SECRET}", "is not valid YAML"),
    ("[" * 600, "is not valid YAML"),  # nested too deeply
    ({"kind": "Config"}, NO_CONTEXT),
    (config() | {"current-context": ["c"]}, "current-context is not text"),
    (config(contexts=[]), "has no context with the name of its current-context"),
    (config(contexts="c"), "is invalid: contexts is not a list of objects"),
    (config(contexts=[{"name": "c", "context": {}}]), "has no cluster that its context names"),
    (config(clusters=[]), "has no cluster that its context names"),
    (config(users=[{"name": "u", "user": "x"}]), "user is not an object"),
    (config(users=[]), "has no user that its context names"),
    (config({"server": ""}), NO_SERVER),
    (config({"server": "192.0.2.1:6443"}), NO_SERVER),
    (config({"server": "https://me:s3cr3t@h"}), NO_SERVER),
    (config({"server": "https://h?token=s3cr3t"}), NO_SERVER),
    (config({"server": "https://h#s3cr3t"}), NO_SERVER),
    (config({"proxy-url": "socks5://h"}), BAD_PROXY),
    (config({"proxy-url": "https://h"}), BAD_PROXY),
    (config({"certificate-authority-data": "s3cr3t!"}), "certificate-authority-data is not base64"),
    (config({"certificate-authority": "/nonexistent/ca"}), " does not exist. Has the kubelet joined"),
    (config({"certificate-authority": "/"}), "cannot be read: Is a directory"),
    (config({"certificate-authority": "a\0b"}), "cannot be read: it is not a path"),
    (config({"certificate-authority": "/dev/zero"}), "cannot be read: Not a regular file"),
    (config(user={"client-certificate": "/nonexistent/pem", "client-key": "x"}), "the client-certificate named in"),
    (config(user={"client-certificate-data": "eA=="}), "a client certificate without its key"),  # "x" in base64
    (config(user={"client-key-data": "eA=="}), "a key without its certificate"),
    (config(user={"token": "s3cr3t\ns3cr3t"}), BAD_HEADER),
    (config(user={"token": "s3cr3té"}), BAD_HEADER),
    (config(user={"token": SECRET, "as": "u\nX-Header: v"}), BAD_HEADER),
    (config(user={"token": SECRET, "as": ["u"]}), "as is not text"),
    *(
        (config(user={"tokenFile": text}), "the token file named in")  # a credential instead of a path
        for text in ("-----BEGIN s3cr3t", "eyJs3cr3t.x.y", "s3cr3t\n", "s3cr3t" * 50)
    ),
    *(
        (config(user={"token": SECRET, key: ["x"]}), f"uses {key}, which capacityd does not support")
        for key in ("auth-provider", "username", "as-groups", "as-uid", "as-user-extra")
    ),
    (plugin_config(), NOT_INSTALLED),
    (plugin_config(command="no-such-plugin"), NOT_INSTALLED),
    (plugin_config(command="/dev/null"), NOT_INSTALLED),
    (plugin_config(command="x", args="x"), "args is not a list of texts"),
    (plugin_config(command="x", env=["x"]), "env is not a list of objects"),
    (plugin_config(command="x", interactiveMode="Always"), "needs a terminal"),
    (plugin_config(command="x", apiVersion="v9"), "an unsupported apiVersion; supported are"),
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
    ("written_files", "missing"),  # the files that exist ("empty token": an empty one), and the first that is missing
    [
        ([], "kubeconfig"),
        (["kubeconfig"], "ca.crt"),
        (["kubeconfig", "ca.crt"], "token"),
        (["kubeconfig", "ca.crt", "empty token"], "token"),  # it is not written yet
        (["kubeconfig", "ca.crt", "token"], "pki/current.pem"),
    ],
)
def test_until_all_files_exist_the_machine_has_not_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written_files: list[str], missing: str
) -> None:
    """The files that were read and the first missing file are watched. Paths are relative to the kubeconfig."""
    monkeypatch.chdir(tmp_path)
    user = {"client-certificate": "pki/current.pem", "client-key": "pki/current.pem", "tokenFile": "token"}
    contents = {"kubeconfig": json.dumps(config({"certificate-authority": "ca.crt"}, user)), "empty token": ""}
    names = [name.removeprefix("empty ") for name in written_files]
    for file, name in zip(written_files, names, strict=True):
        written(tmp_path, contents.get(file, SECRET), name)
    cache = CredentialsCache()
    with pytest.raises(CredentialsMissing):
        ApiNode("kubeconfig", None, Machine("host", None), cache).identify()
    assert set(cache.files) == {str(tmp_path / name) for name in {*names, missing}}


def test_files_that_cannot_be_used_are_watched_too(tmp_path: Path) -> None:
    """The user may have to change any of these files."""
    path = written(tmp_path, config(user={"tokenFile": "token"}))
    written(tmp_path, "caf\xe9 \x01", "token")
    cache = CredentialsCache()
    with pytest.raises(NodeUnauthorized, match="with invalid characters"):
        ApiNode(path, None, Machine("host", None), cache).identify()
    assert set(cache.files) == {path, f"{tmp_path}/token"}


def test_credentials_are_read_from_the_output_of_a_plugin(tmp_path: Path) -> None:
    """The first token is too long for a pipe's buffer."""
    token = SECRET * 50_000
    access = load(with_plugin(tmp_path, f"cat <<'END'\n{credential(token=token)}\nEND"))
    assert (access.token, access.certificate) == (token, None)
    assert SECRET not in repr(access)
    access = load(with_plugin(tmp_path, f"echo '{credential(clientCertificateData='cert', clientKeyData='key')}'"))
    assert (access.certificate, access.key) == ("cert", "key")


def test_a_plugin_gets_its_arguments_environment_and_cluster(tmp_path: Path) -> None:
    script = (  # it fails if it can read a line from standard input
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
    missing_files = dict.fromkeys(keys, "none")
    access = load(written(tmp_path, config(user={"exec": entry, **data, **missing_files})))
    assert (access.certificate, access.key) == keys


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "sleep 1000 & echo s3cr3t | tee /dev/stderr; exit 3",
            "failed (exit status 3). Its output is not shown, because it may contain secrets",
        ),
        ("echo s3cr3t >&2; kill -9 $$", "was killed by signal 9. Its output"),
        ("yes", "printed more than 1048576 bytes"),
        ("echo s3cr3t", "cannot be used: it is not JSON"),
        ("echo [1]", "it is not an ExecCredential"),
        (f"echo '{credential(token=SECRET)}' | sed s/ExecCredential/Secret/", "it is not an ExecCredential"),
        (f"echo '{credential()}'", "neither a token nor a certificate"),
        (f"echo '{credential(clientCertificateData='s3cr3t')}'", "neither a token nor a certificate"),
        (f"echo '{credential(token=[SECRET])}'", "token is not text"),
        (f"echo '{credential(token=SECRET)}' | sed s@/v1@/v1beta1@", "its apiVersion is not"),
    ],
)
def test_a_plugin_that_fails_is_an_error_without_its_secret(tmp_path: Path, script: str, message: str) -> None:
    with pytest.raises(NodeError) as raised:
        load(with_plugin(tmp_path, script))
    assert message in str(raised.value)
    plugin_failed = "failed" in message or "killed by" in message or "printed more" in message
    assert isinstance(raised.value, NodeUnreachable) is plugin_failed, "the plugin may need the network"
    assert SECRET not in "".join(traceback.format_exception(raised.value))
    assert str(raised.value).isprintable()


def test_a_plugin_that_does_not_end_in_time_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(NodeUnreachable, match=r"did not end within 0\.2 s"):
        load(with_plugin(tmp_path, "sleep 1000"), plugin_timeout=0.2)
