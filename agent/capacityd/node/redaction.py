"""Removes credentials from the text of servers, libraries and files before messages quote it."""

from __future__ import annotations

import base64
import math
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
_MIN_SECRET = 4
"""Minimum length of secrets to replace. Replacing a shorter one would make any text unreadable."""
_MIN_LONG_SECRET = 9
"""Minimum length of secrets that are also searched for in parts, encoded, and with blanks in between. A shorter one
would be found in ordinary text."""
_PART_LENGTH = 12
"""A word that shares this many characters with a long secret counts as the secret: a server may quote half a token."""
_HIDDEN = "\0"
"""Stands for each character of a found part, until the whole word around it is redacted."""
_WORD = re.compile(rf"[\w+/=.~%-]*{_HIDDEN}[\w+/=.~%{_HIDDEN}-]*", re.ASCII)
"""A word that contains a part of a secret."""
# Folds the two alphabets of base64, and the two cases of hexadecimal numbers, into one.
_FOLDED = str.maketrans("-_" + ascii_uppercase, "+/" + ascii_lowercase)
_LOOKS_LIKE_A_SECRET = re.compile(
    r"""
    # An Authorization header. The next word of a sentence has no digit and fewer than 20 characters.
    (?i: \b(bearer|basic)\s+ (?=\S*[0-9]|\S{20}) [^\s"',;]{6,} )
    | (?i: \b(password|secret|token)= [^\s"',;&]+ )
    | ([a-z][a-z0-9+.-]*://) [^\s/@]+ @                            # the user information of a URL
    | -----BEGIN\ [A-Z ]+-----.*?(?: -----END\ [A-Z ]+----- | $ )  # PEM
    | \beyJ[\w-]{8,} (?: \.[\w-]* )*                               # a JSON Web Token
    """,
    re.VERBOSE | re.DOTALL,
)
"""Text that looks like somebody's secret. The groups match the text before the secret; that text stays."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """The credentials in use."""

    values: tuple[str, ...] = ()

    def redact(self, text: str) -> str:
        """Makes foreign text safe for a message: without secrets, printable, and of limited length."""
        # Cut to _MAX_QUOTED only at the end, because half a secret is harder to find.
        return truncated(printable(self._without_secrets(text.strip()[:_MAX_SEARCHED])))

    def _without_secrets(self, text: str) -> str:
        """Returns the text with placeholders for these secrets, their parts, and text that looks like a secret."""
        for value in sorted(self.values, key=len, reverse=True):  # a secret may contain another one
            text = text.replace(value, REDACTED)
        text = _LOOKS_LIKE_A_SECRET.sub(lambda match: _text_before(match) + REDACTED, text)
        return _WORD.sub(REDACTED, self._with_hidden_parts(text))

    def _with_hidden_parts(self, text: str) -> str:
        """Returns the text with _HIDDEN for each character of the long secrets' parts, and for the blanks in a part."""
        parts: set[str] = set()
        for value in self.values:
            if len(value) >= _MIN_LONG_SECRET:
                parts.update(_parts(value))
        dense = _dense(text)
        places = [place for place, character in enumerate(text) if not character.isspace()]  # index in dense -> in text
        characters = list(text)
        for size in {len(part) for part in parts}:
            for start in range(len(dense) - size + 1):
                if dense[start : start + size] in parts:
                    first = places[start]
                    last = places[start + size - 1]
                    characters[first : last + 1] = [_HIDDEN] * (last + 1 - first)
        return "".join(characters)


NO_SECRETS = Secrets()
"""For text quoted without credentials, or before they are known. Text that looks like a secret is redacted anyway."""


def truncated(text: str) -> str:
    """Returns the text, cut at the maximum length of quoted text."""
    return text if len(text) <= _MAX_QUOTED else text[:_MAX_QUOTED] + "…"


def secrets_of(token: str | None, pem: Iterable[str | None], proxy: str | None) -> Secrets:
    """Returns all forms in which these credentials may be quoted. pem: certificates and keys. proxy: its URL."""
    values = {token or "", basic_credentials(proxy)}
    for text in filter(None, pem):
        # The base64 in the block, without its first and last line.
        content = "".join(line for line in text.split("\n") if "-----" not in line)
        values |= {text.strip(), content.replace("\r", ""), _base64(text)}
    as_in_url = user_information(proxy)
    for user_and_password in (as_in_url, unquote(as_in_url)):
        _, _, password = user_and_password.partition(":")
        values |= {user_and_password, password, _base64(user_and_password)}
    return Secrets(tuple(value for value in values if len(value) >= _MIN_SECRET))


def _parts(secret: str) -> Iterator[str]:
    """Yields all parts of _PART_LENGTH characters of each form of a secret. A shorter form is one part."""
    for form in _forms(secret):
        for start in range(max(1, len(form) - _PART_LENGTH + 1)):
            yield form[start : start + _PART_LENGTH]


def _forms(secret: str) -> Iterator[str]:
    """Yields the forms of a secret that may appear in _dense() text: plain, hexadecimal, and base64.

    A character of base64 encodes 6 bits. So the characters depend on the number of bytes before the secret, modulo 3.
    Those that also encode bits of other bytes are left out.
    """
    plain = _dense(secret)
    if len(plain) >= _MIN_LONG_SECRET:  # without blanks, it may be shorter than the secret
        yield plain
    content = secret.encode("utf-8", "surrogatepass")
    yield content.hex()
    for bytes_before in range(3):
        encoded = base64.b64encode(bytes(bytes_before) + content).decode()
        # The characters that encode only bits of the secret.
        first = math.ceil(8 * bytes_before / 6)
        end = 8 * (bytes_before + len(content)) // 6
        yield _dense(encoded[first:end])


def _dense(text: str) -> str:
    """Returns the text in the form in which texts and secrets are compared: without blanks, and folded."""
    return "".join(text.split()).translate(_FOLDED)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()


def _text_before(match: re.Match[str]) -> str:
    """The text before a secret, so that the message still says what was there; "" for PEM and JSON Web Tokens."""
    authorization, key, scheme = match.groups()
    if authorization:
        return f"{authorization} "
    if key:
        return f"{key}="
    return scheme or ""
