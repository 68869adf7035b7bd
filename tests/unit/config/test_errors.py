"""Every error that a configuration can hold, with its file, line, key and kind: the table in errors/*.txt."""

from __future__ import annotations

import pytest

from capacityd.cli.commands.config import show
from capacityd.config import Loaded
from capacityd.config.problems import MAX_MESSAGE_LENGTH, clean
from capacityd.config.toml import MAX_DEPTH
from capacityd.model.errors import ConfigError
from tests.support.config_errors import Case, cases, parser_error
from tests.support.configs import HEADER as X
from tests.support.configs import NAME, loaded


def lines(configuration: Loaded) -> list[str]:
    """The problems as LINE: ERROR."""
    start = f"{configuration.problems[0].file}:"
    reported = [p.located() for p in configuration.problems]
    assert all(line.startswith(start) and line.isprintable() for line in reported)
    return [line[len(start) :] for line in reported]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_error(case: Case) -> None:
    configuration = loaded(case.text)
    for line, expected in zip(lines(configuration), case.errors, strict=True):
        assert line.startswith(expected[:-1]) if expected.endswith("…") else line == expected
    assert configuration.config.complete is case.complete
    with pytest.raises(ConfigError) as e:
        configuration.require()
    assert str(e.value) == "\n".join(p.located() for p in configuration.problems)
    if case.in_resource:
        more = f" (and {len(case.errors) - 1} more)" if len(case.errors) > 1 else ""
        assert configuration.config.broken == {NAME: f"{configuration.problems[0]}{more}"}
        assert configuration.config.resources == ()
        assert show(configuration).startswith(f"# {configuration.problems[0]}\n")


def test_an_empty_resource() -> None:
    (line,) = lines(loaded(X))
    assert line.startswith(f"1: {X} must have a detector")


def test_a_long_message_is_cut() -> None:
    """One that just fits is whole."""
    fits = "x" * MAX_MESSAGE_LENGTH
    assert (clean(fits), clean(f"{fits}y")) == (fits, f"{fits}…")


def test_tables_in_each_other() -> None:
    """The value counts, too."""
    for depth, too_deep in ((MAX_DEPTH - 1, False), (MAX_DEPTH, True)):
        (line,) = lines(loaded(f"x = 1\n{'.'.join('a' * depth)} = 1"))[-1:]
        assert (line == f"2: has more than {MAX_DEPTH} tables or lists inside each other") == too_deep


@pytest.mark.parametrize(
    ("detector", "words"),
    [
        ("pci", "gpu accelerator npu tpu fpga card"),
        ("nic", "net network ethernet interface eth"),
        ("disk", "nvme ssd hdd block drive storage"),
        ("filesystem", "fs mount"),
        ("udev", "tty serial_port"),
        ("memory", "ram mem"),
        ("cpu", "core cores processor"),
        ("static", "count number value capacity"),
        ("exec", "script program run cmd"),
        ("usb", "dongle usb_device"),
    ],
)
def test_a_word_that_someone_may_take_for_a_detector(detector: str, words: str) -> None:
    for word in words.split():
        line = lines(loaded(f"{X}\n{word} = 1"))[0]
        assert line.startswith(f"2: {X} {word}: is not a detector; write {detector} = {{"), line


LONGEST = ".".join(["a" * 50] * 4) + "." + "a" * 49


def test_the_longest_name_of_a_node() -> None:
    assert len(LONGEST) == 253
    assert loaded(f"[kubernetes]\nnode_name = '{LONGEST}'").require().settings.node_name == LONGEST


@pytest.mark.parametrize("name", ["a" * 64, f"{LONGEST}a"])
def test_a_nodes_name_that_is_too_long(name: str) -> None:
    (line,) = lines(loaded(f"[kubernetes]\nnode_name = '{name}'"))
    assert line.startswith(f'2: [kubernetes] node_name: "{name}" is not a valid Node name')


def test_a_duration_of_hundreds_of_digits() -> None:
    """Python can make no float of it."""
    (line,) = lines(loaded(f"{X}\nfile = {{ path = '/a', max_age = '{'9' * 400}d' }}"))
    assert line.startswith(f'2: {X[:-1]}.file] max_age: must be a duration such as "30s"')


@pytest.mark.parametrize("amount", ["9" * 5000 + "GB", "1." + "0" * 5000 + "GB"])
def test_a_size_of_thousands_of_digits(amount: str) -> None:
    """Python refuses to print such a number, which would then fail somewhere else."""
    (line,) = lines(loaded(f"{X}\ndisk = {{ size = '{amount}' }}"))
    assert "is not a comparison; write it like" in line or line.endswith("…")


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (f"{X}\n\nslots = 1\n\nslots = 2\n", "5: <parser>; slots is already in line 3; remove one"),
        ('a = 1\r\nb = "x\r\nc = 1', "2: <parser>; the closing quote is missing"),
        ('a = "\x01"', "1: <parser>; the character there is U+0001 a control character; write a plain character"),
        ("a = '\x00'", "1: <parser>; the character there is U+0000 a control character; write a plain character"),
        (
            f"{X}\rusb = {{}}\r",
            "1: <parser>; the character there is U+000D a control character; write a plain character",
        ),
        (
            "usb = {\u00a0vendor = '0529' }",
            "1: <parser>; the character there is U+00A0 NO-BREAK SPACE; write a plain character",
        ),
        (
            "usb = { v\u0435ndor = '0529' }",
            "1: <parser>; the character there is U+0435 CYRILLIC SMALL LETTER IE; write a plain character",
        ),
        ("a = 1\n\nx = [\n  1,\n\n", "3: <parser>; the closing ] is missing"),
        ("a = 1\nx = " + "[" * 5000, "2: has more than 20 tables or lists inside each other"),
        ("x = " + "[" * 30 + "]" * 30, "1: has more than 20 tables or lists inside each other"),
        ("\n" + ".".join("a" * 300) + " = 1", "2: has more than 20 tables or lists inside each other"),
        ("a = 1\nx = " + "9" * 5000, "2: is not valid TOML: an integer has more than 64 bits"),
        ("a = 1\n" + " " * 10**5 + "a = 1", "2: <parser>"),
    ],
    ids=lambda text: text[:20],
)
def test_a_file_that_is_not_read(text: str, reported: str) -> None:
    configuration = loaded(text)
    assert lines(configuration) == [reported.replace("<parser>", parser_error(text) if "<parser>" in reported else "")]
    assert not configuration.config.complete
    assert configuration.files == ()


def test_an_integer_of_65_bits_hides_no_other_error() -> None:
    configuration = loaded(f"{X}\nslots = 0x{'f' * 9000}\nusb = {{ vendr = '0529' }}\n[kubernetes]\nobsrve = false")
    assert lines(configuration) == [
        '5: [kubernetes] obsrve: unknown key; did you mean "observe"?',
        f"2: {X} slots: must be a whole number; got an integer of more than 64 bits",
        f'3: {X[:-1]}.usb] vendr: unknown key; did you mean "vendor"?',
    ]
    assert configuration.config.complete
    assert lines(loaded("x = 9223372036854775808"))[0].startswith("1: x: unknown table")


def test_good_resources_are_kept_beside_bad_ones() -> None:
    configuration = loaded(f'{X}\nusb = 1\n[resources."example.com/good"]\nusb = {{}}\n[kubernetes]\nnode_name = "n"')
    assert [r.name for r in configuration.config.resources] == ["example.com/good"]
    assert [*configuration.config.broken] == [NAME]
    assert configuration.config.settings.node_name == "n"


def test_a_resource_with_an_invalid_name_is_broken_too() -> None:
    configuration = loaded('[resources.y]\n[resources."a\\u001bb"]\nusb = {}')
    assert configuration.config.broken == {
        "y": str(configuration.problems[0]),
        "a\\x1bb": str(configuration.problems[1]),
    }


@pytest.mark.parametrize(
    "text",
    [
        "observe = true",
        "[kubernets]\nobserve = true",
        "[[kubernetes]]\nobserve = true",
        "[[kubernetes]]\nnode_name = 'n'\n[[kubernetes]]\nobserve = true",
        "[kubernetes]\nobserve = 'true'",
        "[kubernetes]\nobserv = true",
        "[service]\nobserve = true",
        "[resources.'example.com/x']\nusb = {}\nobserve = true",
        "[kubernetes]\n  observe=true\nnode_name = 'n'\nnode_name = 'm'",
    ],
)
def test_an_invalid_observe_counts_as_true(text: str) -> None:
    configuration = loaded(text)
    assert len(configuration.problems) == 1
    assert configuration.config.settings.observe
    assert show(configuration).endswith(f"[kubernetes]\nobserve = true  # {configuration.problems[0].file}\n")


@pytest.mark.parametrize(
    "text",
    [
        "a = ",
        "# observe = true\na = ",
        "[kubernetes]\nobserve = false\na = ",
        "[kubernetes]\ncondition = 1",
        "kubernetes = 5",
        "[observer]\na=1",
    ],
)
def test_other_errors_do_not_make_it_observe(text: str) -> None:
    configuration = loaded(text)
    assert len(configuration.problems) == 1
    assert not configuration.config.settings.observe


def test_messages_are_short() -> None:
    text = f"{X}\nusb = {{ vendor = '{'z' * 100000}' }}\n'{'k' * 100000}' = 1\n[resources.{'n' * 9999}]"
    configuration = loaded(text)
    assert len(configuration.problems) == 3
    assert all(len(str(p)) < 2500 for p in configuration.problems)
    assert all(len(name) < 1000 for name in configuration.config.broken)
