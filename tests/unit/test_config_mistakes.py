"""Every mistake that a configuration can hold, and the very line that tells of it.

mistakes/*.txt hold the cases, with an empty line between: TOML, then "> " and each line that is to be told, without the
file's name. In all but files.txt the TOML stands below the header of a resource. "> incomplete": nothing may be removed
from the Node. <keys of X> and <detectors> stand for lists that grow with the program.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from capacityd.config import Loaded, load, show
from capacityd.config.keys import RESOURCE, TABLES, WHEN
from capacityd.detectors import load as load_detector
from capacityd.detectors import names
from capacityd.errors import ConfigError
from capacityd.model import DeviceDetector

NAME = "example.com/x"
X = f'[resources."{NAME}"]'
MISTAKES = Path(__file__).parent / "mistakes"


def cases(*files: Path) -> list[object]:
    found: list[object] = []
    for file in files:
        for number, case in enumerate(file.read_text().strip().split("\n\n"), 1):
            toml, *expected = case.split("\n> ")
            assert expected, f"{file.name} has a case without a line to expect:\n{case}"
            found.append(pytest.param(toml, [_written(line) for line in expected], id=f"{file.stem}-{number}"))
    return found


def _written(line: str) -> str:
    line = re.sub("<keys of ([a-z]+)>", lambda m: ", ".join(_keys(m[1])), line)
    return line.replace("<keys>", ", ".join(RESOURCE)).replace("<detectors>", ", ".join(names()))


def _keys(of: str) -> list[str]:
    if of == "when" or of in TABLES:
        return [*(WHEN if of == "when" else TABLES[of])]
    detector = load_detector(of)
    assert isinstance(detector, DeviceDetector)
    return [*detector.keys, "attributes", "properties"]


def loaded(tmp_path: Path, text: str) -> Loaded:
    file = tmp_path / "c.toml"
    file.write_text(text)
    return load(str(file))


def lines(found: Loaded, tmp_path: Path) -> list[str]:
    """The problems without the file's name."""
    start = f"{tmp_path / 'c.toml'}: "
    said = [str(p) for p in found.problems]
    assert all(line.startswith(start) and line.isprintable() for line in said)
    return [line[len(start) :] for line in said]


FILES = MISTAKES / "files.txt"
RESOURCES = sorted({*MISTAKES.glob("*.txt")} - {FILES})


@pytest.mark.parametrize(("toml", "expected"), cases(*RESOURCES))
def test_resource(tmp_path: Path, toml: str, expected: list[str]) -> None:
    found = loaded(tmp_path, f"{X}\n{toml}\n")
    assert lines(found, tmp_path) == expected
    more = f" (and {len(expected) - 1} more)" if len(expected) > 1 else ""
    assert found.config.broken == {NAME: f"{found.problems[0]}{more}"}
    assert found.config.resources == ()
    assert found.config.complete
    assert show(found).startswith(f"# {found.problems[0]}\n")


@pytest.mark.parametrize(("toml", "expected"), cases(FILES))
def test_file(tmp_path: Path, toml: str, expected: list[str]) -> None:
    found = loaded(tmp_path, toml)
    assert lines(found, tmp_path) == [line for line in expected if line != "incomplete"]
    assert found.config.complete is ("incomplete" not in expected)
    with pytest.raises(ConfigError) as e:
        found.require()
    assert str(e.value) == "\n".join(map(str, found.problems))


def test_a_resource_of_nothing(tmp_path: Path) -> None:
    detectors = ", ".join(names())
    said = [f"{X} has no detector; one of {detectors} must say what is counted"]
    assert lines(loaded(tmp_path, X), tmp_path) == said


LONGEST = ".".join(["a" * 50] * 4) + "." + "a" * 49


def test_the_longest_name_of_a_node(tmp_path: Path) -> None:
    assert len(LONGEST) == 253
    assert loaded(tmp_path, f"[kubernetes]\nnode_name = '{LONGEST}'").require().settings.node_name == LONGEST


@pytest.mark.parametrize("name", ["a" * 64, f"{LONGEST}a"])
def test_a_nodes_name_that_is_too_long(tmp_path: Path, name: str) -> None:
    (line,) = lines(loaded(tmp_path, f"[kubernetes]\nnode_name = '{name}'"), tmp_path)
    assert line.startswith(f'[kubernetes] node_name: "{name}" is no Node\'s name')


def test_a_duration_of_hundreds_of_digits(tmp_path: Path) -> None:
    """Python can make no float of it."""
    (line,) = lines(loaded(tmp_path, f"{X}\nfile = {{ path = '/a', max_age = '{'9' * 400}d' }}"), tmp_path)
    assert line.startswith(f'{X[:-1]}.file] max_age: must be a duration such as "30s"')


@pytest.mark.parametrize("amount", ["9" * 5000 + "GB", "1." + "0" * 5000 + "GB"])
def test_a_size_of_thousands_of_digits(tmp_path: Path, amount: str) -> None:
    """Python refuses to print such a number, which would then fail somewhere else."""
    (line,) = lines(loaded(tmp_path, f"{X}\ndisk = {{ size = '{amount}' }}"), tmp_path)
    assert "is not a comparison; write it like" in line or line.endswith("…")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("[resources.example.com/x]", f"; put the name in quotes: {X}"),
        ("a = 1\n[[ resources.example.com/x.usb ]]", f"; put the name in quotes: {X}"),
        (f"{X}\nslots = 1\nslots = 2\na=1", "; a key may stand only once"),
        (f"{X}\n{X}\nslots = 2", "; a table may stand only once"),
        (f"{X}\nusb = {{}}\n{X[:-1]}.usb]", "; a table may stand only once"),
        (
            f"{X}\nusb = {{}}\nusb.hub = true",
            "; a table in braces ends with its brace; nothing can be added to it below",
        ),
        (f"{X}\nusb = {{ hub = true, hub = false }}", "; a key may stand only once"),
        ("a = A17\nb=1", '; text, ids, sizes and times stand in quotes, as in vendor = "0403"; true and false do not'),
        ("a = 0529\nb=1", '; text, ids, sizes and times stand in quotes, as in vendor = "0403"'),
        ("a = 10%\nb=1", '; text, ids, sizes and times stand in quotes, as in vendor = "0403"'),
        ("a = { b = 0529 }", "; a table in braces stands on one line, and text and ids in quotes"),
        *[
            (text, "; a key must follow here; a table in braces stands on one line, without a comma at its end")
            for text in ("a = { b = 1,, }", 'a = {\n  b = "0529",\n}')
        ],
        ('a = "\\d"', "; in single quotes a backslash stands for itself"),
        ("example.com/x = 1", '; write key = value; a key with other characters than a-z, 0-9, "-" and "_" in quotes'),
        ("[resources.“example.com/x”]", "; quotes must be straight ones"),
        ("a = [", ""),
        ("a = '\x00'", ""),
    ],
)
def test_not_toml(tmp_path: Path, text: str, hint: str) -> None:
    found = loaded(tmp_path, text)
    (line,) = lines(found, tmp_path)
    assert line.startswith("is not TOML: ")
    assert "(at " in line
    assert line.endswith(f"){hint}")
    assert not found.config.complete
    assert found.files == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = " + "[" * 5000, "nests too deeply"),
        ("x = " + "[" * 30 + "]" * 30, "nests more than 20 deep"),
        (".".join("a" * 300) + " = 1", "nests more than 20 deep"),
        ("x = 0x8000000000000000", "holds a number of more than 64 bits"),
        ("x = [{ y = -9223372036854775809 }]", "holds a number of more than 64 bits"),
        ("x = 0x" + "f" * 9000, "holds a number of more than 64 bits"),
    ],
    ids=["brackets", "lists", "dots", "hexadecimal", "nested", "long"],
)
def test_not_readable(tmp_path: Path, text: str, why: str) -> None:
    found = loaded(tmp_path, text)
    assert lines(found, tmp_path) == [f"is not TOML that can be read: it {why}"]
    assert not found.config.complete


def test_a_number_of_thousands_of_digits(tmp_path: Path) -> None:
    (line,) = lines(loaded(tmp_path, "x = " + "9" * 5000), tmp_path)
    assert line.startswith("is not TOML")


def test_as_deep_as_may_be(tmp_path: Path) -> None:
    said = lines(loaded(tmp_path, "x = " + "[" * 18 + "9223372036854775807" + "]" * 18), tmp_path)
    assert said == ["x: unknown table; there are resources, kubernetes and service"]


def test_good_resources_are_kept_beside_bad_ones(tmp_path: Path) -> None:
    found = loaded(tmp_path, f'{X}\nusb = 1\n[resources."example.com/good"]\nusb = {{}}\n[kubernetes]\nnode_name = "n"')
    assert [r.name for r in found.config.resources] == ["example.com/good"]
    assert [*found.config.broken] == [NAME]
    assert found.config.settings.node_name == "n"


def test_one_whose_name_is_wrong_is_broken_too(tmp_path: Path) -> None:
    found = loaded(tmp_path, '[resources.y]\n[resources."a\\u001bb"]\nusb = {}')
    assert found.config.broken == {"y": str(found.problems[0]), "a\\x1bb": str(found.problems[1])}


@pytest.mark.parametrize(
    "text",
    [
        "observe = true",
        "[kubernets]\nobserve = true",
        "[[kubernetes]]\nobserve = true",
        "[[kubernetes]]\nnode_name = 'n'\n[[kubernetes]]\nobserve = true",
        "[kubernetes]\nobserve = 'true'",
        "[kubernetes]\nobserv = true",
        "[kubernetes]\n  observe=true\nnode_name = 'n'\nnode_name = 'm'",
    ],
)
def test_who_asks_to_observe_with_a_mistake_is_still_not_written_to(tmp_path: Path, text: str) -> None:
    found = loaded(tmp_path, text)
    assert len(found.problems) == 1
    assert found.config.settings.observe
    assert show(found).endswith(f"[kubernetes]\nobserve = true  # {found.problems[0].file}\n")


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
def test_other_mistakes_do_not_make_it_observe(tmp_path: Path, text: str) -> None:
    found = loaded(tmp_path, text)
    assert len(found.problems) == 1
    assert not found.config.settings.observe


def test_a_message_is_not_longer_than_one_reads(tmp_path: Path) -> None:
    text = f"{X}\nusb = {{ vendor = '{'z' * 100000}' }}\n'{'k' * 100000}' = 1\n[resources.{'n' * 9999}]"
    found = loaded(tmp_path, text)
    assert len(found.problems) == 3
    assert all(len(str(p)) < 2500 for p in found.problems)
    assert all(len(name) < 1000 for name in found.config.broken)
