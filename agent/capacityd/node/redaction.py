"""Removes credentials from the text of servers, libraries and files before messages quote it."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase
from urllib.parse import unquote

from capacityd.model.text import printable
from capacityd.node.proxy import basic_credentials, user_information

REDACTED = "(redacted)"
_MAX_QUOTED = 300
"""Maximum length of quoted foreign text, in characters."""
_MAX_SEARCHED = 4096
"""Maximum length of foreign text to read at all, in characters."""
_MIN_VALUE = 4
"""Minimum length of secrets to replace. Replacing a shorter one would make any text unreadable."""
_PART = 12
"""A word and a secret that share this many characters count as the same: a server may quote half a token."""
_MIN_ENCODED = 9
"""Minimum length of secrets that are also searched for in parts, encoded, and divided by blanks."""
_HIDDEN = "\0"
"""Replaces each character of a secret, until the words that contain one are replaced."""
_WORD = re.compile(rf"[\w+/=.~%-]*{_HIDDEN}[\w+/=.~%{_HIDDEN}-]*", re.ASCII)
"""A word that contains a part of a secret."""
# Base64 has two alphabets, and hexadecimal numbers have two cases.
_FOLDED = str.maketrans("-_" + ascii_uppercase, "+/" + ascii_lowercase)
_UNKNOWN = re.compile(
    r"""
    (?i: \b(bearer|basic)\s+ (?=\S*[0-9]|\S{20}) [^\s"',;]{6,} )   # an Authorization header
    | (?i: \b(password|secret|token)= [^\s"',;&]+ )
    | ([a-z][a-z0-9+.-]*://) [^\s/@]+ @                            # the user information of a URL
    | -----BEGIN\ [A-Z ]+-----.*?(?: -----END\ [A-Z ]+----- | $ )  # PEM
    | \beyJ[\w-]{8,} (?: \.[\w-]* )*                               # a JSON Web Token
    """,
    re.VERBOSE | re.DOTALL,
)
"""Text that looks like a secret. Its groups match the text before the secret."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """The credentials in use."""

    values: tuple[str, ...] = ()

    def quote(self, text: str) -> str:
        """Makes foreign text safe for a message: without secrets, printable, and of limited length."""
        # The text is cut last, because half a secret is harder to find.
        clean = printable(self._removed_from(text.strip()[:_MAX_SEARCHED]))
        return clean if len(clean) <= _MAX_QUOTED else clean[:_MAX_QUOTED] + "…"

    def _removed_from(self, text: str) -> str:
        """Returns the text with placeholders for these secrets, their parts, and text that looks like a secret."""
        for value in sorted(self.values, key=len, reverse=True):
            text = text.replace(value, REDACTED)
        text = _UNKNOWN.sub(lambda match: _before(match) + REDACTED, text)
        return _WORD.sub(REDACTED, self._with_hidden_parts(text))

    def _with_hidden_parts(self, text: str) -> str:
        """Returns the text with _HIDDEN for each character of a secret's parts, in all forms, divided by blanks or
        not."""
        forms = {form for value in self.values if len(value) >= _MIN_ENCODED for form in _forms(value)}
        parts = {form[i : i + _PART] for form in forms for i in range(max(1, len(form) - _PART + 1))}
        places = [place for place, character in enumerate(text) if not character.isspace()]
        dense = _dense(text)
        characters = list(text)
        for size in {len(part) for part in parts}:
            for start in range(len(dense) - size + 1):
                if dense[start : start + size] in parts:
                    first, last = places[start], places[start + size - 1]
                    characters[first : last + 1] = _HIDDEN * (last + 1 - first)
        return "".join(characters)


NO_SECRETS = Secrets()
"""For text quoted before the credentials are known."""


def secrets_of(token: str | None, pem: Iterable[str | None], proxy: str | None) -> Secrets:
    """Returns all forms in which these credentials may be quoted. pem: certificates and keys. proxy: its URL."""
    values = {token or "", basic_credentials(proxy)}
    for text in filter(None, pem):
        one_line = "".join(line for line in text.split("\n") if "-----" not in line)
        values |= {text.strip(), one_line.replace("\r", ""), _base64(text)}
    for quoted in (user_information(proxy), unquote(user_information(proxy))):
        values |= {quoted, quoted.partition(":")[2], _base64(quoted)}
    return Secrets(tuple(value for value in values if len(value) >= _MIN_VALUE))


def _forms(secret: str) -> Iterator[str]:
    """Yields the forms of a secret that may appear in _dense() text: plain, hexadecimal, and base64.

    Base64 depends on the number of bytes before the secret, modulo 3. Characters that also encode bits of other bytes
    are left out.
    """
    content = secret.encode("utf-8", "surrogatepass")
    yield from filter(lambda form: len(form) >= _MIN_ENCODED, (_dense(secret), content.hex()))
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + content).decode()
        yield _dense(encoded[(4 * before + 2) // 3 : 4 * (before + len(content)) // 3])


def _dense(text: str) -> str:
    """Returns the text without blanks, in the form for comparing texts with secrets."""
    return "".join(text.split()).translate(_FOLDED)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()


def _before(match: re.Match[str]) -> str:
    kind, key, scheme = match.groups()
    if kind:
        return f"{kind} "
    return f"{key}=" if key else scheme or ""
