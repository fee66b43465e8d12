"""bench/frontend: every API's stream is read, paced by the scripted worker, and the figures are written."""

import json
import subprocess

import pytest

from conftest import PATIENCE_S


def bench(repository, *arguments):
    return subprocess.run([repository / "scripts/bench/frontend", *map(str, arguments)], capture_output=True, text=True,
                          timeout=PATIENCE_S)


@pytest.mark.parametrize("api", ["chat", "completions", "responses", "messages"])
def test_streams_are_measured(repository, tmp_path, api):
    out = tmp_path / "out.json"
    ran = bench(repository, "--api", api, "--loads", "3x60", "--seconds", 0.5, "--json", out)
    assert ran.returncode == 0, ran.stderr
    (row,) = json.loads(out.read_text(encoding="utf-8"))["rows"]
    assert row["streams"] == 3 and 0 < row["tokens_per_s"] < 600
    assert 0 <= row["user_us"] <= row["cpu_us"]
    assert len(ran.stdout.splitlines()) == 2


def test_a_load_beyond_the_context_is_refused(repository):
    ran = bench(repository, "--loads", "1x1000", "--seconds", 60)
    assert ran.returncode != 0 and "context" in ran.stderr
