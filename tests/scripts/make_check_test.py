"""make check: runs every check of scripts/."""

import subprocess

from conftest import PATIENCE_S


def test_runs_every_check(repository):
    commands = subprocess.run(["make", "-n", "check"], cwd=repository, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    checks = sorted(path.name for path in (repository / "scripts").glob("check_*"))
    assert checks
    assert [name for name in checks if f"scripts/{name}" not in commands] == []
