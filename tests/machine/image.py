"""The disk image of a virtual machine: a Debian tree from the cache, with packages installed and files added.

tests/package/trees.py makes the tree once. Adding what differs between runs, such as the package, takes four seconds.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.package.trees import NODE, debian

PACKAGES = (*NODE, "busybox-static", "cloud-init", "cpio", "ethtool", "kmod", "qemu-guest-agent")
_WITHOUT_DOCS = tuple(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "locale", "man"))
_SIZE = "2500M"  # sparse
_MAKE = """
set -eu  # $1: a mount point, $2: the tree, $3: a folder with the added files, $4: the image, $5: its size
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
tar -c -C "$3" . | tar -x -C "$1/root" --no-same-owner --keep-directory-symlink
if [ -e "$1/root/debs" ]; then
    DEBIAN_FRONTEND=noninteractive chroot "$1/root" sh -c 'dpkg --install /debs/*.deb'
    rm -r "$1/root/debs"
fi
mke2fs -q -t ext4 -d "$1/root" -L system -m 0 -E root_owner=0:0,lazy_itable_init=1 "$4" "$5"
"""


def debian_12() -> Path:
    """The tree of a bootable Debian 12, without capacityd and with cloud-init switched off. Do not write to it."""
    finish = Path(__file__).with_name("finish").read_text()
    return debian("machine-12", "bookworm", PACKAGES, finish, _WITHOUT_DOCS)


def image(target: Path, tree: Path, debs: Sequence[Path], files: Mapping[str, str | Path]) -> Path:
    """Makes the image at target and returns it. Needs root.

    debs: installed without a running systemd, as by the maker of an image. files: path in the machine -> text, or a
    file to copy with its mode. Text that starts with "#!" becomes executable.
    """
    with tempfile.TemporaryDirectory(prefix="capacityd-image-") as scratch:
        added, mounts = Path(scratch, "added"), Path(scratch, "mounts")
        mounts.mkdir()
        packages = {f"/debs/{deb.name}": deb for deb in debs}
        for path, content in {**packages, **files}.items():
            file = added / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Path):
                shutil.copy(content, file)
            else:
                file.write_text(content)
                file.chmod(0o755 if content.startswith("#!") else 0o644)
        added.chmod(0o755)
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _MAKE, "sh"]
        result = subprocess.run([*command, mounts, tree, added, target, _SIZE], capture_output=True, text=True)
        if result.returncode:
            raise RuntimeError(f"the image could not be made:\n{result.stdout}\n{result.stderr}")
    return target
