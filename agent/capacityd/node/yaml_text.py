"""Reads the YAML or JSON of a kubeconfig as kubectl does: the first document, and as text what is text for kubectl.

kubectl uses sigs.k8s.io/yaml, whose plain scalars are those of go-yaml 2 (resolve.go). PyYAML would also read dates and
numbers to the base 60, such as 10:20:30, and its parser in Python accepts fewer tabs than libyaml.
"""

from __future__ import annotations

import re
from typing import ClassVar

import yaml

# libyaml's loader, unless PyYAML was built without libyaml.
_Base: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_MAX_DEPTH = 100
_TAG = "tag:yaml.org,2002:"
_SCALARS = {  # type -> the plain scalars of this type
    "null": r"~|null|Null|NULL|",  # the last alternative is empty text
    "bool": r"y|Y|yes|Yes|YES|true|True|TRUE|on|On|ON|n|N|no|No|NO|false|False|FALSE|off|Off|OFF",
    "int": r"[-+]?(?:0[0-7_]*|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0o[0-7_]+|0b[01_]+)",
    "float": r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,3})?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    "merge": r"<<",
}


class InvalidYaml(Exception):
    """The text is not YAML. The message is the end of a sentence, without any part of the text, which may be secret.

    line: the number of the line, from 1; None if unknown. tab: whether the line's indentation contains a tab.
    """

    def __init__(self, line: int | None, *, tab: bool) -> None:
        place = f", line {line}" if line else ""
        hint = ": the line has a tab in its indentation" if tab else ""
        super().__init__(f"is not valid YAML{place}{hint}")


class _Loader(_Base):  # type: ignore[misc]
    """Creates text for all plain scalars but those in _SCALARS."""

    yaml_implicit_resolvers: ClassVar[dict[str, object]] = {}
    # The booleans by their text in lower case. PyYAML lacks y and n.
    bool_values: ClassVar[dict[str, bool]] = {**yaml.SafeLoader.bool_values, "y": True, "n": False}


for _name, _pattern in _SCALARS.items():
    # first: the characters that a scalar may begin with; None: any.
    _Loader.add_implicit_resolver(f"{_TAG}{_name}", re.compile(f"(?:{_pattern})$"), first=None)


def parse_yaml(text: str) -> object:
    """Returns the content of the first document, None if there is none. Raises InvalidYaml."""
    try:
        _check_depth(text)
        loader = _Loader(text)
        try:
            return loader.get_data() if loader.check_data() else None
        finally:
            loader.dispose()
    except Exception as e:  # noqa: BLE001  # yaml raises more than it documents, e.g. KeyError for "!!bool x"
        mark = getattr(e, "problem_mark", None)
        if mark is None:
            raise InvalidYaml(line=None, tab=False) from None
        lines = text.splitlines()
        # The mark may be behind the last line.
        has_tab = mark.line < len(lines) and "\t" in _indentation(lines[mark.line])
        raise InvalidYaml(line=mark.line + 1, tab=has_tab) from None


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _check_depth(text: str) -> None:
    """Raises RecursionError if lists and mappings are nested so deeply that libyaml's loader might crash."""
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.DocumentEndEvent):  # only the first document is read
            return
        if depth > _MAX_DEPTH:
            raise RecursionError
