"""No file content raises an exception. The output of `config show` for a valid file reads back as the same file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from capacityd.cli.commands.config import show
from capacityd.config import Loaded
from capacityd.config.keys import RESOURCE_KEYS, SETTINGS_TABLES, WHEN_KEYS
from capacityd.config.toml import parse_toml, toml_key, toml_value
from capacityd.detectors import detector_names, load_detector
from capacityd.model.quantity import name_problem
from capacityd.schema.config import Config
from capacityd.schema.device import DeviceDetector
from capacityd.schema.units import UNITS, Dimension
from capacityd.schema.value_types import Amount, Choice, Flag, HexId, Kind, Network, Text
from tests.support.configs import loaded


def is_taken(kind: Text, text: str) -> bool:
    try:
        kind.parse(text)
    except ValueError:
        return False
    return True


PRINTABLE = st.characters(exclude_categories=["Cs", "Cc", "Cf", "Co", "Cn", "Zl", "Zp", "Zs"])
TEXT = st.text(PRINTABLE, max_size=8).filter(lambda text: is_taken(Text(), text))
PATHS = TEXT.filter(lambda s: not {*"*?["} & {*s}).map(lambda s: f"/{s}")
BOOLEANS = st.booleans()
NUMBERS = st.integers(-(2**63), 2**63 - 1)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def some_of(keys: Mapping[str, st.SearchStrategy[Any]], least: int = 0) -> st.SearchStrategy[dict[str, Any]]:
    tables = st.fixed_dictionaries({}, optional=dict(keys))
    return tables.filter(lambda made: len(made) >= least) if least else tables


def one_or_more(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return values | st.lists(values, min_size=1, max_size=3)


def amounts(dimension: Dimension, signs: tuple[str, ...]) -> st.SearchStrategy[str]:
    units = st.sampled_from([*UNITS[dimension]] or [""])
    return st.builds(lambda s, n, u: f"{s}{n}{u}", st.sampled_from(signs), st.integers(0, 10**12), units)


def values(kind: Kind) -> st.SearchStrategy[Any]:
    """Returns a strategy for the values of a key of this kind."""
    if isinstance(kind, Flag):
        return BOOLEANS
    if isinstance(kind, Choice):
        return one_or_more(st.sampled_from(kind.words))
    if isinstance(kind, HexId):
        return one_or_more(
            st.integers(0, 16**kind.digits - 1).map(lambda n: f"{n:0{kind.digits}x}") | st.just("") | st.just("0*")
        )
    if isinstance(kind, Amount):
        return one_or_more(amounts(kind.dimension, ("", "=", ">", ">=", "<", "<=")))
    if isinstance(kind, Network):
        return one_or_more(st.ip_addresses().map(str) | st.sampled_from(["192.0.2.0/24", "2001:db8::/32"]))
    assert isinstance(kind, Text)
    text = TEXT if is_taken(kind, "a") else TEXT.map(lambda text: f"/dev/{text}")
    return one_or_more(text.filter(lambda t: is_taken(kind, t)))


GROUP = st.dictionaries(st.sampled_from(["a", "b-c", "d/e f", "enabled"]), one_or_more(TEXT), max_size=2)
PROPERTIES = st.dictionaries(st.sampled_from(["ID_A", "B.é"]), one_or_more(TEXT), max_size=2)
WHENS = some_of(
    {
        "dmi": st.dictionaries(st.sampled_from(["product_name", "sys_vendor"]), one_or_more(TEXT), max_size=2),
        "devicetree": st.dictionaries(st.sampled_from(["model", "a/b,c"]), one_or_more(TEXT), max_size=2),
        "arch": one_or_more(st.sampled_from(["x86_64", "arm*"])),
        "node_name": one_or_more(TEXT),
        "path": one_or_more(PATHS),
    },
    least=1,
)
RESERVES = st.integers(0, 2**63 - 1) | st.integers(0, 99).map(lambda n: f"{n}%") | st.just("12.5 %")
COMMON = {
    "when": WHENS,
    "reserve": RESERVES,
    "reduce": st.sampled_from(["sum", "min", "max"]),
    "expect": st.integers(1, 2**63 - 1),
    "adopt": BOOLEANS,
}


@st.composite
def device_resources(draw: st.DrawFn, detector: DeviceDetector) -> dict[str, Any]:
    keys = {key: values(k.kind) for key, k in detector.keys.items()}
    keys |= {"attributes": GROUP, "properties": PROPERTIES}
    needed = (
        {detector.required_subsystem.key: keys[detector.required_subsystem.key]} if detector.required_subsystem else {}
    )
    tables = st.fixed_dictionaries(needed, optional={k: v for k, v in keys.items() if k not in needed})
    made: dict[str, Any] = {detector.name: draw(one_or_more(tables))}
    made |= draw(some_of(COMMON | {"slots": st.integers(1, 10**9), "enabled": st.just(True)}))
    if draw(BOOLEANS):
        made["except"] = draw(one_or_more(some_of({k: v for k, v in keys.items() if k in detector.keys}, least=1)))
    measures = [key for key, k in detector.keys.items() if isinstance(k.kind, Amount)]
    if draw(BOOLEANS):
        made["measure"] = draw(st.sampled_from(["count", *measures]))
    if made.get("measure", "count") != "count":
        kind = detector.keys[made["measure"]].kind
        assert isinstance(kind, Amount)
        if UNITS[kind.dimension]:
            made["unit"] = draw(st.sampled_from([*UNITS[kind.dimension]]))
        if draw(BOOLEANS):
            made["fallback"] = draw(amounts(kind.dimension, ("",)))
    return made


COMMANDS = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))).map(
    lambda words: ["/x", *(f"-{word}" for word in words)]
)
NUMBER_TABLES = {
    "static": st.fixed_dictionaries({"quantity": st.integers(0, 2**48)}),
    "file": st.fixed_dictionaries({"path": TEXT.map(lambda s: f"/{s}")}, optional={"max_age": st.just("2h")}),
    "exec": st.fixed_dictionaries({"command": COMMANDS}),
}
VALUE_RESOURCES = st.one_of(
    *(st.fixed_dictionaries({name: one_or_more(made)}, optional=COMMON) for name, made in NUMBER_TABLES.items())
)
DEVICE_DETECTORS = [d for name in detector_names() if isinstance(d := load_detector(name), DeviceDetector)]
NAMES = st.from_regex(r"[a-z]{1,5}(\.[a-z]{1,5})?/[A-Za-z0-9]([a-z._-]{0,4}[a-z0-9])?", fullmatch=True).filter(
    lambda n: not name_problem(n)
)
RESOURCES = st.one_of(VALUE_RESOURCES, *map(device_resources, DEVICE_DETECTORS))
SETTINGS = some_of(
    {"kubeconfig": TEXT.map(lambda s: f"/{s}"), "node_name": st.just("n.1"), "observe": BOOLEANS, "condition": BOOLEANS}
)
DOCUMENTS = st.fixed_dictionaries(
    {"resources": st.dictionaries(NAMES, RESOURCES, max_size=3)}, optional={"kubernetes": SETTINGS}
)


def written(document: Mapping[str, Any]) -> str:
    return "".join(f"{toml_key(key)} = {toml_value(value)}\n" for key, value in document.items())


def without_source(config: Config) -> Config:
    return replace(config, resources=tuple(replace(r, source="") for r in config.resources))


@given(DOCUMENTS)
def test_a_valid_document_has_no_error_and_survives_show(document: dict[str, Any]) -> None:
    first = loaded(written(document))
    config = without_source(first.require())
    assert [r.name for r in config.resources] == [*document["resources"]]
    second = loaded(show(first))
    assert without_source(second.require()) == config
    assert second.values == first.values


@given(st.recursive(ANY_TEXT | NUMBERS | BOOLEANS, lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner)))
def test_every_value_can_be_written(value: object) -> None:
    assert parse_toml(f"a = {toml_value(value)}") == {"a": value}


WORDS = [*RESOURCE_KEYS, *WHEN_KEYS, *SETTINGS_TABLES, *detector_names(), *SETTINGS_TABLES["kubernetes"]]
WORDS += ["resources", "vendor", "size", "max_speed", "path"]
WORDS += ["attributes", "properties", "example", "com", "example.com/x", "vpd", "../x", "quantity", "command"]
WORDS += ["hub", ""]
KEYS = st.sampled_from(WORDS) | ANY_TEXT.map(lambda s: s[:3])
VALUES = ["10%", ">=1GB", "1Gbit/s", "0529", "/x", "GiB", "sum", "size", "\x1b[2J", "[z-a]", "2h", "n" * 300]
LEAVES = st.one_of(BOOLEANS, NUMBERS, KEYS, st.sampled_from(VALUES))
ANYTHING = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)


def check(text: str) -> Loaded:
    """Asserts what must be true for every file."""
    configuration = loaded(text)
    messages = [p.reason() for p in configuration.problems]
    assert all(line.isprintable() for line in messages)
    assert all(why.isprintable() and name.isprintable() for name, why in configuration.config.broken.items())
    assert not {r.name for r in configuration.config.resources} & {*configuration.config.broken}
    shown = loaded(show(configuration))
    assert not shown.problems
    assert shown.config.settings == configuration.config.settings
    assert shown.config.resources == tuple(replace(r, source=shown.files[0]) for r in configuration.config.resources)
    return configuration


SNIPPETS = ['[resources."example.com/x"]', "[resources.example.com]", "[kubernetes]", "\nusb = {}", "a.b", "true"]
SNIPPETS += ["[[", "]]", "\n", '"', "'", "'''", "=", "{", "}", ",", "#", "\\u0000", "\0", "\r", "\ufeff"]
SNIPPETS += ["0529", "1e400", "inf", "nan", "2020-01-01T00:00:00Z", "0x"]


@given(st.lists(st.sampled_from(SNIPPETS) | ANY_TEXT.map(lambda s: s[:4]), max_size=30).map("".join))
@example("a=inf")
@example("[resources]\na=nan")
@example("[kubernetes]\nobserve=1e400")
@example('"')
@example("a = [\n\n")
@example("a = " + "9" * 5000)
@example("a = " + "[" * 5000)
@example("a=" + "\r" * 30)
def test_any_text_gives_problems_with_their_lines_and_no_exception(text: str) -> None:
    problems = check(text).problems
    assert all(1 <= p.line <= text.count("\n") + 1 for p in problems if not p.path), "what is not TOML has its line"


@given(st.binary(max_size=60))
def test_any_bytes_give_no_exception(raw: bytes) -> None:
    assert all(p.reason().isprintable() for p in loaded(raw).problems)
