"""Certificates of servers and authorities, and whether client-go accepts a server with them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """Why OpenSSL decides differently from Go, and no setting of Python's ssl helps. "": both decide the same."""


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
        signed_by = ("-CA", signer.certificate, "-CAkey", signer.key) if signer else ("-signkey", issued.key)
        dates = ("-days", str(days), "-extfile", options, f"-{digest}", "-set_serial", str(self._issued))
        _openssl("x509", "-req", "-in", request, *signed_by, *dates, "-out", certificate)
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


def _leaf_with(m: Maker, extensions: str, **cluster: str) -> Server:
    """A server whose certificate has these extensions."""
    root = m.root()
    return server(m.leaf(root, extensions + IDENTIFIERS), root.pem, **cluster)


def _root_with(m: Maker, extensions: str, **options: Any) -> Server:
    """A server whose authority has these extensions. options: of Maker.issue()."""
    root = m.issue("/CN=root", extensions, **options)
    return server(m.leaf(root), root.pem)


def _authority_text(m: Maker, change: Callable[[str], str]) -> Server:
    """A server whose kubeconfig has a changed text of the authority."""
    root = m.root()
    return server(m.leaf(root), change(root.pem))


def _rotation(m: Maker, bundle: str, old: str, new: str) -> Server:
    """A server whose authority was replaced by one with the same name. old, new: extensions of the two authorities.

    bundle: the kubeconfig's authorities, such as "old new". Each "other" is one more with the same name.
    """
    extensions = {"old": old, "other": NO_IDENTIFIERS}
    signer = m.root("/CN=kubernetes", CA + new)
    roots = [signer if name == "new" else m.root("/CN=kubernetes", CA + extensions[name]) for name in bundle.split()]
    return server(m.leaf(signer, SERVER + LOOPBACK + new), "".join(root.pem for root in roots))


def _intermediates(m: Maker) -> tuple[Issued, Issued, Issued]:
    """A root, an intermediate authority, and the certificate of a server that the intermediate has signed."""
    root = m.root()
    intermediate = m.issue("/CN=intermediate", CA + IDENTIFIERS, root)
    return root, intermediate, m.leaf(intermediate)


def _chain(m: Maker, sent: str, bundle: str) -> Server:
    """A server with an intermediate authority. sent: the certificates that it presents. bundle: the kubeconfig's."""
    issued = dict(zip(("root", "intermediate", "leaf"), _intermediates(m), strict=True))
    return server([issued[name] for name in sent.split()], "".join(issued[name].pem for name in bundle.split()))


def _signed_by_server(m: Maker) -> Server:
    """A server whose certificate was signed with the certificate of another server, which is in the bundle."""
    _, intermediate, leaf = _intermediates(m)
    return server([m.leaf(leaf), leaf, intermediate], leaf.pem)


def _usual_leaf(m: Maker, **options: Any) -> Server:
    """A server whose certificate has the usual extensions. options: of Maker.issue()."""
    root = m.root()
    return server(m.issue("/CN=x", SERVER + LOOPBACK + IDENTIFIERS, root, **options), root.pem)


def _self_signed(m: Maker, extensions: str, days: int = 2) -> Server:
    leaf = m.issue("/CN=x", extensions, days=days)
    return server(leaf, leaf.pem)


def _expired_intermediate(m: Maker) -> Server:
    """The bundle has the root and an expired intermediate. The server presents a valid one with the same name."""
    root = m.root()
    new = m.issue("/CN=intermediate", CA + IDENTIFIERS, root)
    old = m.issue("/CN=intermediate", CA + IDENTIFIERS, root, days=-1)
    return server([m.leaf(new), new], old.pem + root.pem)


def _expired_first(m: Maker, subject: str) -> Server:
    """A server whose bundle has an expired authority with this subject before the valid one, which is /CN=root."""
    root, expired = m.root(), m.root(subject, days=-1)
    return server(m.leaf(root), expired.pem + root.pem)


def _path_too_long(m: Maker) -> Server:
    """A server with an intermediate authority, although its root allows none (pathlen:0)."""
    root = m.root(extensions="basicConstraints = CA:true,pathlen:0")
    intermediate = m.issue("/CN=intermediate", CA + IDENTIFIERS, root)
    return server([m.leaf(intermediate), intermediate], root.pem)


def _block_type(m: Maker, kind: str, and_usual: bool = False) -> Server:
    """A server whose authority is a PEM block of this type. and_usual: followed by one of the usual type."""
    return _authority_text(m, lambda pem: pem.replace(" CERTIFICATE", f" {kind}") + (pem if and_usual else ""))


def _one_line(pem: str) -> str:
    """The certificate with its base64 in one line."""
    first, *lines, last = pem.strip().split("\n")
    return f"{first}\n{''.join(lines)}\n{last}\n"


def _block(content: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n"


def _accepted(make: Callable[..., Server], *arguments: object, differs: str = "", **options: object) -> Case:
    """The case of a server that client-go accepts. arguments, options: of make(). differs: as in Case."""
    return Case(lambda m: make(m, *arguments, **options), accepted=True, differs=differs)


def _refused(make: Callable[..., Server], *arguments: object, differs: str = "", **options: object) -> Case:
    """The case of a server that client-go refuses. arguments, options: of make(). differs: as in Case."""
    return Case(lambda m: make(m, *arguments, **options), accepted=False, differs=differs)


_SELF_SIGNED = "OpenSSL takes no authority that may only sign as a server; openssl makes one that may do both"
_DAMAGED = "OpenSSL refuses a text with a damaged block, but no tool writes one"
_LABEL = "OpenSSL takes the block's other labels"
# Each case has a function that makes a server, and the arguments of the function. m: a Maker.
CASES: Mapping[str, Case] = {
    "usual": _accepted(_authority_text, lambda pem: pem),
    "another authority": _refused(lambda m: server(m.leaf(m.root()), m.root().pem)),
    # What the bundle (certificate-authority in the kubeconfig) contains.
    "intermediate as authority": _accepted(_chain, sent="leaf intermediate", bundle="intermediate"),
    "intermediate as authority, not sent": _accepted(_chain, sent="leaf", bundle="intermediate"),
    "own certificate as authority": _accepted(_chain, sent="leaf intermediate", bundle="leaf"),
    "own certificate and root": _accepted(_chain, sent="leaf intermediate", bundle="leaf root"),
    "own self-signed certificate": _accepted(_self_signed, SERVER + LOOPBACK),
    "own self-signed authority": _accepted(_self_signed, CA + LOOPBACK, differs=_SELF_SIGNED),
    "own self-signed authority, as openssl makes it": _accepted(
        _self_signed, "basicConstraints = critical,CA:true\n" + LOOPBACK + IDENTIFIERS
    ),
    "own expired certificate": _refused(_self_signed, SERVER + LOOPBACK, days=-1),
    "root and sent intermediate": _accepted(_chain, sent="leaf intermediate", bundle="root"),
    "intermediate missing": _refused(_chain, sent="leaf", bundle="root"),
    "other server's certificate as authority": _refused(_signed_by_server),
    "renewed intermediate": _accepted(_expired_intermediate),
    # Rotations. The identifiers are the extensions subjectKeyIdentifier and authorityKeyIdentifier.
    "old, new; without identifiers": _accepted(_rotation, "old new", old=NO_IDENTIFIERS, new=IDENTIFIERS),
    "new, old; without identifiers": _accepted(_rotation, "new old", old=NO_IDENTIFIERS, new=IDENTIFIERS),
    "both without identifiers": _accepted(_rotation, "old new", old=NO_IDENTIFIERS, new=NO_IDENTIFIERS),
    "both with identifiers": _accepted(_rotation, "old new", old=IDENTIFIERS, new=IDENTIFIERS),
    "only old": _refused(_rotation, "old", old=NO_IDENTIFIERS, new=IDENTIFIERS),
    "many of one name": _accepted(_rotation, "old other other other other other new", old="", new=IDENTIFIERS),
    "expired authority beside a valid one": _accepted(_expired_first, "/CN=old"),
    "expired authority of the same name": _accepted(_expired_first, "/CN=root"),
    "expired authority": _refused(_root_with, CA + IDENTIFIERS, days=-1),
    # Names in the server's certificate.
    "only a common name": _refused(lambda m: server(m.leaf(root := m.root(), SERVER, "/CN=127.0.0.1"), root.pem)),
    "only a common name, asked for": _refused(
        lambda m: server(m.leaf(root := m.root(), SERVER, "/CN=api"), root.pem, tls_server_name="api")
    ),
    "only a DNS name": _refused(_leaf_with, SERVER + "subjectAltName = DNS:localhost\n"),
    "an address as DNS name": _refused(_leaf_with, SERVER + "subjectAltName = DNS:127.0.0.1\n"),
    "another address": _refused(_leaf_with, SERVER + "subjectAltName = IP:192.0.2.1\n"),
    "tls-server-name": _accepted(
        _leaf_with, SERVER + "subjectAltName = DNS:kubernetes\n", tls_server_name="kubernetes"
    ),
    "tls-server-name in capitals": _accepted(
        _leaf_with, SERVER + "subjectAltName = DNS:kubernetes\n", tls_server_name="Kubernetes"
    ),
    "tls-server-name, an address": _accepted(
        _leaf_with, SERVER + "subjectAltName = IP:192.0.2.1\n", tls_server_name="192.0.2.1"
    ),
    "tls-server-name, another": _refused(_leaf_with, SERVER + LOOPBACK, tls_server_name="kubernetes"),
    "wildcard": _accepted(
        _leaf_with, SERVER + "subjectAltName = DNS:*.example.com\n", tls_server_name="api.example.com"
    ),
    "wildcard for two labels": _refused(
        _leaf_with, SERVER + "subjectAltName = DNS:*.example.com\n", tls_server_name="a.b.example.com"
    ),
    "partial wildcard": _refused(
        _leaf_with, SERVER + "subjectAltName = DNS:a*.example.com\n", tls_server_name="api.example.com"
    ),
    # Extensions and keys of the server's certificate (leaf) and of the authority (root).
    "authority without basicConstraints": _refused(_root_with, IDENTIFIERS),
    "authority with keyUsage only": _refused(
        _root_with,
        "keyUsage = keyCertSign\n" + IDENTIFIERS,
        differs="OpenSSL takes the key usage for the missing basicConstraints",
    ),
    "authority that may not sign": _refused(
        _root_with, "basicConstraints = CA:true\nkeyUsage = cRLSign\n" + IDENTIFIERS
    ),
    "basicConstraints not critical": _accepted(_root_with, "basicConstraints = CA:true\n" + IDENTIFIERS),
    "path too long": _refused(_path_too_long),
    "server's certificate without extensions": _accepted(_leaf_with, LOOPBACK),
    "for clients only": _refused(_leaf_with, "extendedKeyUsage = clientAuth\n" + LOOPBACK),
    "for any purpose": _accepted(
        _leaf_with, "extendedKeyUsage = anyExtendedKeyUsage\n" + LOOPBACK, differs="OpenSSL wants serverAuth by name"
    ),
    "expired": _refused(_usual_leaf, days=-1),
    "SHA-1": _refused(_usual_leaf, digest="sha1"),
    "SHA-1 in the root": _accepted(_root_with, CA, digest="sha1"),
    "SHA-512": _accepted(_usual_leaf, digest="sha512"),
    "RSA, 1024 bits": _accepted(_usual_leaf, key=_RSA_1024),
    "RSA, 1024 bits, authority": _accepted(_root_with, CA + IDENTIFIERS, key=_RSA_1024),
    "RSA, 768 bits": _refused(_usual_leaf, key=("genrsa", "768")),
    "Ed25519": _accepted(_usual_leaf, key=("genpkey", "-algorithm", "ed25519")),
    "P-521": _accepted(_usual_leaf, key=("ecparam", "-name", "secp521r1", "-genkey", "-noout")),
    # The text of the authority (pem), which is written in Latin-1: \xef\xbb\xbf is the byte order mark of UTF-8.
    "comments": _accepted(_authority_text, lambda pem: f"# caf\xe9\nsubject=/CN=x\n{pem}# end"),
    "CRLF": _accepted(_authority_text, lambda pem: pem.replace("\n", "\r\n")),
    "spaces at the ends of lines": _accepted(_authority_text, lambda pem: pem.replace("\n", " \t\n")),
    "spaces before lines": _refused(_authority_text, lambda pem: pem.replace("\n", "\n  ").rstrip(" ")),
    "spaces before the first line": _refused(_authority_text, lambda pem: f"  {pem}"),
    "byte order mark": _refused(
        _authority_text, lambda pem: f"\xef\xbb\xbf{pem}", differs="capacityd leaves out what is not ASCII"
    ),
    "byte order mark, then a comment": _accepted(_authority_text, lambda pem: f"\xef\xbb\xbf# x\n{pem}"),
    "no newline at the end": _accepted(_authority_text, lambda pem: pem.rstrip("\n")),
    "text behind the end": _refused(_authority_text, lambda pem: pem.rstrip("\n") + "x\n"),
    "one line": _accepted(_authority_text, _one_line),
    "empty lines": _accepted(_authority_text, lambda pem: pem.replace("\n", "\n\n"), differs=_DAMAGED),
    "TRUSTED CERTIFICATE": _refused(_block_type, "TRUSTED CERTIFICATE"),
    "X509 CERTIFICATE": _refused(_block_type, "X509 CERTIFICATE", differs=_LABEL),
    "trusted and usual": _accepted(_block_type, "TRUSTED CERTIFICATE", and_usual=True),
    "headers in a block": _refused(
        _authority_text, lambda pem: pem.replace("CERTIFICATE-----\n", "CERTIFICATE-----\nName: x\n\n", 1)
    ),
    "damaged beside usual": _accepted(
        _authority_text, lambda pem: f"{_block('MIIB')}{pem}{_block('!')}", differs=_DAMAGED
    ),
    "unfinished beside usual": _accepted(
        _authority_text, lambda pem: pem[: len(pem) // 2] + "\n" + pem, differs=_DAMAGED
    ),
    "usual, then unfinished": _accepted(_authority_text, lambda pem: pem + pem[: len(pem) // 2], differs=_DAMAGED),
    "truncated": _refused(_authority_text, lambda pem: pem[: len(pem) // 2]),
    "key instead of a certificate": _refused(lambda m: server(m.leaf(root := m.root()), root.key.read_text())),
    "key beside the certificate": _accepted(
        lambda m: server(m.leaf(root := m.root()), root.key.read_text() + root.pem)
    ),
    "the same twice": _accepted(_authority_text, lambda pem: pem + pem),
    "empty": _refused(_authority_text, lambda _: ""),
    "only a newline": _refused(_authority_text, lambda _: "\n"),
}


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
