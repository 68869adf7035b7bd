"""Parses a kubeconfig's YAML with limits of time and memory. Errors quote nothing from it."""

from __future__ import annotations

import yaml

_MAX_VALUES = 50_000
"""Limit of values. A kubeconfig of 1 MiB with certificates contains about a tenth of this."""
_MAX_NUMBER = 64
"""Limit of characters: parsing a number in base 60 takes time that grows with the square of its length."""
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class InvalidYaml(Exception):
    """The message is the end of a sentence about the file. It quotes nothing from the file, which contains secrets."""


def parse_yaml(text: str) -> object:
    """Returns the content. Raises InvalidYaml."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506  # it is a SafeLoader
    except InvalidYaml:
        raise
    except Exception as e:  # noqa: BLE001  # yaml raises more than it documents, e.g. KeyError for "!!bool x"
        mark = getattr(e, "problem_mark", None)
        # Not the library's message, because it quotes lines.
        raise InvalidYaml("is not valid YAML" if mark is None else f"is not valid YAML, line {mark.line + 1}") from None


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # the library has no types
    """Rejects YAML that takes far more time or memory than its length suggests.

    In particular aliases: a list with nine aliases of a list with nine aliases, and so on, exhausts any memory.
    """

    _values = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Returns the next value. Raises InvalidYaml."""
        self._values += 1
        line = self.peek_event().start_mark.line + 1
        if self.check_event(yaml.AliasEvent):
            raise InvalidYaml(f"has a YAML alias (*name), which capacityd does not support, line {line}")
        if self._values > _MAX_VALUES:
            raise InvalidYaml(f"has more than {_MAX_VALUES} values, line {line}")
        node: yaml.Node | None = super().compose_node(parent, index)
        if isinstance(node, yaml.ScalarNode) and node.tag in _NUMBERS and len(node.value) > _MAX_NUMBER:
            raise InvalidYaml(f"has a number that is too long, line {line}")
        return node
