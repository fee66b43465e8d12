"""vision_bench runs on a tiny shape: it makes the folder, encodes an image and prints figures."""

import json
import subprocess

from conftest import PATIENCE_S, REPOSITORY


def test_tiny_shape_is_made_and_measured(tmp_path):
    done = subprocess.run([REPOSITORY / "scripts/bench/vision_bench", "--tiny", "--device", "cpu", "--bandwidth", "0.02", "--repeat",
                           "1", "--models", tmp_path, "--json", tmp_path / "figures.json"], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert (figures["patches"], figures["features"]) == (96, 24)
    assert figures["encode_ms"] > 0 and figures["ttft_ms"] > 0
    assert [decode["rows"] for decode in figures["decodes"]] == [1, 4, 8]
    assert "decode, batch 8" in done.stdout and "% of the floor" in done.stdout
