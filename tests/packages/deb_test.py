"""The Debian package: the same bytes twice, and installed, run and removed in a fresh root."""

import json
import re
import shutil
import subprocess

import pytest

from conftest import PATIENCE_S, ROOT


def test_the_same_commit_gives_the_same_bytes(package):
    first = package.read_bytes()
    subprocess.run(["scripts/package/deb"], cwd=ROOT, check=True, capture_output=True, timeout=PATIENCE_S)
    assert package.read_bytes() == first


def test_the_manual_names_every_option(package):
    text = subprocess.run(["man", "-l", ROOT / "build/package/manual/shoal.1"], capture_output=True, text=True, check=True,
                          env={"MANWIDTH": "200", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}, timeout=PATIENCE_S).stdout
    for command in ("serve", "generate", "chat", "run", "pull", "list", "rm", "show", "devices"):
        printed = subprocess.run(["build/shoal", command, "--help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        names = re.findall(r"^  --(\S+)", printed.stdout, re.M)
        assert len(names) > 2
        for name in names:
            assert re.search(rf"^\s+--{re.escape(name)}\b", text, re.M), name


def test_the_bill_of_materials_names_every_library(package):
    document = json.loads((ROOT / "build/package/tree/usr/share/doc/shoal/shoal.spdx.json").read_text(encoding="utf-8"))
    names = {one["name"] for one in document["packages"]}
    needed = subprocess.run(["dpkg-deb", "-f", package, "Depends"], capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout
    assert {part.split()[0] for part in needed.split(",")} <= names
    assert {"marked", "dompurify", "uplot"} <= names


def test_installed_run_and_removed(package, fresh_root):
    before = fresh_root.files()
    fresh_root.run("apt-get", "install", "-y", "-q", "--no-install-recommends", f"/mnt/{package.relative_to(ROOT)}")
    added = fresh_root.files() - before
    assert {"usr/bin/shoal", "usr/bin/shoal-worker", "usr/bin/shoal-media", "usr/lib/systemd/system/shoal.service",
            "etc/shoal/options", "usr/share/bash-completion/completions/shoal"} <= added
    assert "shoal " in fresh_root.run("shoal", "--version")
    said = fresh_root.run("shoal", "generate", "--model", "/mnt/tests/model/demo", "--device", "cpu", "--temperature", "0",
                          "--image", "/mnt/tests/golden/demo/015-0.png", "--prompt", "What do you see?")
    assert "red square" in said
    fresh_root.run("apt-get", "purge", "-y", "-q", "shoal")
    left = [name for name in fresh_root.files() - before if "shoal" in name and "dpkg" not in name]
    assert left == []


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze")
def test_the_unit_is_valid(package, fresh_root):
    fresh_root.run("apt-get", "install", "-y", "-q", "--no-install-recommends", "systemd", "procps", f"/mnt/{package.relative_to(ROOT)}")
    done = subprocess.run(["systemd-analyze", "verify", "--root", fresh_root.folder, "shoal.service"], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    assert "shoal.service" not in done.stderr, done.stderr
