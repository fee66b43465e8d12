"""A fresh root of this machine's distribution, with the package installed. Needs root and mmdebstrap."""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_S = 1200

# Runs a command in the root with mounts of its own, which end with it.
INSIDE = """
set -e
mount -t proc proc "$0/proc"
mkdir -p "$0/dev/shm" && mount -t tmpfs tmpfs "$0/dev/shm"
mount --bind "$1" "$0/mnt"
root=$0
shift
exec chroot "$root" "$@"
"""


class FreshRoot:
    def __init__(self, folder):
        self.folder = folder

    def run(self, *command, code=0):
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "sh", "-c", INSIDE, str(self.folder), str(ROOT), *command],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def files(self):
        names = set()
        for place in ("usr", "etc", "var/lib/systemd"):
            for path in (self.folder / place).rglob("*"):
                names.add(str(path.relative_to(self.folder)))
        return names


@pytest.fixture(scope="session")
def package():
    made = subprocess.run(["scripts/package/deb"], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert made.returncode == 0, made.stderr
    return ROOT / made.stdout.strip()


@pytest.fixture(scope="session")
def fresh_root(tmp_path_factory):
    if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
        pytest.skip("needs root and mmdebstrap")
    release = dict(line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text(encoding="utf-8").splitlines() if "=" in line)
    folder = tmp_path_factory.mktemp("root")
    subprocess.run(["mmdebstrap", "--variant=minbase", "--quiet", release["VERSION_CODENAME"].strip('"'), str(folder)], check=True,
                   timeout=PATIENCE_S, stdin=subprocess.DEVNULL)
    shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")
    root = FreshRoot(folder)
    root.run("apt-get", "update", "-q")
    yield root
    shutil.rmtree(folder)
