"""Parses and compares Kubernetes quantities by value, and checks the names of extended resources.

The API server stores "1000" as "1k", so comparing text would be wrong. It does not validate resource names, so
capacityd does. Rules: apimachinery's resource.Quantity, and IsExtendedResourceName of pkg/apis/core/v1/helper.
"""

from __future__ import annotations

import re

from capacityd.model.quoting import length_text

LARGEST_QUANTITY = 2**63 - 1
"""The largest quantity that the scheduler and the kubelet can count (int64). The API server accepts larger numbers."""
_QUANTITY = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,4})|([numkMGTPE]|[KMGTPE]i|))")
"""Sign, digits, digits after the point, and an exponent or a suffix, for example -1.5e3 or 0.5Gi."""
_MAX_DIGITS = 30  # including leading zeros; int() is slow for much longer texts
_BINARY_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_POWERS_OF_TEN = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_AFTER_SLASH = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def parse_quantity(text: str) -> tuple[int, int]:
    """The exact numerator and denominator of a quantity. Raises ValueError if the text is not a quantity."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}" is not a quantity')
    sign, whole, fraction, exponent, suffix = match.groups(default="")
    if not whole and not fraction:
        raise ValueError(f'"{text}" is not a quantity')
    number = int(whole + fraction)
    if sign == "-":
        number = -number
    power_of_ten = -len(fraction)
    if suffix.endswith("i"):
        number *= _BINARY_UNITS[suffix]
    elif exponent:
        power_of_ten += int(exponent)
    else:
        power_of_ten += _POWERS_OF_TEN[suffix]
    if power_of_ten >= 0:
        return number * 10**power_of_ten, 1
    return number, 10 ** (-power_of_ten)


def whole_quantity(text: str) -> int | None:
    """The value of a stored quantity in any notation (1k, 1e3, 1000), if it is a whole number; otherwise None."""
    try:
        numerator, denominator = parse_quantity(text)
    except ValueError:
        return None
    number, remainder = divmod(numerator, denominator)
    return number if remainder == 0 else None


def number_in(text: str) -> int | None:
    """The number in a text of at most 20 decimal digits, enough for 64 bits; None for any other text."""
    is_number = text.isascii() and text.isdigit() and len(text) <= 20
    return int(text) if is_number else None


def in_plain_digits(text: str) -> str:
    """A stored quantity in plain digits: "10k" becomes "10000".

    Any other text is returned unchanged. So is a number of more than 64 bits, which may have thousands of digits.
    """
    number = whole_quantity(text)
    if number is None or number.bit_length() > 64:
        return text
    return str(number)


def parse_whole_number(text: str) -> int:
    """A whole number from 0 to LARGEST_QUANTITY in plain digits.

    Raises ValueError with a message that does not contain the text.
    """
    if not text:
        raise ValueError("empty; a whole number was expected")
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"not a whole number from 0 up ({length_text(text)})")
    if len(text) > _MAX_DIGITS or int(text) > LARGEST_QUANTITY:
        raise ValueError(f"more than Kubernetes can count, which is {LARGEST_QUANTITY} ({length_text(text)})")
    return int(text)


def is_countable(number: int) -> bool:
    """Whether Kubernetes can store and count a quantity. A negative number counts as 0."""
    return number <= LARGEST_QUANTITY and is_storable(max(0, number))


def is_storable(number: int) -> bool:
    """Whether the API server accepts a whole number from 0 to LARGEST_QUANTITY as a quantity.

    The API server checks that the number's thousandths are a multiple of 1000 (ValidateResourceQuantityValue). Above
    LARGEST_QUANTITY / 1000, the thousandths overflow 64 bits. So the API server rejects nearly every such number, and
    the whole patch with it.
    """
    thousandths = (number * 1000) % 2**64  # in 64 bits, as the API server computes them
    if thousandths >= 2**63:  # a negative int64
        thousandths -= 2**64
    return thousandths % 1000 == 0


def name_problem(name: str) -> str:
    """Why a name is not valid for an extended resource, as the end of a sentence; "" if the name is valid."""
    domain, slash, rest = name.partition("/")
    if not slash:
        return 'needs a domain of yours and a slash, as in "example.com/dongle"'
    if "/" in rest:
        return "may contain only one slash"
    if "kubernetes.io/" in name:
        return "is in a domain that is reserved for Kubernetes; use one of yours"
    if domain.startswith("requests."):
        return 'may not begin with "requests."'
    # Kubernetes checks the name of its quota, requests.NAME, whose domain may have 253 characters.
    if len(domain) > 244:
        return f"has a domain of {len(domain)} characters; the limit is 244"
    if not all(_DNS_LABEL.fullmatch(label) for label in domain.split(".")):
        lower = ", in lower case" if domain != domain.lower() else ""
        return f'has the domain "{domain}"; it must be a DNS name of letters a-z, digits and "-"{lower}'
    if not rest or len(rest) > 63:
        return f"has {len(rest)} characters after the slash; 1 to 63 are allowed"
    if not _AFTER_SLASH.fullmatch(rest):
        return f'has "{rest}" after the slash; only letters, digits, and between them "-", "_" and "." are allowed'
    return ""
