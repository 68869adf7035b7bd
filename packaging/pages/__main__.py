"""python3 packaging/pages offline|site FOLDER: copies the documentation into FOLDER, for the package or for the site.

Links between copied pages are adapted to the new places. All other relative links become links to the repository.
"""

from __future__ import annotations

import os.path
import re
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from capacityd import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
# A fenced block, a code span, or a link target. Only link targets are changed.
_PART = re.compile(
    r"^(?P<fence>```+).*?^(?P=fence)$|(?P<ticks>`+)(?:(?!\n\n).)+?(?P=ticks)|(?<=\]\()(?P<target>[^()\s]+)(?=\))",
    re.DOTALL | re.MULTILINE,
)


def offline_places() -> dict[str, str]:
    """Returns the path of each file in the package, below /usr/share/doc/capacityd, by its path in the repository."""
    pages = (str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))
    shipped = (path for name in ("conf", "packaging/kubernetes") for path in (ROOT / name).rglob("*"))
    examples = [str(path.relative_to(ROOT)) for path in shipped if path.is_file()]
    return {
        "README.md": "README.md",
        "CHANGELOG.md": "changelog.gz",
        **{path: re.sub("^(conf/examples|conf|packaging)/", "examples/", path) for path in examples},
        **{page: page for page in pages},
    }


def site_places() -> dict[str, str]:
    """Returns the path of each file on the site, by its path in the repository."""
    documents = (path for path in sorted((ROOT / "docs").rglob("*")) if path.suffix in (".md", ".png", ".svg"))
    below_docs = {str(path.relative_to(ROOT)): str(path.relative_to(ROOT / "docs")) for path in documents}
    return below_docs | {
        "README.md": "index.md",
        "CHANGELOG.md": "changelog.md",
        "CONTRIBUTING.md": "contributing.md",
        "SECURITY.md": "security-policy.md",
        "docs/README.md": "overview.md",
    }


def repository() -> str:
    """Returns the URL of this version's files in the repository."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        url = tomllib.load(file)["project"]["urls"]["Repository"]
    return f"{url}/blob/v{__version__}"


def copy(places: dict[str, str], folder: Path) -> None:
    """Copies pages and pictures into the folder. places: file in the repository -> path in the folder."""
    elsewhere = repository()
    for source, place in places.items():
        if not place.endswith((".md", ".png", ".svg")):
            continue  # debhelper installs this file
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        data = (ROOT / source).read_bytes()
        text = place.endswith(".md")
        (folder / place).write_bytes(relocate(data.decode(), source, places, elsewhere).encode() if text else data)


def relocate(text: str, page: str, places: Mapping[str, str], elsewhere: str) -> str:
    """Returns the text of a page with links that are correct in its new place.

    page: the page's path in the repository. places: the new place of each copied file. elsewhere: the URL of the
    repository, for links to files that are not copied.
    """

    def changed(match: re.Match[str]) -> str:
        return match[0] if match["target"] is None else _target(match["target"], page, places, elsewhere)

    return _PART.sub(changed, text)


def _target(target: str, page: str, places: Mapping[str, str], elsewhere: str) -> str:
    path, sharp, anchor = target.partition("#")
    if not path or re.match(r"[a-z]+:", path):
        return target
    linked = os.path.normpath(PurePosixPath(page).parent / path)
    if linked not in places:
        return f"{elsewhere}/{linked}{sharp}{anchor}"
    return os.path.relpath(places[linked], PurePosixPath(places[page]).parent) + sharp + anchor


def contents(folder: Path) -> None:
    """Appends the site's navigation to its first page, in the order of the links in the overview."""
    linked = re.findall(r"\]\(([\w/-]+)\.md[#)]", (folder / "overview.md").read_text())
    present = [str(path.relative_to(folder).with_suffix("")) for path in sorted(folder.rglob("*.md"))]
    project = [name for name in ("changelog", "contributing", "security-policy") if name in present]
    ordered = [name for name in dict.fromkeys([*linked, *present]) if name not in ("index", "overview", *project)]
    groups = {
        "Guide": ["overview", *(name for name in ordered if "/" not in name)],
        "How to": [name for name in ordered if "/" in name],
        "Project": project,
    }
    with open(folder / "index.md", "a") as index:
        for caption, names in groups.items():
            index.write("\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *names, "```", ""]))


PLACES = {"offline": offline_places, "site": site_places}

if len(sys.argv) != 3 or sys.argv[1] not in PLACES:
    sys.exit(f"usage: python3 packaging/pages {'|'.join(PLACES)} FOLDER")
copy(PLACES[sys.argv[1]](), Path(sys.argv[2]))
if sys.argv[1] == "site":
    contents(Path(sys.argv[2]))
