"""Errors in a configuration, and their places. The parser collects all errors before it reports them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, TypeVar

from capacityd.config.keys import SETTINGS_TABLES, is_resource_key
from capacityd.config.line_numbers import Step, line_of
from capacityd.model.errors import ConfigError
from capacityd.model.text import printable
from capacityd.schema.config import Config
from capacityd.schema.toml_values import toml_key

_T = TypeVar("_T")

EXAMPLE = 'resources."example.com/dongle"'
"""The header of a resource, for messages."""

_CHECK = "capacityd config check"

MAX_MESSAGE_LENGTH = 600
"""Maximum length of a message, because it may quote text of any length from the file."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An error or a warning about a file. All texts are printable.

    message, table and key may quote the file. If the file is private, reason() and public() leave out these fields.
    """

    file: str
    message: str
    table: str = ""
    """The table's header in TOML, without brackets."""
    key: str = ""
    """The key in TOML; "" if the error concerns the whole table."""
    line: int = 0
    """The line in the file; 0 if it is unknown."""
    private: bool = False
    """Whether some users may not read the file."""
    warning: bool = False
    """Whether this is a warning about a valid file."""

    def reason(self) -> str:
        """The text without the line, for a reading's reason. So an edit of other lines does not change the reason."""
        return self._public(self.file)

    def public(self) -> str:
        """The text with the line, for the Node, the journal and `status`."""
        return self._public(self._file_and_line)

    def located(self, severity: str = "") -> str:
        """The text with the line, in the format of compilers, so that editors can jump to the line.

        Unlike public(), quotes even a private file. severity: a prefix of the message, such as "warning: ".
        """
        return self._text(self._file_and_line, severity)

    @property
    def _file_and_line(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    def _public(self, location: str) -> str:
        if not self.private:
            return self._text(location)
        verdict = "may be a mistake" if self.warning else "is not valid"
        noun = "warning" if self.warning else "error"
        return f'{location}: {verdict}; some users may not read the file, so only "sudo {_CHECK}" shows the {noun}'

    def _text(self, location: str, severity: str = "") -> str:
        table = f"[{self.table}] " if self.table else ""
        key = f"{self.key}: " if self.key else ""
        return f"{location}: {severity}{table}{key}{self.message}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of loading the files."""

    config: Config
    """The valid part. The service uses it even if there are problems."""
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    """Warnings about valid values that are probably mistakes."""
    files: tuple[str, ...]
    """The paths of the files that were read, in the order of merging."""
    values: Mapping[str, Mapping[str, Any]]
    """The valid values of all files: table -> key -> TOML value."""
    origins: Mapping[tuple[str, str], str]
    """Table and key of each value -> the file that contains the value."""
    folders: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    """Path of each searched folder -> the names of its files that are read; None if there is no such folder."""
    skipped: tuple[str, ...] = ()
    """Paths of unread files in the searched folders: hidden files, copies, and files of other programs."""

    def require(self) -> Config:
        """Returns the configuration if it is valid. Otherwise raises ConfigError with a line for each problem."""
        if self.problems:
            raise ConfigError("\n".join(problem.located() for problem in self.problems))
        return self.config


@dataclass(frozen=True, slots=True)
class Place:
    """A table of a file. Collects the problems of the table and of all tables below it."""

    file: str
    text: str = ""
    """The text of the file, for the lines of the problems."""
    path: tuple[Step, ...] = ()
    problems: list[Problem] = field(default_factory=list)
    private: bool = False
    """Whether some users may not read the file."""

    @property
    def table(self) -> str:
        """The path as a header in TOML, with " #N" for the Nth table of a list."""
        steps = []
        for name, number in self.path:
            in_list = f" #{number}" if number else ""
            steps.append(f"{toml_key(name)}{in_list}")
        return ".".join(steps)

    def below(self, name: str, number: int = 0) -> Place:
        """The place of a table in this table. number: the table's number in a list, from 1, or 0 outside of lists."""
        return replace(self, path=(*self.path, (name, number)))

    def of_resource(self, name: str) -> Place:
        """The place of a resource's table in this table "resources". The new place has its own list of problems."""
        return replace(self.below(name), problems=[])

    def problem(self, key: str, message: str, *, warning: bool = False) -> Problem:
        """A problem at a key, or at the whole table if the key is "". Does not collect the problem."""
        return Problem(
            file=clean(self.file),
            message=clean(message),
            table=clean(self.table),
            key=clean(toml_key(key)) if key else "",
            line=line_of((*self.path, (key, 0)) if key else self.path, self.text),
            private=self.private,
            warning=warning,
        )

    def report(self, key: str, message: str) -> None:
        """Collects a problem at a key, or at the whole table if the key is ""."""
        self.problems.append(self.problem(key, message))

    def report_unknown(self, key: str, known: Sequence[str]) -> None:
        """Collects a problem at an unknown key. known: the valid keys."""
        self.report(key, self.where_it_belongs(key) or f"unknown key; {expected(key, known)}")

    def where_it_belongs(self, key: str) -> str:
        """Where a misplaced key belongs, as the end of a message; "" if no table may have this key."""
        for table, keys in SETTINGS_TABLES.items():
            if key in keys:
                return f"belongs in [{table}]: move it below that header"
        if is_resource_key(key):
            is_in_resource = len(self.path) > 1 and self.path[0][0] == "resources"
            header = replace(self, path=self.path[:2]).table if is_in_resource else EXAMPLE
            return f"belongs to a resource: move it to the lines directly below [{header}]"
        return ""

    def parse(self, key: str, parser: Callable[[object], _T], raw: object) -> _T | None:
        """Parses the value of a key. If the parser raises ValueError or returns unprintable text, collects a problem
        and returns None."""
        try:
            value = parser(raw)
        except ValueError as e:
            self.report(key, str(e))
            return None
        if isinstance(value, str) and not value.isprintable():
            self.report(key, f'"{value}" contains an unprintable character')
            return None
        return value


def clean(text: str) -> str:
    """Text from a file as a printable line of limited length."""
    return printable(text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[:MAX_MESSAGE_LENGTH]}…")


def expected(word: str, words: Sequence[str]) -> str:
    """The end of a message about an unknown word: the valid word that was probably meant, or else all valid words."""
    longer = [valid for valid in words if valid.startswith(f"{word}_")]  # "product" was probably meant as product_name
    if longer:
        quoted = " or ".join(f'"{valid}"' for valid in longer)
        return f"did you mean {quoted}?"
    valid_words = {valid.lower(): valid for valid in words}
    meant = nearest(word[:80].lower(), valid_words)  # only the beginning, because difflib takes quadratic time
    return f"must be one of {', '.join(words)}" if meant is None else f'did you mean "{valid_words[meant]}"?'


def nearest(word: str, others: Iterable[str]) -> str | None:
    """The word that was probably meant by a mistyped word; None if no other word is similar enough."""
    # A mistyped word usually keeps its first or its last letter.
    candidates = [other for other in others if word[:1] == other[:1] or word[-1:] == other[-1:]]
    matches = get_close_matches(word, candidates, n=1)
    return matches[0] if matches else None
