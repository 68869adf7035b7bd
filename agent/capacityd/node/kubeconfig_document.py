"""The content of a kubeconfig: its entries, and their values by type."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TypeAlias

from capacityd.model.errors import NodeUnauthorized
from capacityd.model.text import printable
from capacityd.node.credential_files import CredentialFiles
from capacityd.node.yaml_text import InvalidYaml, parse_yaml

Entry: TypeAlias = Mapping[str, object]
"""A mapping in a kubeconfig, such as a user, or the whole content."""


class KubeconfigDocument:
    """A kubeconfig. Its methods raise NodeUnauthorized if the kubeconfig is invalid."""

    def __init__(self, path: str, files: CredentialFiles) -> None:
        """Reads the kubeconfig. files: reads the kubeconfig and the files that it names."""
        self.files = files
        self._path = path
        try:
            content = parse_yaml(files.read(path, "the kubeconfig"))
        except InvalidYaml as e:
            raise self.error(str(e)) from None
        # As in kubectl, an empty file is one without entries.
        self._content: Entry = {} if content is None else self.mapping(content, "the file")

    @property
    def path(self) -> str:
        """The kubeconfig's path, for messages."""
        return printable(self._path)

    @property
    def is_empty(self) -> bool:
        """Whether the kubeconfig has no content."""
        return not self._content

    @property
    def current_context(self) -> str | None:
        """The name of the current context; None or "" if there is none."""
        return self.text(self._content, "current-context")

    def context_names(self) -> frozenset[str]:
        """Returns the names of all contexts. Ignores entries that are invalid."""
        contexts = self._content.get("contexts")
        if not isinstance(contexts, list):
            return frozenset()
        names = [context.get("name") for context in contexts if isinstance(context, dict)]
        return frozenset(name for name in names if isinstance(name, str))

    def entry(self, kind: str, name: str) -> Entry:
        """Returns the entry of this kind ("context", "cluster" or "user") with this name."""
        entries = self._content.get(f"{kind}s") or []
        if not isinstance(entries, list):
            raise self.error(f"is invalid: {kind}s is not a list")
        for entry in entries:
            if isinstance(entry, dict) and entry.get("name") == name:
                return self.mapping(entry.get(kind) or {}, kind)
        which = "that is selected" if kind == "context" else f"that its context names{self.files.merge_advice}"
        raise self.error(f"has no {kind} {which}")

    def mapping(self, value: object, name: str) -> Entry:
        """Returns the value, which must be a mapping. name: the value's, for messages."""
        if not isinstance(value, dict):
            raise self.error(f"is invalid: {name} is not a mapping")
        return value

    def text(self, entry: Entry, key: str) -> str | None:
        """Returns the text at this key; None if it is missing."""
        value = entry.get(key)
        if value is not None and not isinstance(value, str):
            raise self.error(f"is invalid: {key} is not text")
        return value

    def flag(self, entry: Entry, key: str) -> bool:
        """Returns the boolean at this key; False if it is missing."""
        value = entry.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.error(f"is invalid: {key} is neither true nor false")
        return value is True

    def pem(self, entry: Entry, key: str) -> str | None:
        """Returns the text in KEY-data (base64), or in the file that KEY names; None if both are missing."""
        data = self.text(entry, f"{key}-data")
        if data:
            try:
                return base64.b64decode("".join(data.split()), validate=True).decode("latin-1")
            except ValueError as e:
                raise self.error(f"is invalid: {key}-data is not base64") from e
        path = self.text(entry, key)
        return self.files.read(self.files.resolve(path), f"the {key}") if path else None

    def error(self, problem: str) -> NodeUnauthorized:
        """Returns the error to raise. problem: the end of a sentence about the kubeconfig."""
        return NodeUnauthorized(f"the kubeconfig {self.path} {problem}")
