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


_SELF_SIGNED = "OpenSSL takes no authority that may only sign as a server; openssl makes one that may do both"
_DAMAGED = "OpenSSL refuses a text with a damaged block; no tool writes one"
_LABEL = "OpenSSL takes the block's other labels"
# In the functions, r is a root, i an intermediate authority, a an old authority, and b the new one.
CASES: Mapping[str, Case] = {
    "usual": Case(lambda m: _authority(m, lambda pem: pem), True),
    "another authority": Case(lambda m: server(m.leaf(m.root()), m.root().pem), False),
    # What the bundle contains.
    "intermediate as authority": Case(lambda m: _three(m, lambda _, i, leaf: ([leaf, i], i.pem)), True),
    "intermediate as authority, not sent": Case(lambda m: _three(m, lambda _, i, leaf: ([leaf], i.pem)), True),
    "own certificate as authority": Case(lambda m: _three(m, lambda _r, i, leaf: ([leaf, i], leaf.pem)), True),
    "own certificate and root": Case(lambda m: _three(m, lambda r, i, leaf: ([leaf, i], leaf.pem + r.pem)), True),
    "own self-signed certificate": Case(lambda m: _self_signed(m, SERVER + LOOPBACK), True),
    "own self-signed authority": Case(lambda m: _self_signed(m, CA + LOOPBACK), True, _SELF_SIGNED),
    "own self-signed authority, as openssl makes it": Case(
        lambda m: _self_signed(m, "basicConstraints = critical,CA:true\n" + LOOPBACK + IDENTIFIERS), True
    ),
    "own expired certificate": Case(lambda m: _self_signed(m, SERVER + LOOPBACK, days=-1), False),
    "root and sent intermediate": Case(lambda m: _three(m, lambda r, i, leaf: ([leaf, i], r.pem)), True),
    "intermediate missing": Case(lambda m: _three(m, lambda r, _, leaf: ([leaf], r.pem)), False),
    "other server's certificate as authority": Case(
        lambda m: _three(m, lambda r, i, leaf: ([m.leaf(leaf), leaf, i], leaf.pem)), False
    ),
    "renewed intermediate": Case(_expired_intermediate, True),
    # Rotations.
    "old, new; without identifiers": Case(
        lambda m: _authorities(m, lambda a, b: (a, b), NO_IDENTIFIERS, IDENTIFIERS), True
    ),
    "new, old; without identifiers": Case(
        lambda m: _authorities(m, lambda a, b: (b, a), NO_IDENTIFIERS, IDENTIFIERS), True
    ),
    "both without identifiers": Case(
        lambda m: _authorities(m, lambda a, b: (a, b), NO_IDENTIFIERS, NO_IDENTIFIERS), True
    ),
    "both with identifiers": Case(lambda m: _authorities(m, lambda a, b: (a, b), IDENTIFIERS, IDENTIFIERS), True),
    "only old": Case(lambda m: _authorities(m, lambda a, _: (a,), NO_IDENTIFIERS, IDENTIFIERS), False),
    "many of one name": Case(
        lambda m: _authorities(
            m, lambda a, b: (a, *(m.root("/CN=kubernetes", CA + NO_IDENTIFIERS) for _ in range(5)), b), "", IDENTIFIERS
        ),
        True,
    ),
    "expired authority beside a valid one": Case(
        lambda m: _authority(m, lambda pem: m.root("/CN=old", days=-1).pem + pem), True
    ),
    "expired authority of the same name": Case(
        lambda m: _authority(m, lambda pem: m.root("/CN=root", days=-1).pem + pem), True
    ),
    "expired authority": Case(lambda m: server(m.leaf(root := m.root(days=-1)), root.pem), False),
    # Names.
    "only a common name": Case(lambda m: server(m.leaf(root := m.root(), SERVER, "/CN=127.0.0.1"), root.pem), False),
    "only a common name, asked for": Case(
        lambda m: server(m.leaf(root := m.root(), SERVER, "/CN=api"), root.pem, tls_server_name="api"), False
    ),
    "only a DNS name": Case(lambda m: _signed(m, SERVER + "subjectAltName = DNS:localhost\n"), False),
    "an address as DNS name": Case(lambda m: _signed(m, SERVER + "subjectAltName = DNS:127.0.0.1\n"), False),
    "another address": Case(lambda m: _signed(m, SERVER + "subjectAltName = IP:192.0.2.1\n"), False),
    "tls-server-name": Case(
        lambda m: _signed(m, SERVER + "subjectAltName = DNS:kubernetes\n", tls_server_name="kubernetes"), True
    ),
    "tls-server-name in capitals": Case(
        lambda m: _signed(m, SERVER + "subjectAltName = DNS:kubernetes\n", tls_server_name="Kubernetes"), True
    ),
    "tls-server-name, an address": Case(
        lambda m: _signed(m, SERVER + "subjectAltName = IP:192.0.2.1\n", tls_server_name="192.0.2.1"), True
    ),
    "tls-server-name, another": Case(lambda m: _signed(m, SERVER + LOOPBACK, tls_server_name="kubernetes"), False),
    "wildcard": Case(
        lambda m: _signed(m, SERVER + "subjectAltName = DNS:*.example.com\n", tls_server_name="api.example.com"), True
    ),
    "wildcard for two labels": Case(
        lambda m: _signed(m, SERVER + "subjectAltName = DNS:*.example.com\n", tls_server_name="a.b.example.com"), False
    ),
    "partial wildcard": Case(
        lambda m: _signed(m, SERVER + "subjectAltName = DNS:a*.example.com\n", tls_server_name="api.example.com"), False
    ),
    # Extensions and keys.
    "authority without basicConstraints": Case(lambda m: _from(m, IDENTIFIERS), False),
    "authority with keyUsage only": Case(
        lambda m: _from(m, "keyUsage = keyCertSign\n" + IDENTIFIERS),
        False,
        "OpenSSL takes the key usage for the missing basicConstraints",
    ),
    "authority that may not sign": Case(
        lambda m: _from(m, "basicConstraints = CA:true\nkeyUsage = cRLSign\n" + IDENTIFIERS), False
    ),
    "basicConstraints not critical": Case(lambda m: _from(m, "basicConstraints = CA:true\n" + IDENTIFIERS), True),
    "path too long": Case(_path_too_long, False),
    "server's certificate without extensions": Case(lambda m: _signed(m, LOOPBACK), True),
    "for clients only": Case(lambda m: _signed(m, "extendedKeyUsage = clientAuth\n" + LOOPBACK), False),
    "for any purpose": Case(
        lambda m: _signed(m, "extendedKeyUsage = anyExtendedKeyUsage\n" + LOOPBACK),
        True,
        "OpenSSL wants serverAuth by name",
    ),
    "expired": Case(
        lambda m: server(m.issue("/CN=x", SERVER + LOOPBACK + IDENTIFIERS, r := m.root(), days=-1), r.pem), False
    ),
    "SHA-1": Case(lambda m: _weak(m, digest="sha1"), False),
    "SHA-1 in the root": Case(lambda m: server(m.leaf(r := m.issue("/CN=r", CA, digest="sha1")), r.pem), True),
    "SHA-512": Case(lambda m: _weak(m, digest="sha512"), True),
    "RSA, 1024 bits": Case(lambda m: _weak(m, key=_RSA_1024), True),
    "RSA, 1024 bits, authority": Case(
        lambda m: server(m.leaf(r := m.issue("/CN=r", CA + IDENTIFIERS, key=_RSA_1024)), r.pem), True
    ),
    "RSA, 768 bits": Case(lambda m: _weak(m, key=("genrsa", "768")), False),
    "Ed25519": Case(lambda m: _weak(m, key=("genpkey", "-algorithm", "ed25519")), True),
    "P-521": Case(lambda m: _weak(m, key=("ecparam", "-name", "secp521r1", "-genkey", "-noout")), True),
    # The text.
    "comments": Case(lambda m: _authority(m, lambda pem: f"# caf\xe9\nsubject=/CN=x\n{pem}# end"), True),
    "CRLF": Case(lambda m: _authority(m, lambda pem: pem.replace("\n", "\r\n")), True),
    "spaces at the ends of lines": Case(lambda m: _authority(m, lambda pem: pem.replace("\n", " \t\n")), True),
    "spaces before lines": Case(lambda m: _authority(m, lambda pem: pem.replace("\n", "\n  ").rstrip(" ")), False),
    "spaces before the first line": Case(lambda m: _authority(m, lambda pem: f"  {pem}"), False),
    "byte order mark": Case(
        lambda m: _authority(m, lambda pem: f"\xef\xbb\xbf{pem}"), False, "capacityd leaves out what is not ASCII"
    ),
    "byte order mark, then a comment": Case(lambda m: _authority(m, lambda pem: f"\xef\xbb\xbf# x\n{pem}"), True),
    "no newline at the end": Case(lambda m: _authority(m, lambda pem: pem.rstrip("\n")), True),
    "text behind the end": Case(lambda m: _authority(m, lambda pem: pem.rstrip("\n") + "x\n"), False),
    "one line": Case(lambda m: _authority(m, _one_line), True),
    "empty lines": Case(lambda m: _authority(m, lambda pem: pem.replace("\n", "\n\n")), True, _DAMAGED),
    "TRUSTED CERTIFICATE": Case(lambda m: _typed(m, "TRUSTED CERTIFICATE"), False),
    "X509 CERTIFICATE": Case(lambda m: _typed(m, "X509 CERTIFICATE"), False, _LABEL),
    "trusted and usual": Case(lambda m: _typed(m, "TRUSTED CERTIFICATE", "{}"), True),
    "headers in a block": Case(
        lambda m: _authority(m, lambda pem: pem.replace("ATE-----\n", "ATE-----\nName: x\n\n", 1)), False
    ),
    "damaged beside usual": Case(
        lambda m: _authority(m, lambda pem: f"{_damaged('MIIB')}{pem}{_damaged('!')}"), True, _DAMAGED
    ),
    "unfinished beside usual": Case(
        lambda m: _authority(m, lambda pem: pem[: len(pem) // 2] + "\n" + pem), True, _DAMAGED
    ),
    "usual, then unfinished": Case(lambda m: _authority(m, lambda pem: pem + pem[: len(pem) // 2]), True, _DAMAGED),
    "truncated": Case(lambda m: _authority(m, lambda pem: pem[: len(pem) // 2]), False),
    "key instead of a certificate": Case(lambda m: server(m.leaf(root := m.root()), root.key.read_text()), False),
    "key beside the certificate": Case(
        lambda m: server(m.leaf(root := m.root()), root.key.read_text() + root.pem), True
    ),
    "the same twice": Case(lambda m: _authority(m, lambda pem: pem + pem), True),
    "empty": Case(lambda m: _authority(m, lambda _: ""), False),
    "only a newline": Case(lambda m: _authority(m, lambda _: "\n"), False),
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
