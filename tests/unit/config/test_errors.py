"""Every error in a configuration has its line and its message. errors/*.txt lists the cases."""

from __future__ import annotations

import pytest

from capacityd.config import Loaded
from capacityd.detectors import detector_names
from capacityd.model.errors import ConfigError
from tests.support.config_errors import Case, cases, parser_error
from tests.support.configs import HEADER, NAME, loaded


def lines(configuration: Loaded) -> list[str]:
    """The problems, each as "LINE: ERROR"."""
    start = f"{configuration.problems[0].file}:"
    reported = [p.located_text() for p in configuration.problems]
    assert all(line.startswith(start) and line.isprintable() for line in reported)
    return [line[len(start) :] for line in reported]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_each_error_has_its_line_and_message(case: Case) -> None:
    configuration = loaded(case.text)
    for line, expected in zip(lines(configuration), case.errors, strict=True):
        is_as_expected = line.startswith(expected[:-1]) if expected.endswith("…") else line == expected
        assert is_as_expected, (line, expected)
    assert configuration.config.complete is case.complete
    with pytest.raises(ConfigError) as e:
        configuration.require()
    assert str(e.value) == "\n".join(p.located_text() for p in configuration.problems)
    if case.in_resource:
        more = f" (and {len(case.errors) - 1} more)" if len(case.errors) > 1 else ""
        assert configuration.config.broken == {NAME: f"{configuration.problems[0].public_text()}{more}"}
        assert configuration.config.resources == ()


def test_an_empty_resource_lacks_a_detector() -> None:
    assert lines(loaded(HEADER)) == [f"1: {HEADER} must have a detector, which is one of {', '.join(detector_names())}"]


LONGEST = ".".join(["a" * 50] * 4) + "." + "a" * 49  # 253 characters


def test_a_longer_name_than_kubernetes_allows_is_an_error() -> None:
    assert loaded(f"[kubernetes]\nnode_name = '{LONGEST}'").require().settings.node_name == LONGEST
    for name in ("a" * 64, f"{LONGEST}a"):  # between two dots, 63 are allowed
        (line,) = lines(loaded(f"[kubernetes]\nnode_name = '{name}'"))
        assert line.startswith(f'2: [kubernetes] node_name: "{name}" is not a valid Node name')


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (f"file = {{ path = '/a', max_age = '{'9' * 400}d' }}", f"{HEADER[:-1]}.file] max_age: must be a duration"),
        (f"disk = {{ size = '{'9' * 5000}GB' }}", f"{HEADER[:-1]}.disk] size: "),
        (f"disk = {{ size = '1.{'0' * 5000}GB' }}", f"{HEADER[:-1]}.disk] size: "),
    ],
    ids=["duration", "size", "fraction"],
)
def test_a_number_of_hundreds_of_digits_is_an_error(value: str, error: str) -> None:
    """Python cannot convert such a number to a float or to text, so a later step would fail."""
    (line,) = lines(loaded(f"{HEADER}\n{value}"))
    assert line.startswith(f"2: {error}")


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ('a = 1\r\nb = "x\r\nc = 1', "2: <parser>; the closing quote is missing"),
        ('a = "\x01"', "1: <parser>; the character there is U+0001 a control character; write a plain character"),
        (
            "usb = {\u00a0vendor = '0529' }",
            "1: <parser>; the character there is U+00A0 NO-BREAK SPACE; write a plain character",
        ),
        ("// seats\na = 1", "1: <parser>; a comment starts with #"),
        ("a = 1 ; seats", "1: <parser>; a comment starts with #"),
        ("a = 1\n/* seats */", "2: <parser>; a comment starts with #"),
        ('a = "x";\nb = 1', "1: <parser>; remove the semicolon"),
        ("a = 1\n\nx = [\n  1,\n\n", "3: <parser>; a comma or the closing ] of line 3 is missing"),
        ("a = 1\nx = " + "[" * 5000, "2: has too many tables or lists inside each other"),
        ("a = 1\nx = " + "9" * 5000, "2: is not valid TOML: an integer has too many digits"),
        ("a = 1\nx = 0x" + "f" * 5000, "2: is not valid TOML: an integer has too many digits"),
    ],
    ids=lambda text: text[:20],
)
def test_a_file_that_cannot_be_parsed_is_not_read(text: str, reported: str) -> None:
    configuration = loaded(text)
    by_parser = parser_error(text) if "<parser>" in reported else ""  # which fails for some of the other texts
    assert lines(configuration) == [reported.replace("<parser>", by_parser)]
    assert not configuration.config.complete
    assert configuration.files == ()


def test_a_byte_that_is_not_utf8_is_named_with_its_line() -> None:
    assert lines(loaded(b"# a\n# \xe9\n")) == ["2: is not UTF-8: it has the byte 0xe9; save it as UTF-8"]


@pytest.mark.parametrize(
    ("text", "observes"),
    [
        ("observe = true", True),
        ("[kubernets]\nobserve = true", True),
        ("[[kubernetes]]\nnode_name = 'n'\n[[kubernetes]]\nobserve = true", True),
        ("[kubernetes]\nobserve = 'true'", True),
        ("[kubernetes]\nobserv = true", True),
        ("[kubernetes]\nserver = true", False),
        ("[kubernetes]\nobserve = false\n[service]\nobserve = true", True),
        ("[resources.'example.com/x']\nusb = {}\nobserve = true", True),
        ("[kubernetes]\n  observe=true\nnode_name = 'n'\nnode_name = 'm'", True),
        ("# observe = true\na = ", False),
        ("[kubernetes]\nobserve = false\na = ", False),
        ("[kubernetes]\ncondition = 1", False),
        ("[observer]\na=1", False),
    ],
)
def test_a_misspelt_or_misplaced_observe_counts_as_true(text: str, observes: bool) -> None:
    configuration = loaded(text)
    assert len(configuration.problems) == 1
    assert configuration.config.settings.observe is observes


def test_messages_are_short() -> None:
    text = f"{HEADER}\nusb = {{ vendor = '{'z' * 100000}' }}\n'{'k' * 100000}' = 1\n[resources.{'n' * 9999}]"
    configuration = loaded(text)
    assert len(configuration.problems) == 3
    assert all(len(p.public_text()) < 2500 for p in configuration.problems)
    assert all(len(name) < 1000 for name in configuration.config.broken)
