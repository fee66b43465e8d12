"""speculation --scripted: tiny shapes run on the CPU, and drafts are right about as often as asked."""

import subprocess

from conftest import PATIENCE_S, REPOSITORY


def rows(text):
    """Columns of the table's rows; build/draft_bench names them."""
    return [[float(column) for column in line.strip("| ").split("|")] for line in text.splitlines() if line.startswith("| ") and line[2].isdigit()]


def test_tiny_shapes(tmp_path):
    done = subprocess.run([REPOSITORY / "scripts/bench/speculation", "--scripted", "--tiny", "--device", "cpu", "--tokens", "400", "--folder", tmp_path],
                          capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    found = rows(done.stdout)
    assert [row[0] for row in found] == [1, 8, 64, 1, 8, 1, 8, 64]
    for streams, _, plain, drafted, _, ratio, tokens, accepted, each in found:
        assert plain > 0 and drafted > 0 and abs(ratio - drafted / plain) < 0.02
        assert each >= 1 and (tokens > 0 or each == 1)
        assert tokens < 300 or 0.5 < accepted < 0.9
    assert not list(tmp_path.iterdir())
