"""Certificates of servers and authorities, and whether client-go accepts a server with them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.credentials import kubeconfig
from tests.support.server import Script
from tests.support.tls import TlsServer, answers, serve_tls

CA = "basicConstraints = critical,CA:true\nkeyUsage = critical,keyCertSign\n"
IDENTIFIERS = "subjectKeyIdentifier = hash\nauthorityKeyIdentifier = keyid\n"
NO_IDENTIFIERS = "subjectKeyIdentifier = none\nauthorityKeyIdentifier = none\n"
SERVER = "basicConstraints = critical,CA:false\nkeyUsage = critical,digitalSignature\nextendedKeyUsage = serverAuth\n"
LOOPBACK = "subjectAltName = IP:127.0.0.1,DNS:localhost\n"
_P256 = ("ecparam", "-name", "prime256v1", "-genkey", "-noout")
_RSA_1024 = ("genrsa", "1024")


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate and its key."""

    certificate: Path
    key: Path

    @property
    def pem(self) -> str:
        return self.certificate.read_text()


@dataclass(frozen=True, slots=True)
class Server:
    """A server and its kubeconfig.

    certificates: the chain that the server presents, its own first. authority: the kubeconfig's
    certificate-authority. cluster: other keys of the kubeconfig's cluster.
    """

    key: Path
    certificates: Sequence[Issued]
    authority: str
    cluster: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Case:
    """A server, and whether client-go accepts it."""

    make: Callable[[Maker], Server]
    accepted: bool
    differs: str = ""
    """Why OpenSSL decides differently from Go, without a setting in Python's ssl to change that. "": it does not."""


class Maker:
    """Issues certificates into a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._issued = 0

    def issue(
        self,
        subject: str,
        extensions: str,
        signer: Issued | None = None,
        *,
        days: int = 2,
        digest: str = "sha256",
        key: Sequence[str] = _P256,
    ) -> Issued:
        """Issues a certificate. days: until it expires (negative: it has expired). signer: None if self-signed."""
        self._issued += 1
        base = self._folder / str(self._issued)
        request, options, certificate = (base.with_suffix(suffix) for suffix in (".csr", ".cnf", ".crt"))
        issued = Issued(certificate, base.with_suffix(".key"))
        options.write_text(extensions)
        issued.key.write_text(_openssl(*key))
        _openssl("req", "-new", "-subj", subject, "-key", issued.key, "-out", request, f"-{digest}")
        by = ("-CA", signer.certificate, "-CAkey", signer.key) if signer else ("-signkey", issued.key)
        dates = ("-days", str(days), "-extfile", options, f"-{digest}", "-set_serial", str(self._issued))
        _openssl("x509", "-req", "-in", request, *by, *dates, "-out", certificate)
        return issued

    def root(self, subject: str = "/CN=root", extensions: str = CA + IDENTIFIERS, days: int = 2) -> Issued:
        """Issues the self-signed certificate of an authority."""
        return self.issue(subject, extensions, days=days)

    def leaf(self, signer: Issued, extensions: str = SERVER + LOOPBACK + IDENTIFIERS, subject: str = "/CN=x") -> Issued:
        """Issues the certificate of a server."""
        return self.issue(subject, extensions, signer)


def _openssl(*arguments: str | Path) -> str:
    process = subprocess.run(["openssl", *arguments], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout


def server(certificates: Issued | Sequence[Issued], authority: str, **cluster: str) -> Server:
    """A server with this certificate or chain, and a kubeconfig with this authority."""
    chain = [certificates] if isinstance(certificates, Issued) else certificates
    return Server(chain[0].key, chain, authority, {key.replace("_", "-"): value for key, value in cluster.items()})


def _signed(m: Maker, extensions: str, **cluster: str) -> Server:
    """A server whose certificate has these extensions."""
    root = m.root()
    return server(m.leaf(root, extensions + IDENTIFIERS), root.pem, **cluster)


def _authority(m: Maker, change: Callable[[str], str]) -> Server:
    """A server whose kubeconfig has a changed text of the authority."""
    root = m.root()
    return server(m.leaf(root), change(root.pem))


def _authorities(m: Maker, order: Callable[[Issued, Issued], Sequence[Issued]], old: str, new: str) -> Server:
    """A server whose authority was replaced by one with the same name. old, new: extensions of the authorities."""
    before, after = m.root("/CN=kubernetes", CA + old), m.root("/CN=kubernetes", CA + new)
    return server(m.leaf(after, SERVER + LOOPBACK + new), "".join(root.pem for root in order(before, after)))


def _intermediates(m: Maker) -> tuple[Issued, Issued, Issued]:
    """A root, an intermediate authority, and the certificate of a server that the intermediate has signed."""
    root = m.root()
    intermediate = m.issue("/CN=intermediate", CA + IDENTIFIERS, root)
    return root, intermediate, m.leaf(intermediate)


def _three(m: Maker, choose: Callable[[Issued, Issued, Issued], tuple[Sequence[Issued], str]]) -> Server:
    """A server with an intermediate authority. choose: returns the presented chain and the kubeconfig's authority."""
    return server(*choose(*_intermediates(m)))


def _weak(m: Maker, key: Sequence[str] = _P256, digest: str = "sha256") -> Server:
    """A server whose certificate has this kind of key and this digest."""
    root = m.root()
    return server(m.issue("/CN=x", SERVER + LOOPBACK + IDENTIFIERS, root, digest=digest, key=key), root.pem)


def _self_signed(m: Maker, extensions: str, days: int = 2) -> Server:
    leaf = m.issue("/CN=x", extensions, days=days)
    return server(leaf, leaf.pem)


def _expired_intermediate(m: Maker) -> Server:
    """The bundle has the root and an expired intermediate. The server presents the renewed one with the same key."""
    root = m.root()
    new = m.issue("/CN=intermediate", CA + IDENTIFIERS, root)
    old = m.issue("/CN=intermediate", CA + IDENTIFIERS, root, days=-1)
    return server([m.leaf(new), new], old.pem + root.pem)


def _path_too_long(m: Maker) -> Server:
    """A server with an intermediate authority, although its root allows none (pathlen:0)."""
    root = m.root(extensions="basicConstraints = CA:true,pathlen:0")
    intermediate = m.issue("/CN=intermediate", CA + IDENTIFIERS, root)
    return server([m.leaf(intermediate), intermediate], root.pem)


def _typed(m: Maker, kind: str, then: str = "") -> Server:
    """A server whose authority is a PEM block of this type. then: a text after it, with {} for the authority."""
    return _authority(m, lambda pem: pem.replace(" CERTIFICATE", f" {kind}") + then.format(pem))


def _from(m: Maker, extensions: str) -> Server:
    """A server whose authority has these extensions."""
    root = m.root(extensions=extensions)
    return server(m.leaf(root), root.pem)


def _accepted(make: Callable[[Maker], Server], differs: str = "") -> Case:
    """A case of a server that client-go accepts. differs: as in Case."""
    return Case(make, accepted=True, differs=differs)


def _refused(make: Callable[[Maker], Server], differs: str = "") -> Case:
    """A case of a server that client-go refuses. differs: as in Case."""
    return Case(make, accepted=False, differs=differs)


_SELF_SIGNED = "OpenSSL takes no authority that may only sign as a server; openssl makes one that may do both"
_DAMAGED = "OpenSSL refuses a text with a damaged block; no tool writes one"
_LABEL = "OpenSSL takes the block's other labels"
# In the functions, r is a root, i an intermediate authority, a an old authority, and b the new one.
CASES: Mapping[str, Case] = {
    "usual": _accepted(lambda m: _authority(m, lambda pem: pem)),
    "another authority": _refused(lambda m: server(m.leaf(m.root()), m.root().pem)),
    # What the bundle contains.
    "intermediate as authority": _accepted(lambda m: _three(m, lambda _, i, leaf: ([leaf, i], i.pem))),
    "intermediate as authority, not sent": _accepted(lambda m: _three(m, lambda _, i, leaf: ([leaf], i.pem))),
    "own certificate as authority": _accepted(lambda m: _three(m, lambda _r, i, leaf: ([leaf, i], leaf.pem))),
    "own certificate and root": _accepted(lambda m: _three(m, lambda r, i, leaf: ([leaf, i], leaf.pem + r.pem))),
    "own self-signed certificate": _accepted(lambda m: _self_signed(m, SERVER + LOOPBACK)),
    "own self-signed authority": _accepted(lambda m: _self_signed(m, CA + LOOPBACK), _SELF_SIGNED),
    "own self-signed authority, as openssl makes it": _accepted(
        lambda m: _self_signed(m, "basicConstraints = critical,CA:true\n" + LOOPBACK + IDENTIFIERS)
    ),
    "own expired certificate": _refused(lambda m: _self_signed(m, SERVER + LOOPBACK, days=-1)),
    "root and sent intermediate": _accepted(lambda m: _three(m, lambda r, i, leaf: ([leaf, i], r.pem))),
    "intermediate missing": _refused(lambda m: _three(m, lambda r, _, leaf: ([leaf], r.pem))),
    "other server's certificate as authority": _refused(
        lambda m: _three(m, lambda r, i, leaf: ([m.leaf(leaf), leaf, i], leaf.pem))
    ),
    "renewed intermediate": _accepted(_expired_intermediate),
    # Rotations.
    "old, new; without identifiers": _accepted(
        lambda m: _authorities(m, lambda a, b: (a, b), NO_IDENTIFIERS, IDENTIFIERS)
    ),
    "new, old; without identifiers": _accepted(
        lambda m: _authorities(m, lambda a, b: (b, a), NO_IDENTIFIERS, IDENTIFIERS)
    ),
    "both without identifiers": _accepted(
        lambda m: _authorities(m, lambda a, b: (a, b), NO_IDENTIFIERS, NO_IDENTIFIERS)
    ),
    "both with identifiers": _accepted(lambda m: _authorities(m, lambda a, b: (a, b), IDENTIFIERS, IDENTIFIERS)),
    "only old": _refused(lambda m: _authorities(m, lambda a, _: (a,), NO_IDENTIFIERS, IDENTIFIERS)),
    "many of one name": _accepted(
        lambda m: _authorities(
            m, lambda a, b: (a, *(m.root("/CN=kubernetes", CA + NO_IDENTIFIERS) for _ in range(5)), b), "", IDENTIFIERS
        ),
    ),
    "expired authority beside a valid one": _accepted(
        lambda m: _authority(m, lambda pem: m.root("/CN=old", days=-1).pem + pem)
    ),
    "expired authority of the same name": _accepted(
        lambda m: _authority(m, lambda pem: m.root("/CN=root", days=-1).pem + pem)
    ),
    "expired authority": _refused(lambda m: server(m.leaf(root := m.root(days=-1)), root.pem)),
    # Names.
    "only a common name": _refused(lambda m: server(m.leaf(root := m.root(), SERVER, "/CN=127.0.0.1"), root.pem)),
    "only a common name, asked for": _refused(
        lambda m: server(m.leaf(root := m.root(), SERVER, "/CN=api"), root.pem, tls_server_name="api")
    ),
    "only a DNS name": _refused(lambda m: _signed(m, SERVER + "subjectAltName = DNS:localhost\n")),
    "an address as DNS name": _refused(lambda m: _signed(m, SERVER + "subjectAltName = DNS:127.0.0.1\n")),
    "another address": _refused(lambda m: _signed(m, SERVER + "subjectAltName = IP:192.0.2.1\n")),
    "tls-server-name": _accepted(
        lambda m: _signed(m, SERVER + "subjectAltName = DNS:kubernetes\n", tls_server_name="kubernetes")
    ),
    "tls-server-name in capitals": _accepted(
        lambda m: _signed(m, SERVER + "subjectAltName = DNS:kubernetes\n", tls_server_name="Kubernetes")
    ),
    "tls-server-name, an address": _accepted(
        lambda m: _signed(m, SERVER + "subjectAltName = IP:192.0.2.1\n", tls_server_name="192.0.2.1")
    ),
    "tls-server-name, another": _refused(lambda m: _signed(m, SERVER + LOOPBACK, tls_server_name="kubernetes")),
    "wildcard": _accepted(
        lambda m: _signed(m, SERVER + "subjectAltName = DNS:*.example.com\n", tls_server_name="api.example.com")
    ),
    "wildcard for two labels": _refused(
        lambda m: _signed(m, SERVER + "subjectAltName = DNS:*.example.com\n", tls_server_name="a.b.example.com")
    ),
    "partial wildcard": _refused(
        lambda m: _signed(m, SERVER + "subjectAltName = DNS:a*.example.com\n", tls_server_name="api.example.com")
    ),
    # Extensions and keys.
    "authority without basicConstraints": _refused(lambda m: _from(m, IDENTIFIERS)),
    "authority with keyUsage only": _refused(
        lambda m: _from(m, "keyUsage = keyCertSign\n" + IDENTIFIERS),
        "OpenSSL takes the key usage for the missing basicConstraints",
    ),
    "authority that may not sign": _refused(
        lambda m: _from(m, "basicConstraints = CA:true\nkeyUsage = cRLSign\n" + IDENTIFIERS)
    ),
    "basicConstraints not critical": _accepted(lambda m: _from(m, "basicConstraints = CA:true\n" + IDENTIFIERS)),
    "path too long": _refused(_path_too_long),
    "server's certificate without extensions": _accepted(lambda m: _signed(m, LOOPBACK)),
    "for clients only": _refused(lambda m: _signed(m, "extendedKeyUsage = clientAuth\n" + LOOPBACK)),
    "for any purpose": _accepted(
        lambda m: _signed(m, "extendedKeyUsage = anyExtendedKeyUsage\n" + LOOPBACK),
        "OpenSSL wants serverAuth by name",
    ),
    "expired": _refused(
        lambda m: server(m.issue("/CN=x", SERVER + LOOPBACK + IDENTIFIERS, r := m.root(), days=-1), r.pem)
    ),
    "SHA-1": _refused(lambda m: _weak(m, digest="sha1")),
    "SHA-1 in the root": _accepted(lambda m: server(m.leaf(r := m.issue("/CN=r", CA, digest="sha1")), r.pem)),
    "SHA-512": _accepted(lambda m: _weak(m, digest="sha512")),
    "RSA, 1024 bits": _accepted(lambda m: _weak(m, key=_RSA_1024)),
    "RSA, 1024 bits, authority": _accepted(
        lambda m: server(m.leaf(r := m.issue("/CN=r", CA + IDENTIFIERS, key=_RSA_1024)), r.pem)
    ),
    "RSA, 768 bits": _refused(lambda m: _weak(m, key=("genrsa", "768"))),
    "Ed25519": _accepted(lambda m: _weak(m, key=("genpkey", "-algorithm", "ed25519"))),
    "P-521": _accepted(lambda m: _weak(m, key=("ecparam", "-name", "secp521r1", "-genkey", "-noout"))),
    # The text.
    "comments": _accepted(lambda m: _authority(m, lambda pem: f"# caf\xe9\nsubject=/CN=x\n{pem}# end")),
    "CRLF": _accepted(lambda m: _authority(m, lambda pem: pem.replace("\n", "\r\n"))),
    "spaces at the ends of lines": _accepted(lambda m: _authority(m, lambda pem: pem.replace("\n", " \t\n"))),
    "spaces before lines": _refused(lambda m: _authority(m, lambda pem: pem.replace("\n", "\n  ").rstrip(" "))),
    "spaces before the first line": _refused(lambda m: _authority(m, lambda pem: f"  {pem}")),
    "byte order mark": _refused(
        lambda m: _authority(m, lambda pem: f"\xef\xbb\xbf{pem}"), "capacityd leaves out what is not ASCII"
    ),
    "byte order mark, then a comment": _accepted(lambda m: _authority(m, lambda pem: f"\xef\xbb\xbf# x\n{pem}")),
    "no newline at the end": _accepted(lambda m: _authority(m, lambda pem: pem.rstrip("\n"))),
    "text behind the end": _refused(lambda m: _authority(m, lambda pem: pem.rstrip("\n") + "x\n")),
    "one line": _accepted(lambda m: _authority(m, _one_line)),
    "empty lines": _accepted(lambda m: _authority(m, lambda pem: pem.replace("\n", "\n\n")), _DAMAGED),
    "TRUSTED CERTIFICATE": _refused(lambda m: _typed(m, "TRUSTED CERTIFICATE")),
    "X509 CERTIFICATE": _refused(lambda m: _typed(m, "X509 CERTIFICATE"), _LABEL),
    "trusted and usual": _accepted(lambda m: _typed(m, "TRUSTED CERTIFICATE", "{}")),
    "headers in a block": _refused(
        lambda m: _authority(m, lambda pem: pem.replace("ATE-----\n", "ATE-----\nName: x\n\n", 1))
    ),
    "damaged beside usual": _accepted(
        lambda m: _authority(m, lambda pem: f"{_damaged('MIIB')}{pem}{_damaged('!')}"), _DAMAGED
    ),
    "unfinished beside usual": _accepted(
        lambda m: _authority(m, lambda pem: pem[: len(pem) // 2] + "\n" + pem), _DAMAGED
    ),
    "usual, then unfinished": _accepted(lambda m: _authority(m, lambda pem: pem + pem[: len(pem) // 2]), _DAMAGED),
    "truncated": _refused(lambda m: _authority(m, lambda pem: pem[: len(pem) // 2])),
    "key instead of a certificate": _refused(lambda m: server(m.leaf(root := m.root()), root.key.read_text())),
    "key beside the certificate": _accepted(
        lambda m: server(m.leaf(root := m.root()), root.key.read_text() + root.pem)
    ),
    "the same twice": _accepted(lambda m: _authority(m, lambda pem: pem + pem)),
    "empty": _refused(lambda m: _authority(m, lambda _: "")),
    "only a newline": _refused(lambda m: _authority(m, lambda _: "\n")),
}


def _one_line(pem: str) -> str:
    """The certificate with its base64 in one line."""
    first, *lines, last = pem.strip().split("\n")
    return f"{first}\n{''.join(lines)}\n{last}\n"


def _damaged(content: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n"


@contextmanager
def serve(case: Case, folder: Path, script: Script) -> Iterator[tuple[TlsServer, Path]]:
    """Runs the case's server. Returns the server and the path of a kubeconfig with a token."""
    made = case.make(Maker(folder))
    chain, authority, path = folder / "chain.pem", folder / "authority.pem", folder / "kubeconfig"
    chain.write_text("".join(issued.pem for issued in made.certificates))
    authority.write_text(made.authority, encoding="latin-1", newline="")
    with serve_tls(answers(script, (chain, made.key))) as running:
        config = json.loads(kubeconfig(running.url, authority, {"token": "secret"}))
        config["clusters"][0]["cluster"] |= made.cluster
        path.write_text(json.dumps(config))
        yield running, path
