"""plot: one SVG with all results that shoal-load saved; other files are refused with a message."""

import json
import subprocess
import xml.etree.ElementTree

from conftest import PATIENCE_S

SVG = "{http://www.w3.org/2000/svg}"


def saved(path, requests=20, **fields):
    result = {"completed": requests, "failed": 1, "output_throughput": 123.4,
              "input_lens": [5] * requests + [0], "output_lens": [3] * requests + [0],
              "ttfts": [0.1 + 0.01 * i for i in range(requests)] + [0.0],
              "itls": [[0.02, 0.03]] * requests + [[]], "latencies": [0.2 + 0.01 * i for i in range(requests)] + [9.0],
              "start_times": [0.5 * i for i in range(requests)] + [0.0],
              "outcomes": ["completed"] * requests + ["timeout"], "errors": [""] * requests + ["timed out"], **fields}
    path.write_text(json.dumps(result), encoding="utf-8")
    return path


def plot(repository, *arguments):
    return subprocess.run([repository / "scripts/bench/plot", *map(str, arguments)], capture_output=True, text=True,
                          timeout=PATIENCE_S)


def test_every_metric_and_result_is_drawn(repository, tmp_path):
    first, second = saved(tmp_path / "first.json"), saved(tmp_path / "second.json", requests=3)
    svg = tmp_path / "out.svg"
    done = plot(repository, first, second, "--labels", "one,<two>", "--metrics", "ttft,tpot,itl,e2el", "--output", svg)
    assert done.returncode == 0, done.stderr
    root = xml.etree.ElementTree.parse(svg).getroot()
    words = [text.text for text in root.iter(f"{SVG}text")]
    for title in ("Time to first token", "Time per output token", "Inter-token latency", "End-to-end latency",
                  "Output over time", "Running requests over time"):
        assert any(title in word for word in words), title
    # p50 and p99 of 100, 110, … 290 ms; the request that failed is not among them.
    assert any(word.startswith("one · 20 completed, 1 failed · 123.4 tok/s · TTFT p50 195.0 p99 288.1 ms")
               for word in words), words
    assert any(word.startswith("<two>") for word in words)
    panels = list(root.iter(f"{SVG}g"))
    assert len(panels) == 10 and all(len(list(panel.iter(f"{SVG}polyline"))) == 2 for panel in panels)
    for line in root.iter(f"{SVG}polyline"):
        for point in line.get("points").split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= 460 and 0 <= y <= 250


def test_a_run_without_answers_is_drawn(repository, tmp_path):
    result = saved(tmp_path / "none.json", requests=0)
    assert plot(repository, result, "--output", tmp_path / "out.svg").returncode == 0
    xml.etree.ElementTree.parse(tmp_path / "out.svg")


def test_other_files_are_refused(repository, tmp_path):
    text = tmp_path / "text.json"
    text.write_text("no json", encoding="utf-8")
    plain = tmp_path / "plain.json"
    plain.write_text('{"completed": 5}', encoding="utf-8")
    for path, words in [(text, "text.json"), (plain, "--save-detailed"), (tmp_path / "none", "No such file")]:
        done = plot(repository, path, "--output", tmp_path / "out.svg")
        assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr
    assert plot(repository, saved(tmp_path / "a.json"), "--metrics", "speed").returncode == 2
