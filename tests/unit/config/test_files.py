"""Which configuration files are read, in which order, and which are rejected."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from capacityd.config import Loaded, load
from capacityd.config.files import files_of_service
from capacityd.config.saved import changed_files, stamps_of
from tests.support.forked import forked
from tests.support.reachable import make_reachable

LIB, LOCAL_LIB, ETC = (f"{place}/capacityd/conf.d" for place in ("usr/lib", "usr/local/lib", "etc"))
MAIN = "etc/capacityd/capacityd.toml"
OTHER_USER = 54321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")
IS_EMPTY = (
    "is empty, as after a power failure: write it again or remove it; "
    "if it is meant to be empty, write a comment into it"
)


def resource(name: str, quantity: int = 1) -> str:
    return f'[resources."example.com/{name}"]\nstatic = {{ quantity = {quantity} }}\n'


A, B = resource("a"), resource("b")


def load_files(root: Path, files: Mapping[str, str]) -> Loaded:
    """Creates files by their paths below the root, and loads them.

    The content "-> PATH" creates a link, "/" a folder, and "|" a named pipe.
    """
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("-> "):
            file.symlink_to(content[3:])
        elif content == "/":
            file.mkdir()
        elif content == "|":
            os.mkfifo(file)
        else:
            file.write_text(content)
    return load(root=str(root))


def quantities(configuration: Loaded) -> dict[str, object]:
    """The quantity of each resource, such as {"a": 1}."""
    return {r.name.partition("/")[2]: r.tables[0].settings["quantity"] for r in configuration.config.resources}


def files_read(configuration: Loaded, root: Path) -> list[str]:
    return [os.path.relpath(file, root) for file in configuration.files]


def problems(configuration: Loaded, root: Path) -> list[str]:
    """The problems, with paths relative to the root."""
    return [problem.located_text().replace(f"{root}/", "") for problem in configuration.problems]


def test_without_any_file_nothing_is_configured(tmp_path: Path) -> None:
    configuration = load(root=str(tmp_path))
    assert configuration.require().resources == ()
    assert configuration.config.complete
    assert (configuration.files, configuration.problems) == ((), ())


# the files, the files that are read, and the resulting quantities
READ: dict[str, tuple[dict[str, str], list[str], dict[str, int]]] = {
    "/usr/local masks /usr": ({f"{LIB}/5.toml": A, f"{LOCAL_LIB}/5.toml": B}, [f"{LOCAL_LIB}/5.toml"], {"b": 1}),
    "/etc masks /usr/local": ({f"{LOCAL_LIB}/5.toml": A, f"{ETC}/5.toml": B}, [f"{ETC}/5.toml"], {"b": 1}),
    "/etc masks /usr": ({f"{LIB}/5.toml": A, f"{ETC}/5.toml": B}, [f"{ETC}/5.toml"], {"b": 1}),
    "an empty file masks": ({f"{LIB}/5.toml": A, MAIN: B, f"{ETC}/5.toml": ""}, [MAIN], {"b": 1}),
    "a blank file masks": ({f"{LIB}/5.toml": A, f"{LOCAL_LIB}/5.toml": B, f"{ETC}/5.toml": "\n \n"}, [], {}),
    "a comment is no configuration": ({MAIN: "# nothing yet\n", f"{ETC}/5.toml": A}, [MAIN, f"{ETC}/5.toml"], {"a": 1}),
    "a link to /dev/null may mask nothing": ({MAIN: A, f"{ETC}/5.toml": "-> /dev/null"}, [MAIN], {"a": 1}),
    "a link to /dev/null masks": (
        {f"{LIB}/5.toml": A, MAIN: B, f"{LOCAL_LIB}/5.toml": "-> /dev/null"},
        [MAIN],
        {"b": 1},
    ),
    "a link is followed": ({"elsewhere": A, f"{ETC}/a.toml": "-> ../../../elsewhere"}, [f"{ETC}/a.toml"], {"a": 1}),
    "a folder may be a link": ({"other/capacityd.toml": A, "etc/capacityd": "-> ../other"}, [MAIN], {"a": 1}),
    "a byte order mark is left out": ({MAIN: f"\ufeff{A}"}, [MAIN], {"a": 1}),
    "lines end as in Windows": ({MAIN: A.replace("\n", "\r\n")}, [MAIN], {"a": 1}),
}


@pytest.mark.parametrize(("files", "read", "expected"), READ.values(), ids=READ)
def test_files_of_later_folders_mask_those_of_the_same_name(
    tmp_path: Path, files: dict[str, str], read: list[str], expected: dict[str, int]
) -> None:
    configuration = load_files(tmp_path, files)
    assert configuration.problems == ()
    assert files_read(configuration, tmp_path) == read
    assert quantities(configuration) == expected


def test_later_files_replace_earlier_ones(tmp_path: Path) -> None:
    """The order is: the vendors' files by name, the main file, the administrator's files by name. The last one wins."""
    order = [
        f"{LOCAL_LIB}/10-a.toml",
        f"{LIB}/20-b.toml",
        f"{LOCAL_LIB}/30-c.toml",
        f"{LIB}/90-z.toml",
        MAIN,
        f"{ETC}/05-a.toml",
        f"{ETC}/40-b.toml",
    ]
    configuration = load_files(tmp_path, {path: resource("all", n) for n, path in enumerate(order)})
    assert files_read(configuration, tmp_path) == order
    assert quantities(configuration) == {"all": 6}
    assert configuration.config.resources[0].source == str(tmp_path / ETC / "40-b.toml")


def test_a_later_file_replaces_a_whole_resource_or_disables_it(tmp_path: Path) -> None:
    """A disabled resource is not checked."""
    disabled = '[resources."example.com/a"]\nenabled = false\nzzz = 1\nusb = 5\n'
    header = '[resources."example.com/x"]\n'
    files = {
        MAIN: f"{A}{header}usb = {{}}\nslots = 4\nadopt = true\n",
        f"{ETC}/a.toml": f"{disabled}{header}usb = {{ hub = true }}\n",
    }
    (x,) = load_files(tmp_path, files).require().resources
    assert (x.name, x.slots, x.adopt) == ("example.com/x", 1, False)
    assert [test.text for test in x.tables[0].tests] == ["true"]


def test_an_error_in_a_later_file_breaks_the_resource(tmp_path: Path) -> None:
    """The definition in the earlier file is not used, because the later file was meant to replace it."""
    configuration = load_files(tmp_path, {MAIN: A + B, f"{ETC}/1.toml": '[resources."example.com/a"]\nstatic = {}\n'})
    assert quantities(configuration) == {"b": 1}
    assert problems(configuration, tmp_path) == [
        f'{ETC}/1.toml:2: [resources."example.com/a".static] quantity: is required (the number)'
    ]
    assert configuration.config.broken == {"example.com/a": configuration.problems[0].public_text()}
    assert configuration.config.complete


def test_an_error_in_a_replaced_definition_does_not_count(tmp_path: Path) -> None:
    files = {
        f"{LIB}/1.toml": '[kubernetes]\nnode_name = 5\n[resources."example.com/a"]\nstatic = {}\n',
        MAIN: f'[kubernetes]\nnode_name = "n"\n{A}',
    }
    configuration = load_files(tmp_path, files)
    assert configuration.require().settings.node_name == "n"
    assert quantities(configuration) == {"a": 1}


def test_settings_merge_key_by_key(tmp_path: Path) -> None:
    files = {
        f"{LIB}/1.toml": '[kubernetes]\nkubeconfig = "/a"\nobserve = true\n',
        MAIN: '[kubernetes]\nkubeconfig = "/b"\nnode_name = "n"\n',
        f"{ETC}/1x.toml": "[kubernetes]\ncondition = false\nobserve = false\n",
    }
    configuration = load_files(tmp_path, files)
    settings = configuration.require().settings
    assert (settings.kubeconfig, settings.node_name, settings.observe, settings.condition) == ("/b", "n", False, False)
    origins = configuration.origins["kubernetes"]
    assert {key: os.path.relpath(origin.file, tmp_path) for key, origin in origins.items()} == {
        "kubeconfig": MAIN,
        "observe": f"{ETC}/1x.toml",
        "node_name": MAIN,
        "condition": f"{ETC}/1x.toml",
    }


def test_an_invalid_file_that_sets_observe_is_not_overridden(tmp_path: Path) -> None:
    """As long as the file has an error, nothing is written to the Node."""
    files = {MAIN: "[kubernetes]\nobserve = true\nnode_nam = 1", f"{ETC}/1.toml": "[kubernetes]\nobserve = false"}
    assert load_files(tmp_path, files).config.settings.observe


# the content of a file, and the end of the error
UNUSABLE = {
    "a folder": ("/", "is not a regular file"),
    "a pipe": ("|", "is not a regular file"),
    "another device than null": ("-> /dev/zero", "is not a regular file"),
    "a link to nowhere": ("-> nowhere", "is a dangling symbolic link; fix or remove it"),
    "a link to itself": ("-> 1.toml", "cannot be read: Too many levels of symbolic links"),
    "too large": ("#" * (2**20 + 1), "is larger than 1 MiB; is it the right file?"),
    "zero bytes": ("\0" * 9, "contains only zero bytes, as after a power failure: write it again or remove it"),
    "zero bytes at the end": (f"{A}\0", "the file contains zero bytes, as after a power failure; write it again"),
}


@pytest.mark.parametrize(("content", "error"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_file_is_an_error_and_masks_the_vendors(tmp_path: Path, content: str, error: str) -> None:
    configuration = load_files(tmp_path, {f"{LIB}/1.toml": B, f"{ETC}/1.toml": content, f"{ETC}/2-good.toml": A})
    (problem,) = configuration.problems
    assert problem.file == str(tmp_path / ETC / "1.toml")
    assert problem.message.endswith(error)
    assert quantities(configuration) == {"a": 1}
    assert not configuration.config.complete


WRONG_NAME = 'is not read, because its name does not end with ".toml"; rename or remove it'
MOVE_FILE, MOVE_FILES = f"is not read; move it to {ETC}/NAME.toml", f"is not read; move its files to {ETC}"
DANGLING = "is a dangling symbolic link; fix or remove it"
# a file in addition to good ones, and the problem
REPORTED = {
    f"{ETC}/60.conf": f"{ETC}/60.conf: {WRONG_NAME}",
    f"{ETC}/60.TOML": f"{ETC}/60.TOML: {WRONG_NAME}",
    f"{ETC}/sub/1.toml": f"{ETC}/sub: {WRONG_NAME}",
    "etc/capacityd/60-x.toml": f"etc/capacityd/60-x.toml: {MOVE_FILE}",
    "etc/capacityd/Capacityd.TOML": f"etc/capacityd/Capacityd.TOML: {MOVE_FILE}",
    "etc/capacityd/config.d/x.toml": f"etc/capacityd/config.d: {MOVE_FILES}",
    "etc/capacityd.toml": f"etc/capacityd.toml: {MOVE_FILE}",
    "etc/capacityd.d/x.toml": f"etc/capacityd.d: {MOVE_FILES}",
    "usr/lib/capacityd/x.toml": f"usr/lib/capacityd/x.toml: {MOVE_FILE}",
    "run/capacityd/conf.d/x.toml": f"run/capacityd/conf.d: {MOVE_FILES}",
    f"{ETC}/\x1b[2J\n.toml": rf"{ETC}/\x1b[2J\n.toml:1: x: unknown key; must be one of resources, kubernetes, service",
}


@pytest.mark.parametrize(("path", "problem"), REPORTED.items(), ids=REPORTED.values())
def test_a_file_with_a_wrong_name_or_in_a_wrong_place_is_reported(tmp_path: Path, path: str, problem: str) -> None:
    """The file may be meant to configure something."""
    good = {MAIN: A, f"{LIB}/1.toml": "# nothing", f"{ETC}/1.toml": B, "etc/capacityd/kubeconfig": ""}
    configuration = load_files(tmp_path, {**good, path: "x = 1"})
    assert problems(configuration, tmp_path) == [problem]
    assert quantities(configuration) == {"a": 1, "b": 1}
    assert not configuration.config.complete


def test_what_editors_and_package_managers_leave_is_not_read_and_not_reported(tmp_path: Path) -> None:
    names = ["a.toml~", ".#b.toml", "d.toml.2026", "README", "e.toml.dpkg-old", ".h.toml", ".h.toml.swp", "#h.toml#"]
    configuration = load_files(tmp_path, {f"{ETC}/{name}": "=" for name in names})
    assert configuration.require().resources == ()
    assert [*configuration.skipped] == sorted(f"{tmp_path}/{ETC}/{name}" for name in names)


@pytest.mark.parametrize("path", [ETC, LIB, "etc/capacityd"])
def test_a_dangling_folder_is_not_an_empty_one(tmp_path: Path, path: str) -> None:
    """If it were read as empty, every resource that it configures would be removed from the Node."""
    configuration = load_files(tmp_path, {f"{LOCAL_LIB}/a.toml": A, path: "-> nowhere"})
    listed = ETC if path == "etc/capacityd" else path
    assert problems(configuration, tmp_path) == [f"{listed}: {DANGLING}"]
    assert quantities(configuration) == {"a": 1}
    assert not configuration.config.complete


@pytest.mark.parametrize("content", [b"", b" \t\r\n\n", b"\xef\xbb\xbf\n"])
@pytest.mark.parametrize("place", [MAIN, f"{LIB}/1.toml", f"{LOCAL_LIB}/1.toml", f"{ETC}/1.toml"])
def test_an_empty_file_that_masks_nothing_is_an_error(tmp_path: Path, place: str, content: bytes) -> None:
    """The file has probably lost its content, so no resource may be removed because of it."""
    load_files(tmp_path, {f"{ETC}/2.toml": A, place: B})
    (tmp_path / place).write_bytes(content)
    for configuration in (load(root=str(tmp_path)), load(str(tmp_path / place))):
        assert problems(configuration, tmp_path) == [f"{place}:1: {IS_EMPTY}"]
        assert not configuration.config.complete
    assert quantities(load(root=str(tmp_path))) == {"a": 1}


# a file or a folder, its mode, and the command that fixes it
MODES = [
    (f"{ETC}/a.toml", 0o646, "chmod go-w"),
    pytest.param(f"{ETC}/a.toml", 0o044, "chmod u+r", marks=as_root),
    (ETC, 0o777, "chmod go-w"),
    ("etc/capacityd", 0o777, "chmod go-w"),
    pytest.param(ETC, 0o775, "chmod go-w", marks=as_root),  # an ordinary user's group may write
    pytest.param(ETC, 0o055, "chmod u+x", marks=as_root),
]


@pytest.mark.parametrize(("path", "mode", "remedy"), MODES)
def test_a_file_that_others_can_change_or_that_the_service_cannot_read_is_an_error(
    tmp_path: Path, path: str, mode: int, remedy: str
) -> None:
    """The service is root without CAP_DAC_OVERRIDE."""
    load_files(tmp_path, {f"{ETC}/a.toml": A, f"{LIB}/b.toml": B})
    (tmp_path / path).chmod(mode)
    configuration = load(root=str(tmp_path))
    (tmp_path / path).chmod(0o755)
    problem, *_ = configuration.problems
    assert problem.file == str(tmp_path / (path if path.endswith(".toml") else ETC))
    assert problem.message.endswith(f": {remedy} {tmp_path / path}")
    assert quantities(configuration) == {"b": 1}
    assert not configuration.config.complete


@as_root
def test_a_file_of_another_user_is_not_read(tmp_path: Path) -> None:
    """The owner of such a file could name programs to run as root."""
    load_files(tmp_path, {f"{ETC}/a.toml": A, f"{LIB}/b.toml": B})
    path = tmp_path / ETC / "a.toml"
    os.chown(path, OTHER_USER, OTHER_USER)
    configuration = load(root=str(tmp_path))
    state = "(owner uid 54321, mode 0644)"
    why = f"does not belong to root {state}, but the configuration names programs that run as root: chown root {path}"
    assert [problem.public_text() for problem in configuration.problems] == [f"{path}: {why}"]
    assert quantities(configuration) == {"b": 1}
    assert not configuration.config.complete


@as_root
def test_a_user_who_names_a_file_trusts_its_owner_and_its_group(tmp_path: Path) -> None:
    """So root can check the files in a user's checkout, also with the umask 002. Others may not be able to change
    them."""
    folder, file = tmp_path / "conf.d", tmp_path / "conf.d" / "a.toml"
    load_files(tmp_path, {"conf.d/a.toml": A})
    for path in (folder, file):
        os.chown(path, OTHER_USER, OTHER_USER)
        path.chmod(path.stat().st_mode | 0o020)
    assert load(str(folder)).require()
    assert load(str(file)).require()
    file.chmod(0o666)
    for named in (folder, file):
        (problem,) = load(str(named)).problems
        assert problem.message.endswith(f": chmod go-w {file}")


@pytest.mark.other_user
def test_a_file_that_this_user_may_not_read_is_an_error() -> None:
    with tempfile.TemporaryDirectory() as folder:  # not tmp_path, which other users cannot enter
        root = Path(folder)
        root.chmod(0o755)
        load_files(root, {MAIN: A, f"{ETC}/b.toml": B, f"{LOCAL_LIB}/c.toml": resource("c")})
        (root / MAIN).chmod(0o000)
        (root / LOCAL_LIB).chmod(0o000)

        def as_nobody() -> Loaded:
            if os.getuid() == 0:  # root ignores permissions
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            return load(root=folder)

        configuration = forked(as_nobody)
        (root / LOCAL_LIB).chmod(0o700)
        why = "is not readable by this user; run as root, or grant read permission"
        assert problems(configuration, root) == [f"{LOCAL_LIB}: {why}", f"{MAIN}: {why}"]
        assert quantities(configuration) == {"b": 1}
        assert not configuration.config.complete


def test_each_folder_is_listed_with_the_files_that_are_read(tmp_path: Path) -> None:
    """`config check` shows this list."""
    files = {f"{LIB}/5.toml": A, f"{LIB}/6.toml": A, MAIN: B, f"{ETC}/5.toml": "", f"{ETC}/.7.toml": A}
    configuration = load_files(tmp_path, files)
    assert {os.path.relpath(folder, tmp_path): names for folder, names in configuration.folders.items()} == {
        LIB: ("5.toml", "6.toml"),
        LOCAL_LIB: None,
        "etc/capacityd": ("capacityd.toml",),
        ETC: ("5.toml",),
    }


def test_with_a_path_no_other_files_are_read(tmp_path: Path) -> None:
    """The path of --config is that of a file of any name, or of a folder."""
    load_files(tmp_path, {MAIN: A, "x": resource("x"), "d/2.toml": resource("a", 2), "d/1.toml": A, "d/x.conf": "="})
    assert quantities(load(str(tmp_path / "x"), root=str(tmp_path))) == {"x": 1}
    configuration = load(str(tmp_path / "d"))
    assert configuration.require()
    assert quantities(configuration) == {"a": 2}
    assert files_read(configuration, tmp_path) == ["d/1.toml", "d/2.toml"]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("none", "no such file or folder"),
        ("file/", "no such file or folder"),
        ("", "contains no file whose name ends with .toml"),
        ("link", DANGLING),
    ],
)
def test_a_path_without_configuration_files_is_an_error(tmp_path: Path, path: str, why: str) -> None:
    load_files(tmp_path, {"file": A, "link": "-> nowhere"})
    configuration = load(f"{tmp_path}/{path}")
    assert [problem.public_text() for problem in configuration.problems] == [f"{tmp_path}/{path}: {why}"]
    assert not configuration.config.complete


@pytest.mark.parametrize(
    "content", ["a = SECRET", "[SECRET]", '[resources."example.com/x"]\nstatic = "SECRET"', "[resources.SECRET]"]
)
@pytest.mark.parametrize(
    ("file_mode", "folder_mode", "private"), [(0o644, 0o755, False), (0o640, 0o755, True), (0o644, 0o750, True)]
)
def test_only_a_user_who_may_read_a_private_file_sees_its_errors(
    tmp_path: Path, content: str, file_mode: int, folder_mode: int, private: bool
) -> None:
    """The public message contains only the file's path, and the command that shows the error."""
    make_reachable(tmp_path)
    path = tmp_path / ETC / "10.toml"
    load_files(tmp_path, {f"{ETC}/10.toml": content})
    path.chmod(file_mode)
    path.parent.chmod(folder_mode)
    for configuration in (load(root=str(tmp_path)), load(str(path)), load(str(path.parent))):
        (problem,) = configuration.problems
        broken = configuration.config.broken
        assert bool(broken) is content.startswith("[resources")
        assert "SECRET" in problem.located_text()
        assert problem.public_text().startswith(f"{path}:")
        assert ("sudo capacityd config check" in problem.public_text()) is private
        assert ("SECRET" in f"{problem.public_text()} {broken}") is not private


def test_each_resource_with_an_invalid_name_in_a_private_file_keeps_its_error(tmp_path: Path) -> None:
    make_reachable(tmp_path)
    path = tmp_path / "10.toml"
    path.write_text("[resources.SECRET1]\n[resources.SECRET2]")
    path.chmod(0o640)
    configuration = load(str(path))
    errors = [problem.public_text() for problem in configuration.problems]
    names = [f"resource 1 of {path}", f"resource 2 of {path}"]
    assert configuration.config.broken == dict(zip(names, errors, strict=True))


# files that have changed since the service read them


def test_added_saved_and_removed_files_have_changed(tmp_path: Path) -> None:
    make_reachable(tmp_path)
    kept, saved, removed, added = (tmp_path / f"{n}.toml" for n in range(4))
    path = str(tmp_path)
    for file in (kept, saved, removed):
        file.write_text("# a")
        os.utime(file, (1, 1))  # so that a later write changes the date
    stamps = stamps_of(path)
    assert stamps is not None
    assert changed_files(path, stamps) == ()
    saved.write_text("# b")
    removed.unlink()
    added.write_text("# d")
    (tmp_path / "notes").write_text("not read")
    assert changed_files(path, stamps) == (str(saved), str(removed), str(added))
    assert changed_files(path, None) == ()


def test_a_file_with_a_wrong_name_does_not_hide_a_saved_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "etc/capacityd/conf.d"
    folder.mkdir(parents=True)
    make_reachable(tmp_path)
    (folder / "1.tom").write_text("# a")
    monkeypatch.setattr("capacityd.config.saved.files_of_service", lambda _: files_of_service(str(tmp_path)))
    stamps = stamps_of(None)
    (folder / "2.toml").write_text("# b")
    assert changed_files(None, stamps) == (str(folder / "2.toml"),)


def test_a_link_that_leads_to_another_file_has_changed(tmp_path: Path) -> None:
    make_reachable(tmp_path)
    link = tmp_path / "1.toml"
    link.symlink_to("missing")
    stamps = stamps_of(str(link))
    (tmp_path / "missing").write_text("# now it is there")
    assert changed_files(str(link), stamps) == (str(link),)


def test_nothing_is_known_about_a_folder_that_cannot_be_read(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    assert stamps_of(missing) is None
    assert changed_files(missing, {"/a.toml": "1 1"}) == ()
