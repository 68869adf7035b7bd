"""Which configuration files are read, in which order, and which are rejected."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from capacityd.config import Loaded, load
from tests.support.forked import forked
from tests.support.reachable import make_reachable

LIB, LOCAL_LIB, ETC = (f"{place}/capacityd/conf.d" for place in ("usr/lib", "usr/local/lib", "etc"))
MAIN = "etc/capacityd/capacityd.toml"
OTHER = 54321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")


def resource(name: str, quantity: int = 1) -> str:
    return f'[resources."example.com/{name}"]\nstatic = {{ quantity = {quantity} }}\n'


A, B = resource("a"), resource("b")


def load_files(root: Path, files: Mapping[str, str]) -> Loaded:
    """Creates files by their paths below the root, and loads them. The content "-> PATH" creates a link."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            (root / path).symlink_to(text[3:])
        else:
            (root / path).write_text(text)
    return load(root=str(root))


def quantities(configuration: Loaded) -> dict[str, object]:
    """The quantity of each resource, such as {"a": 1}."""
    return {r.name.partition("/")[2]: r.tables[0].settings["quantity"] for r in configuration.config.resources}


def read_files(configuration: Loaded, root: Path) -> list[str]:
    return [os.path.relpath(file, root) for file in configuration.files]


def problems(configuration: Loaded, root: Path) -> list[str]:
    """The problems, with paths relative to the root."""
    return [p.reason().replace(f"{root}/", "") for p in configuration.problems]


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
    "an empty file masks": (
        {f"{LIB}/5.toml": A, f"{LIB}/6.toml": B, f"{ETC}/5.toml": ""},
        [f"{LIB}/6.toml"],
        {"b": 1},
    ),
    "a blank file masks": ({f"{LIB}/5.toml": A, f"{LOCAL_LIB}/5.toml": B, f"{ETC}/5.toml": "\n \n"}, [], {}),
    "a comment is no configuration": ({MAIN: "# nothing yet\n", f"{ETC}/5.toml": A}, [MAIN, f"{ETC}/5.toml"], {"a": 1}),
    "a link to /dev/null may mask nothing": ({MAIN: A, f"{ETC}/5.toml": "-> /dev/null"}, [MAIN], {"a": 1}),
    "a link to /dev/null masks": (
        {f"{LIB}/5.toml": A, f"{LIB}/6.toml": B, f"{LOCAL_LIB}/5.toml": "-> /dev/null"},
        [f"{LIB}/6.toml"],
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
    whole = load_files(tmp_path, files)
    assert whole.problems == ()
    assert read_files(whole, tmp_path) == read
    assert quantities(whole) == expected


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
    assert read_files(configuration, tmp_path) == order
    assert quantities(configuration) == {"all": 6}
    assert configuration.origins == {("resources", "example.com/all"): str(tmp_path / ETC / "40-b.toml")}
    assert configuration.config.resources[0].source == str(tmp_path / ETC / "40-b.toml")


def test_a_later_file_replaces_a_whole_resource_or_disables_it(tmp_path: Path) -> None:
    """A disabled resource is not checked."""
    whole = '[resources."example.com/x"]\nusb = {}\nslots = 4\nadopt = true\n'
    drop = '[resources."example.com/a"]\nenabled = false\nzzz = 1\nusb = 5\n'
    configuration = load_files(
        tmp_path, {MAIN: whole + A, f"{ETC}/a.toml": f'[resources."example.com/x"]\nusb = {{ hub = true }}\n{drop}'}
    )
    (x,) = configuration.require().resources
    assert (x.slots, x.adopt) == (1, False)
    assert [t.text for t in x.tables[0].tests] == ["true"]
    assert quantities(load_files(tmp_path, {f"{ETC}/b.toml": resource("a", 5) + drop.replace("/a", "/x")})) == {"a": 5}


def test_an_error_in_a_later_file_breaks_the_resource(tmp_path: Path) -> None:
    """The definition in the earlier file is not used, because the later file was meant to replace it."""
    configuration = load_files(tmp_path, {MAIN: A + B, f"{ETC}/1.toml": '[resources."example.com/a"]\nstatic = {}\n'})
    assert quantities(configuration) == {"b": 1}
    line = f'{ETC}/1.toml: [resources."example.com/a".static] quantity: is required (the number)'
    assert problems(configuration, tmp_path) == [line]
    assert {name: why.replace(f"{tmp_path}/", "") for name, why in configuration.config.broken.items()} == {
        "example.com/a": line
    }
    assert configuration.config.complete


def test_an_error_in_a_replaced_definition_does_not_count(tmp_path: Path) -> None:
    configuration = load_files(
        tmp_path,
        {
            f"{LIB}/1.toml": '[kubernetes]\nnode_name = 5\n[resources."example.com/a"]\nstatic = {}\n',
            MAIN: f'[kubernetes]\nnode_name = "n"\n{A}',
        },
    )
    assert configuration.require().settings.node_name == "n"
    assert quantities(configuration) == {"a": 1}


def test_settings_merge_key_by_key(tmp_path: Path) -> None:
    configuration = load_files(
        tmp_path,
        {
            f"{LIB}/1.toml": '[kubernetes]\nkubeconfig = "/a"\nobserve = true\n',
            MAIN: '[kubernetes]\nkubeconfig = "/b"\nnode_name = "n"\n',
            f"{ETC}/1x.toml": "[kubernetes]\ncondition = false\nobserve = false\n",
        },
    )
    settings = configuration.require().settings
    assert (settings.kubeconfig, settings.node_name, settings.observe, settings.condition) == ("/b", "n", False, False)
    assert {key: os.path.relpath(file, tmp_path) for key, file in configuration.origins.items()} == {
        ("kubernetes", "kubeconfig"): MAIN,
        ("kubernetes", "observe"): f"{ETC}/1x.toml",
        ("kubernetes", "node_name"): MAIN,
        ("kubernetes", "condition"): f"{ETC}/1x.toml",
    }


@pytest.mark.parametrize("later", [True, False])
def test_a_later_file_decides_whether_an_invalid_one_observes(tmp_path: Path, later: bool) -> None:
    place = f"{ETC}/1.toml" if later else f"{LIB}/1.toml"
    files = {MAIN: "[kubernetes]\nobserve = true\nnode_nam = 1", place: "[kubernetes]\nobserve = false"}
    assert load_files(tmp_path, files).config.settings.observe is not later


def written(mode: int) -> Callable[[Path], object]:
    """A function that writes a configuration file with these permissions."""

    def write(path: Path) -> None:
        path.write_text(A)
        path.chmod(mode)

    return write


# what is created in place of a file, the error, and the command that fixes it
UNUSABLE: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "a folder": (Path.mkdir, "is not a regular file", ""),
    "a link to nowhere": (lambda path: path.symlink_to("nowhere"), "is a dangling symbolic link; fix or remove it", ""),
    "a link to itself": (lambda path: path.symlink_to(path), "cannot be read: Too many levels of symbolic links", ""),
    "a pipe": (os.mkfifo, "is not a regular file", ""),
    "another device than null": (lambda path: path.symlink_to("/dev/zero"), "is not a regular file", ""),
    "too large": (lambda path: path.write_bytes(b"#" * (2**20 + 1)), "is larger than 1 MiB; is it the right file?", ""),
    "zero bytes": (
        lambda path: path.write_bytes(bytes(4096)),
        "contains only zero bytes, as after a power failure: write it again or remove it",
        "",
    ),
    "zero bytes at the end": (
        lambda path: path.write_bytes(A.encode() + bytes(512)),
        "is not valid TOML: ",
        "the file contains zero bytes, as after a power failure; write it again",
    ),
    "writable by everybody": (written(0o646), "is writable by everybody (owner ", "chmod go-w"),
    "not readable by its owner": (
        written(0o044),
        "mode 0044) is not readable by the service, which is root without capabilities",
        "chmod u+r",
    ),
}
AS_ROOT = {"not readable by its owner": as_root}


@pytest.mark.parametrize(
    ("make", "why", "remedy"),
    [pytest.param(*case, id=name, marks=AS_ROOT.get(name, ())) for name, case in UNUSABLE.items()],
)
def test_an_unusable_file_is_an_error_and_masks_the_vendors(
    tmp_path: Path, make: Callable[[Path], object], why: str, remedy: str
) -> None:
    path = tmp_path / ETC / "1.toml"
    load_files(tmp_path, {f"{ETC}/2-good.toml": A, f"{LIB}/1.toml": B})
    make(path)
    configuration = load(root=str(tmp_path))
    (problem,) = configuration.problems
    assert problem.file == str(path)
    assert why in problem.message
    assert problem.message.endswith(f": {remedy} {path}" if remedy.startswith("chmod") else remedy or why)
    assert quantities(configuration) == {"a": 1}
    assert not configuration.config.complete


@pytest.mark.parametrize("content", [b"", b"\n", b" \t\r\n\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
@pytest.mark.parametrize("place", [MAIN, f"{LIB}/1.toml", f"{LOCAL_LIB}/1.toml", f"{ETC}/1.toml"])
def test_an_empty_file_that_masks_nothing_is_an_error(tmp_path: Path, place: str, content: bytes) -> None:
    """The file has probably lost its content, so no resource may be removed because of it."""
    load_files(tmp_path, {f"{ETC}/2.toml": A, place: B})
    (tmp_path / place).write_bytes(content)
    for loaded in (load(root=str(tmp_path)), load(str(tmp_path / place))):
        (problem,) = loaded.problems
        assert problem.file == str(tmp_path / place)
        assert problem.message == (
            "is empty, as after a power failure: write it again or remove it; if it is meant to be empty, write a "
            "comment into it"
        )
        assert not loaded.config.complete
    assert quantities(load(root=str(tmp_path))) == {"a": 1}


@pytest.mark.parametrize(
    ("mode", "remedy"),
    [
        (0o777, "chmod go-w"),
        pytest.param(0o775, "chmod go-w", marks=as_root),  # an ordinary user's group may write
        pytest.param(
            0o055,
            "chmod u+x",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can list the folder of this test"),
        ),
    ],
)
@pytest.mark.parametrize("folder", [ETC, "etc/capacityd"])
def test_no_file_of_a_folder_that_others_can_change_is_read(
    tmp_path: Path, folder: str, mode: int, remedy: str
) -> None:
    """The service, which is root without CAP_DAC_OVERRIDE, cannot list a folder of every mode."""
    load_files(tmp_path, {f"{ETC}/a.toml": A, f"{LIB}/b.toml": B})
    (tmp_path / folder).chmod(mode)
    loaded = load(root=str(tmp_path))
    (tmp_path / folder).chmod(0o755)
    assert loaded.problems[0].file == str(tmp_path / ETC)
    assert loaded.problems[0].message.endswith(f": {remedy} {tmp_path / folder}")
    assert quantities(loaded) == {"b": 1}
    assert not loaded.config.complete


@as_root
def test_a_file_of_another_user_is_not_read(tmp_path: Path) -> None:
    """The owner of such a file could name programs to run as root."""
    load_files(tmp_path, {f"{ETC}/a.toml": A, f"{LIB}/b.toml": B})
    path = tmp_path / ETC / "a.toml"
    os.chown(path, OTHER, OTHER)
    loaded = load(root=str(tmp_path))
    state = "(owner uid 54321, mode 0644)"
    why = f"does not belong to root {state}, but the configuration names programs that run as root: chown root {path}"
    assert [problem.reason() for problem in loaded.problems] == [f"{path}: {why}"]
    assert quantities(loaded) == {"b": 1}
    assert not loaded.config.complete


@as_root
def test_a_user_who_names_a_file_trusts_its_owner_and_its_group(tmp_path: Path) -> None:
    """So root can check the files in a user's checkout, also with the umask 002. Others may not be able to change
    them."""
    folder, file = tmp_path / "conf.d", tmp_path / "conf.d" / "a.toml"
    load_files(tmp_path, {"conf.d/a.toml": A})
    for path in (folder, file):
        os.chown(path, OTHER, OTHER)
        path.chmod(path.stat().st_mode | 0o020)
    assert load(str(folder)).require()
    assert load(str(file)).require()
    file.chmod(0o666)
    for named in (folder, file):
        (problem,) = load(str(named)).problems
        assert problem.message.endswith(f": chmod go-w {file}")
    file.chmod(0o644)
    os.chown(file, OTHER + 1, 0)
    (problem,) = load(str(folder)).problems
    assert problem.message.endswith(f": chown root {file}")


def test_a_file_with_another_suffix_is_not_read_but_reported(tmp_path: Path) -> None:
    """Files that editors and package managers leave behind are not reported."""
    names = ("60.conf", "60.yaml", "60.TOML", "a.toml~", ".#b.toml", "d.toml.2026", "README", "e.toml.bak")
    loaded = load_files(
        tmp_path, {f"{ETC}/{name}": "=" for name in names} | {f"{ETC}/sub/1.toml": A, f"{ETC}/a.toml": A}
    )
    assert not loaded.config.complete, "the files may be meant to configure something"
    assert problems(loaded, tmp_path) == [
        f'{ETC}/{name}: is not read, because its name does not end with ".toml"; rename or remove it'
        for name in ("60.TOML", "60.conf", "60.yaml", "sub")
    ]
    hidden = load_files(tmp_path, {f"{ETC}/.h.toml": A, f"{ETC}/.h.toml.swp": "", f"{ETC}/#h.toml#": ""})
    assert hidden.problems == loaded.problems


# a misplaced file, and the advice about it
MISPLACED = {
    "etc/capacityd/60-x.toml": "move it to etc/capacityd/conf.d/NAME.toml",
    "etc/capacityd/Capacityd.TOML": "move it to etc/capacityd/conf.d/NAME.toml",
    "etc/capacityd/config.d/x.toml": "move its files to etc/capacityd/conf.d",
    "etc/capacityd.toml": "move it to etc/capacityd/conf.d/NAME.toml",
    "etc/capacityd.d/x.toml": "move its files to etc/capacityd/conf.d",
    "usr/lib/capacityd/x.toml": "move it to etc/capacityd/conf.d/NAME.toml",
    "run/capacityd/conf.d/x.toml": "move its files to etc/capacityd/conf.d",
}


@pytest.mark.parametrize(("path", "advice"), MISPLACED.items(), ids=MISPLACED)
def test_a_file_in_the_wrong_place_is_reported(tmp_path: Path, path: str, advice: str) -> None:
    loaded = load_files(tmp_path, {path: A, MAIN: B, f"{ETC}/1.toml": B, "etc/capacityd/kubeconfig": ""})
    ((place, why),) = [(os.path.relpath(p.file, tmp_path), p.message) for p in loaded.problems]
    assert place in (path, os.path.dirname(path))
    assert why.replace(f"{tmp_path}/", "") == f"is not read; {advice}"


def test_each_folder_is_listed_with_the_files_that_are_read(tmp_path: Path) -> None:
    """`config check` shows this list."""
    files = {f"{LIB}/5.toml": A, f"{LIB}/6.toml": A, MAIN: B, f"{ETC}/5.toml": "", f"{ETC}/.7.toml": A}
    loaded = load_files(tmp_path, files)
    assert {os.path.relpath(folder, tmp_path): names for folder, names in loaded.folders.items()} == {
        LIB: ("5.toml", "6.toml"),
        LOCAL_LIB: None,
        "etc/capacityd": ("capacityd.toml",),
        ETC: ("5.toml",),
    }


@pytest.mark.parametrize("path", [ETC, LIB, "etc/capacityd"])
def test_a_dangling_folder_is_not_an_empty_one(tmp_path: Path, path: str) -> None:
    """If it were read as empty, every resource that it configures would be removed from the Node."""
    configuration = load_files(tmp_path, {f"{LOCAL_LIB}/a.toml": A, path: "-> nowhere"})
    listed = ETC if path == "etc/capacityd" else path
    assert problems(configuration, tmp_path) == [f"{listed}: is a dangling symbolic link; fix or remove it"]
    assert quantities(configuration) == {"a": 1}
    assert not configuration.config.complete


@pytest.mark.other_user
def test_a_file_that_this_user_may_not_read_is_an_error() -> None:
    with tempfile.TemporaryDirectory() as folder:  # not tmp_path, which other users cannot enter
        root = Path(folder)
        root.chmod(0o755)
        load_files(root, {MAIN: A, f"{ETC}/b.toml": B, f"{LOCAL_LIB}/c.toml": resource("c")})
        (root / MAIN).chmod(0o000)
        (root / LOCAL_LIB).chmod(0o000)

        def as_nobody() -> tuple[Loaded, Loaded]:
            if os.getuid() == 0:  # root ignores permissions
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            return load(root=folder), load(str(root / LOCAL_LIB))

        configuration, of_folder = forked(as_nobody)
        (root / LOCAL_LIB).chmod(0o700)
        why = "is not readable by this user; run as root, or grant read permission"
        assert problems(configuration, root) == [f"{LOCAL_LIB}: {why}", f"{MAIN}: {why}"]
        assert quantities(configuration) == {"b": 1}
        assert not configuration.config.complete
        assert problems(of_folder, root) == [f"{LOCAL_LIB}: {why}"]


# --config PATH


def test_with_a_path_no_other_files_are_read(tmp_path: Path) -> None:
    """The path is a file of any name, or a folder."""
    load_files(tmp_path, {MAIN: A, "x": resource("x"), "d/2.toml": resource("a", 2), "d/1.toml": A, "d/x.conf": "="})
    assert quantities(load(str(tmp_path / "x"), root=str(tmp_path))) == {"x": 1}
    configuration = load(str(tmp_path / "d"))
    assert configuration.require()
    assert quantities(configuration) == {"a": 2}
    assert read_files(configuration, tmp_path) == ["d/1.toml", "d/2.toml"]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("none", "no such file or folder"),
        ("file/", "no such file or folder"),
        ("", "contains no file whose name ends with .toml"),
        ("link", "is a dangling symbolic link; fix or remove it"),
    ],
)
def test_a_path_without_configuration_files_is_an_error(tmp_path: Path, path: str, why: str) -> None:
    (tmp_path / "file").write_text(A)
    (tmp_path / "link").symlink_to("nowhere")
    configuration = load(f"{tmp_path}/{path}")
    assert [p.reason() for p in configuration.problems] == [f"{tmp_path}/{path}: {why}"]
    assert not configuration.config.complete


def test_a_name_that_could_harm_a_terminal_is_escaped(tmp_path: Path) -> None:
    configuration = load_files(tmp_path, {f"{ETC}/\x1b[2J\n.toml": "x = 1"})
    assert problems(configuration, tmp_path) == [
        f"{ETC}/\\x1b[2J\\n.toml: x: unknown key; must be one of resources, kubernetes, service"
    ]


@pytest.mark.parametrize("content", ["a = SECRET", '[resources."example.com/x"]\nstatic = "SECRET"', "[SECRET]"])
@pytest.mark.parametrize(
    ("file", "folder", "is_private"), [(0o644, 0o755, False), (0o640, 0o755, True), (0o644, 0o750, True)]
)
def test_only_who_may_read_a_private_file_sees_its_errors(
    tmp_path: Path, content: str, file: int, folder: int, is_private: bool
) -> None:
    """The public message contains only the file's path, and the command that shows the error."""
    path = tmp_path / "etc/capacityd/conf.d/10.toml"
    load_files(tmp_path, {"etc/capacityd/conf.d/10.toml": content})
    path.chmod(file)
    path.parent.chmod(folder)
    configuration = load(root=str(tmp_path))
    (problem,) = configuration.problems
    assert "SECRET" in problem.located()
    public = [problem.public(), problem.reason(), str(configuration.config.broken)]
    assert any("SECRET" in text for text in public) is not is_private
    if is_private:
        assert problem.public().startswith(f"{path}")
        assert "sudo capacityd config check" in problem.public()


@pytest.mark.parametrize(
    ("file", "folder", "is_private"), [(0o644, 0o755, False), (0o640, 0o755, True), (0o644, 0o700, True)]
)
def test_a_named_file_is_as_private_as_its_folder(tmp_path: Path, file: int, folder: int, is_private: bool) -> None:
    make_reachable(tmp_path)
    above = tmp_path / "above"
    (above / "folder").mkdir(parents=True)
    path = above / "folder" / "x.toml"
    path.write_text("a = SECRET")
    path.chmod(file)
    above.chmod(folder)
    for named in (path, path.parent):
        (problem,) = load(str(named)).problems
        assert ("SECRET" not in problem.public()) is is_private


def test_a_warning_about_a_private_file_is_no_error(tmp_path: Path) -> None:
    text = '[resources."nvidia.com/gpu"]\nstatic = { quantity = 1 }\n'
    load_files(tmp_path, {f"{ETC}/a.toml": text})
    (warning,) = load(root=str(tmp_path)).warnings
    assert "nvidia.com" in warning.public()
    (tmp_path / ETC / "a.toml").chmod(0o600)
    (private,) = load(root=str(tmp_path)).warnings
    file = f"{tmp_path}/{ETC}/a.toml"
    why = 'may be a mistake; some users may not read the file, so only "sudo capacityd config check" shows the warning'
    assert private.public() == f"{file}:{warning.line}: {why}"
