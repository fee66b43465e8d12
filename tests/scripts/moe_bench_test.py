"""moe_bench: its shapes are the published ones, the bytes of a step are computed from them, and it runs on tiny shapes."""

import itertools
import json
import math
import subprocess
import sys

import pytest

from conftest import PATIENCE_S, REPOSITORY

sys.path.insert(0, str(REPOSITORY / "scripts"))
from random_shapes import Experts, PRESETS, distinct_experts, step_bytes  # noqa: E402

Q4_0 = 18 / 32  # bytes of a weight


def parameters(model):
    return sum(math.prod(tensor.size) for tensor in model.tensors())


def test_presets_have_the_sizes_of_the_published_models():
    assert parameters(PRESETS["30b-a3b"]) == 30_532_122_624
    assert round(parameters(PRESETS["26b-a4b"]) / 1e9, 1) == 25.2


def layout(model, layer):
    return [(tensor.name.split(".", 2)[2], len(tensor.size), tensor.fill is None) for tensor in model.layer_tensors(layer)]


def test_tiny_presets_have_the_layout_of_the_large_ones():
    for name in ("30b-a3b", "26b-a4b"):
        large, tiny = PRESETS[name], PRESETS[name + "-tiny"]
        assert layout(large, 0) == layout(tiny, 0)
        assert layout(large, large.shape.layers - 1) == layout(tiny, tiny.shape.layers - 1)  # gemma4's last is a global one
        assert list(large.keys()) == list(tiny.keys())


def test_experts_of_a_step_are_those_of_random_rows():
    """Against every way in which three rows can choose 2 of 4."""
    pairs = list(itertools.combinations(range(4), 2))
    wanted = [len(set().union(*rows)) for rows in itertools.product(pairs, repeat=3)]
    assert distinct_experts(Experts(4, 2), 3) == pytest.approx(sum(wanted) / len(wanted))
    assert distinct_experts(Experts(128, 8), 1) == pytest.approx(8)


def test_a_step_of_30b_a3b_reads_what_its_matrices_say():
    model = PRESETS["30b-a3b"]
    must = step_bytes(model, 1, 300)
    attention = 2048 * (4096 + 2 * 512 + 4096) * Q4_0 + (2 * 2048 + 2 * 128 + 128 * 2048) * 4  # norms and scores are F32
    assert must.dense == 48 * attention + 151936 * 2048 * Q4_0 + 2048 * 4 + 2048 * Q4_0
    assert must.experts == pytest.approx(48 * 8 * 3 * 768 * 2048 * Q4_0)
    assert must.kv == 48 * 300 * 2 * 4 * 128 * 2
    more = step_bytes(model, 8, 300)
    assert more.dense == must.dense + 7 * 2048 * Q4_0 and more.kv == 8 * must.kv
    assert more.experts / must.experts == pytest.approx(distinct_experts(model.experts, 8) / 8)


def test_a_step_of_26b_a4b_sees_windows_and_its_head_is_the_embedding():
    model = PRESETS["26b-a4b"]
    assert [layer for layer in range(30) if model.is_global(layer)] == [5, 11, 17, 23, 29]
    assert step_bytes(model, 1, 5000).kv == (25 * 1024 * 8 * 256 + 5 * 5000 * 2 * 512) * 2 * 2
    matrices = sum(math.prod(tensor.size) for tensor in model.tensors() if tensor.fill is None and "_exps" not in tensor.name)
    floats = sum(math.prod(tensor.size) for tensor in model.tensors() if tensor.fill is not None)
    assert step_bytes(model, 1, 1).dense == matrices * Q4_0 + floats * 4 + 2816 * Q4_0


def test_tiny_shapes_on_the_cpu(tmp_path):
    """Loads, prompts and decodes both layouts; rows stay apart, and the figures of a line belong together."""
    saved = tmp_path / "figures.json"
    done = subprocess.run([REPOSITORY / "scripts/bench/moe_bench", "--tiny", "--device", "cpu", "--bandwidth", "0.02", "--repeat", "1",
                           "--models", tmp_path, "--json", saved], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(saved.read_text(encoding="utf-8"))["results"]
    assert list(results) == ["30b-a3b-tiny", "26b-a4b-tiny"]
    for name, measured in results.items():
        assert measured["prompt_tokens_per_s"] > 0
        assert [decode["rows"] for decode in measured["decodes"]] == [1, 8, 32]
        for decode in measured["decodes"]:
            must = step_bytes(PRESETS[name], decode["rows"], 32 + 4)
            assert decode["bytes"] == sum(must[:3])
            assert decode["different_tokens"] >= decode["rows"] * 0.8
            assert decode["floor_ms"] == pytest.approx(decode["bytes"] / 0.02e12 * 1e3)
            assert decode["share_of_floor"] == pytest.approx(decode["floor_ms"] / decode["step_ms"])
            assert f"| {name}, batch {decode['rows']} " in done.stdout


def test_errors_are_reported(tmp_path):
    def run(*words):
        return subprocess.run([REPOSITORY / "scripts/bench/moe_bench", "--tiny", "--models", tmp_path, *words], capture_output=True,
                              text=True, timeout=PATIENCE_S)

    assert run("--shapes", "9b").returncode == 2
    done = run("--device", "vulkan:99")
    assert done.returncode == 1 and "there is no device vulkan:99" in done.stderr
    (tmp_path / "random-30b-a3b-tiny-q4_0.gguf").write_bytes(b"no GGUF" * 100_000)
    done = run("--device", "cpu", "--shapes", "30b-a3b")
    assert done.returncode == 1 and "FAILED 30b-a3b-tiny: status 1" in done.stdout and "Traceback" not in done.stderr
