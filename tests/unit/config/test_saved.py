"""Which configuration files have changed since the service read them. A stamp stands for a file's state."""

from __future__ import annotations

import os
from pathlib import Path

from capacityd.config.saved import changed_files, stamps_of
from tests.support.reachable import make_reachable


def test_added_saved_and_removed_files_have_changed(tmp_path: Path) -> None:
    make_reachable(tmp_path)
    path, (kept, saved, removed, added) = str(tmp_path), (tmp_path / f"{n}.toml" for n in range(4))
    for file in (kept, saved, removed):
        file.write_text("# a")
        os.utime(file, (1, 1))
    stamps = stamps_of(path)
    assert stamps is not None
    assert changed_files(path, stamps) == ()
    saved.write_text("# b")
    removed.unlink()
    added.write_text("# d")
    (tmp_path / "notes").write_text("not read")
    assert changed_files(path, stamps) == (str(saved), str(removed), str(added))
    assert changed_files(path, None) == ()


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
