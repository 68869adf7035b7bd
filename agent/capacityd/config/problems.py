"""Errors in a configuration, and their places. The parser collects all errors before it reports them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from capacityd.config.keys import SETTINGS_TABLES, fits_resource
from capacityd.config.line_numbers import Step, TomlPath, line_of
from capacityd.model.errors import ConfigError
from capacityd.model.text import printable
from capacityd.schema.config import Config
from capacityd.schema.spelling import suggest_word
from capacityd.schema.toml_values import describe_toml_value, toml_key

_T = TypeVar("_T")

EXAMPLE_HEADER = 'resources."example.com/dongle"'
"""The header of an example of a resource, without brackets, for messages."""

WHOLE_TABLE = ""
"""Instead of a key, for a problem that concerns the whole table."""

MAX_MESSAGE_LENGTH = 600
"""Maximum length of a message, because it may quote text of any length from the file."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An error or a warning about a file. All texts are printable.

    message, table and key may quote the file. If the file is private, public_text() leaves out these fields.
    """

    file: str
    message: str
    table: str = ""
    """The table's header in TOML, without brackets."""
    key: str = ""
    """The key in TOML, or WHOLE_TABLE."""
    line: int = 0
    """The line in the file; 0 if it is unknown."""
    private: bool = False
    """Whether some users may not read the file."""

    def public_text(self) -> str:
        """The text for the Node, the journal and `status`."""
        if self.private:
            why = 'some users may not read the file, so only "sudo capacityd config check" shows what is wrong'
            return f"{self._location}: {why}"
        return self.located_text()

    def located_text(self, severity: str = "") -> str:
        """The text in the format of compilers, so that editors can jump to the line. It may quote a private file.

        severity: a prefix of the message, such as "warning: ".
        """
        table = f"[{self.table}] " if self.table else ""
        key = f"{self.key}: " if self.key else ""
        return f"{self._location}: {severity}{table}{key}{self.message}"

    @property
    def _location(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class TomlTable:
    """A table in a file, or the whole file. Collects the problems of the table and of all tables below it."""

    content: Mapping[str, Any]
    """Key -> TOML value."""
    file: str
    text: str = ""
    """The text of the file, for the lines of the problems."""
    path: TomlPath = ()
    private: bool = False
    """Whether some users may not read the file."""
    problems: list[Problem] = field(default_factory=list)

    @property
    def header(self) -> str:
        """The path as a header in TOML, without brackets, and with " #N" for the Nth table of a list."""
        return _header(self.path)

    def below(self, key: str) -> TomlTable:
        """The table below a key. It shares this table's list of problems."""
        return replace(self, content=self.content[key], path=(*self.path, Step(key)))

    def table_below(self, key: str, example: str) -> TomlTable | None:
        """The table below a key. For a value of another type, reports a problem and returns None.

        example: a valid table, for messages.
        """
        value = self.content[key]
        if isinstance(value, dict):
            return self.below(key)
        self.report(key, f"must be a table such as {example}; got {describe_toml_value(value)}")
        return None

    def tables_below(self, key: str, example: str) -> list[TomlTable]:
        """The tables below a key, whose value is one table or a list of tables. Reports values of other types.

        example: a valid table, for messages.
        """
        value = self.content[key]
        if not isinstance(value, list):
            table = self.table_below(key, example)
            return [] if table is None else [table]
        if not value:
            self.report(key, f"must not be an empty list; write a table such as {example}")
        tables = []
        for number, item in enumerate(value, 1):
            if isinstance(item, dict):
                tables.append(replace(self, content=item, path=(*self.path, Step(key, number))))
            else:
                got = describe_toml_value(item)
                self.report(key, f"table {number} of the list must be a table such as {example}; got {got}")
        return tables

    def without_problems(self) -> TomlTable:
        """The same table, with a new list of problems."""
        return replace(self, problems=[])

    def problem(self, key: str, message: str) -> Problem:
        """A problem at a key or at WHOLE_TABLE. Does not collect the problem."""
        path = (*self.path, Step(key)) if key else self.path
        return Problem(
            file=printable_line(self.file),
            message=printable_line(message),
            table=printable_line(self.header),
            key=printable_line(toml_key(key)) if key else "",
            line=line_of(path, self.text),
            private=self.private,
        )

    def report(self, key: str, message: str) -> None:
        """Collects a problem at a key or at WHOLE_TABLE."""
        self.problems.append(self.problem(key, message))

    def report_unknown(self, key: str, known: Sequence[str]) -> None:
        """Collects a problem at an unknown key. known: the valid keys."""
        where_it_belongs = self.where_it_belongs(key)
        if where_it_belongs:
            self.report(key, where_it_belongs)
        else:
            self.report(key, f"unknown key; {suggest_word(key, known)}")

    def where_it_belongs(self, key: str) -> str:
        """Where a misplaced key belongs, as the end of a message; "" if no table may have this key."""
        if key == "resources" or key in SETTINGS_TABLES:
            example = f"[{EXAMPLE_HEADER}]" if key == "resources" else f"[{key}]"
            return f"is below a header, so it belongs to that table: write a header of its own, such as {example}"
        for table, keys in SETTINGS_TABLES.items():
            if key in keys:
                return f"belongs in [{table}]: move it below that header"
        if fits_resource(key, self.content[key]):
            is_in_resource = self.path[:1] == (Step("resources"),)
            resource_path = self.path[:2]
            header = _header(resource_path) if is_in_resource else EXAMPLE_HEADER
            return f"belongs to a resource: move it to the lines directly below [{header}]"
        return ""

    def parse(self, key: str, parser: Callable[[object], _T]) -> _T | None:
        """Parses the value of a key. If the parser raises ValueError, collects the error and returns None."""
        try:
            return parser(self.content[key])
        except ValueError as e:
            self.report(key, str(e))
            return None


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of loading the files."""

    config: Config
    """The valid part. The service uses this part even if there are problems."""
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    """Warnings about valid values that are probably mistakes."""
    files: tuple[str, ...]
    """The paths of the files that were read, in the order of merging."""
    origins: Mapping[str, Mapping[str, TomlTable]]
    """Top-level table -> key of each valid setting or resource -> the file's table that contains the key."""
    folders: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    """Path of each searched folder -> the names of its files that are read; None if there is no such folder."""
    skipped: tuple[str, ...] = ()
    """Paths of unread files in the searched folders: hidden files, copies, and files of other programs."""

    def require(self) -> Config:
        """Returns the configuration if it is valid. Otherwise raises ConfigError with a line for each problem."""
        if self.problems:
            raise ConfigError("\n".join(problem.located_text() for problem in self.problems))
        return self.config


def _header(path: TomlPath) -> str:
    steps = []
    for name, number in path:
        list_number = f" #{number}" if number else ""
        steps.append(f"{toml_key(name)}{list_number}")
    return ".".join(steps)


def printable_line(text: str) -> str:
    """Text from a file as a printable line of limited length."""
    if len(text) > MAX_MESSAGE_LENGTH:
        text = f"{text[:MAX_MESSAGE_LENGTH]}…"
    return printable(text)
