"""The screen: what is said is what is shown, whatever it is, on a terminal of any width and in a pipe."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capacityd.cli.terminal import ROLES, Screen, progress
from capacityd.cli.text import as_json, clean
from tests import ROOT
from tests.unit.nodes import apply_patch, node
from tests.unit.server import Request, answer, review, serve
from tests.unit.terminals import Case, in_pipe, without_colour, written

MARKUP = "[red]x[/red] [link=http://a]y[/link] :smile: [/] 'z' 127.0.0.1 None \\[b]"
NASTY = "Mouse\x1b]0;owned\x07\x9b31m\u202e\r\b\t"

Print = Callable[[Screen], None]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What something prints; columns: on a terminal so wide, 0: in a pipe."""

    def shown(prints: Print, columns: int = 0, **environment: str) -> str:
        for name in ("NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name, raising=False)
        for name, value in ({"COLUMNS": str(columns), "FORCE_COLOR": "1"} if columns else {}).items():
            monkeypatch.setenv(name, value)
        for name, value in {"TERM": "xterm", **environment}.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        prints(Screen())
        return capsys.readouterr().out

    return shown


@pytest.mark.parametrize("columns", [0, 120])
def test_what_looks_like_markup_is_text(columns: int, shown: Callable[..., str]) -> None:
    def prints(screen: Screen) -> None:
        screen.line(MARKUP)
        screen.copyable(MARKUP)
        screen.table([("a", MARKUP)], ("H", "[b]I"))

    assert without_colour(shown(prints, columns)).splitlines() == [MARKUP, MARKUP, "H  [b]I", f"a  {MARKUP}"]
    assert "\x1b" not in shown(lambda screen: screen.line(MARKUP), columns), "and nothing in it is highlighted"


@pytest.mark.parametrize("columns", [0, 120, 40])
def test_nothing_reaches_the_terminal_raw(columns: int, shown: Callable[..., str]) -> None:
    def prints(screen: Screen) -> None:
        screen.line(NASTY, (NASTY, "bad"), indent=2)
        screen.table([(NASTY, (NASTY, "good"), NASTY)], (NASTY, NASTY, NASTY))

    said = without_colour(shown(prints, columns))
    assert "owned" in said
    assert all(char.isprintable() or char == "\n" for char in said)


def test_json_holds_nothing_raw_and_means_the_same() -> None:
    said = as_json({NASTY: [NASTY, "→", "\U000e0001"]})
    assert all(char.isprintable() or char == "\n" for char in said)
    assert "→" in said
    assert json.loads(said) == {NASTY: [NASTY, "→", "\U000e0001"]}


def test_columns_are_aligned_and_a_narrow_terminal_loses_nothing(shown: Callable[..., str]) -> None:
    rows: list[Sequence[str]] = [
        ("example.com/dongle", "4", "a reason of some length"),
        ("example.com/nic", "10000", ""),
    ]
    header = ("RESOURCE", "QUANTITY", "")

    def prints(screen: Screen) -> None:
        screen.table(rows, header, indent=2, right={1})

    wide = [
        "  RESOURCE            QUANTITY",
        "  example.com/dongle         4  a reason of some length",
        "  example.com/nic        10000",
    ]
    assert shown(prints).splitlines() == wide
    assert without_colour(shown(prints, 80)).splitlines() == wide
    assert without_colour(shown(prints, 40)).splitlines() == [
        "  example.com/dongle  quantity 4",
        "      a reason of some length",
        "  example.com/nic  quantity 10000",
    ]


def test_the_last_column_is_wrapped_as_long_as_it_has_room(shown: Callable[..., str]) -> None:
    said = shown(lambda screen: screen.table([("name", "word " * 20)]), 50)
    assert [line.count("word") for line in said.splitlines()] == [9, 9, 2]
    assert all(line.startswith("      word") for line in said.splitlines()[1:])


def test_wide_characters_take_two_columns(shown: Callable[..., str]) -> None:
    said = shown(lambda screen: screen.table([("加密狗", "4"), ("dongle", "4")]), 80)
    assert said.splitlines() == ["加密狗  4", "dongle  4"]


@given(
    st.lists(st.lists(st.tuples(st.text(max_size=40), st.sampled_from(sorted(ROLES))), min_size=1, max_size=4)),
    st.integers(20, 120),
)
def test_any_text_is_shown_whole(rows: list[list[tuple[str, str]]], columns: int) -> None:
    """But for white space, which is what wrapping changes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORCE_COLOR", "1")
        patch.setenv("COLUMNS", str(columns))
        patch.setenv("TERM", "xterm")
        patch.delenv("NO_COLOR", raising=False)
        said: list[str] = []
        patch.setattr("capacityd.cli.terminal._print", lambda lines: said.extend(lines))
        Screen().table(rows)
        for row in rows:
            Screen().line(*row)
    wanted = "".join(clean(text) for row in rows for text, _ in row)
    assert sorted("".join(without_colour("".join(said)).split())) == sorted(2 * "".join(wanted.split()))


def test_only_a_terminal_loads_rich() -> None:
    script = f"""
import sys; sys.path.insert(0, {str(ROOT / "agent")!r})
from capacityd.cli import run
assert run(["devices", "--machine", {str(ROOT / "docs/tour/machine.json")!r}]) == 0
print(sorted(m for m in sys.modules if m.split(".")[0] == "rich"))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_progress_is_for_terminals_only(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # a log in colour is still a log
    with progress("working") as say:
        say("still working")
    assert capsys.readouterr() == ("", "")


def test_without_rich_a_terminal_is_shown_what_a_pipe_is(
    shown: Callable[..., str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def prints(screen: Screen) -> None:
        screen.line(("a", "bad"), "b", indent=2)
        screen.copyable(("c", "code"))
        screen.table([("d", ("e", "good"), "f" * 100)], ("H", "I", "J"), right=[1])

    piped = shown(prints)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert shown(prints, 40) == piped
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress("working") as say:
        say("still working")
    assert capsys.readouterr() == ("", "")


def test_apply_shows_how_long_it_waits_for_the_kubelet() -> None:
    """The server is a double: it answers as an API server whose kubelet follows at the second time of asking."""

    def script() -> Callable[[Request], bytes]:
        there, asked = [node()], [0]

        def respond(request: Request) -> bytes:
            if request.path.endswith("selfsubjectreviews"):
                return review("system:node:n1")
            if request.path.endswith("events"):
                return answer(201, json.loads(request.body))
            if request.method == "PATCH":
                there[0] = apply_patch(there[0], json.loads(request.body))
            elif there[0]["status"]["capacity"]:
                asked[0] += 1
                if asked[0] > 1:
                    there[0]["status"]["allocatable"] = dict(there[0]["status"]["capacity"])
            return answer(200, there[0])

        return respond

    def prepare(folder: Path) -> None:
        (folder / "c.toml").write_text('[resources."example.com/seats"]\nstatic = { quantity = 4 }\n')
        context = {"name": "c", "context": {"cluster": "k", "user": "u"}}
        cluster = {"name": "k", "cluster": {"server": server.url}}
        user = {"name": "u", "user": {"token": "secret-token"}}
        parts = {"current-context": "c", "contexts": [context], "clusters": [cluster], "users": [user]}
        (folder / "kubelet.conf").write_text(json.dumps(parts))

    case = Case("apply --wait 60s --config c.toml --kubeconfig kubelet.conf", prepare)
    with serve(script()) as server:
        said = without_colour(written(case))
        assert "waiting for the kubelet: allocatable of example.com/seats, 0 of 60 s" in said
        assert "+  example.com/seats  4  found\n1 set; written\n" in said
        assert "capacityd: allocatable has followed, after " in said
        assert said.endswith("[exit status 0]\n")
    with serve(script()) as server:
        said = in_pipe(case)
        assert "waiting" not in said
        assert "\x1b" not in said
        assert "capacityd: allocatable has followed, after " in said
