"""--kv-cache-type: the worker's cache has the size of the type, the status reports it, and a chat works."""

import re
import subprocess

import pytest

from shoal_server import BUILD, MODEL, PATIENCE_S

QUESTION = "What is the capital of France? Answer in one word."
CACHE_BYTES = 100_000_000


@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_a_chat_works_with_either_type(start_server, kind):
    server = start_server("--kv-cache-type", kind, "--kv-cache-bytes", str(CACHE_BYTES), "--max-sequences", "4")
    reply = server.chat(QUESTION, temperature=0, max_tokens=24)
    assert reply.status == 200
    assert "Paris" in reply.json["choices"][0]["message"]["content"]
    log = server.log_text()
    assert f"option --kv-cache-type {kind}" in log
    taken, blocks = re.search(rf"KV cache ([0-9.]+) MB of {kind} in (\d+) blocks", log).groups()
    block_bytes = 1e6 * float(taken) / int(blocks)
    # keys and values of 16 positions in 30 layers of 3 heads of 64
    assert block_bytes == pytest.approx(2 * 16 * 30 * 3 * 64 * (4 if kind == "f32" else 2), rel=0.01)
    server.wait_idle()


def test_another_type_is_refused():
    command = [str(BUILD / "shoal"), "serve", "--device", "cpu", "--model", str(MODEL), "--kv-cache-type", "q4_0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert "--kv-cache-type: 'q4_0' is neither f16 nor f32" in done.stderr


@pytest.mark.parametrize(("start", "words"), [((), ""), (("--quantized-kv-start", "40"), " beyond 40 tokens")])
def test_a_chat_works_with_a_quantized_cache(start_server, start, words):
    server = start_server("--kv-bits", "4", "--kv-quant-scheme", "turboquant", "--kv-cache-bytes", str(CACHE_BYTES), *start)
    reply = server.chat(QUESTION, temperature=0, max_tokens=24)
    assert reply.status == 200
    assert "Paris" in reply.json["choices"][0]["message"]["content"]
    # 29 of 30 layers, 3 heads of 64: keys and values of 4 bits, and a norm each
    assert f"29 of 30 layers' keys and values quantized (turboquant, keys of 4 and values of 4 bits{words}): " \
        f"{29 * 3 * (34 + 34)}.0 bytes a token" in server.log_text()
    server.wait_idle()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--quantized-kv-start", "5000"], "--quantized-kv-start 5000 needs --kv-bits"),
        (["--kv-bits", "7.5"], "uniform has whole bits"),
        (["--kv-quant-scheme", "turboquant"], "--kv-quant-scheme needs --kv-bits"),
    ],
)
def test_invalid_combinations_are_refused(options, words):
    command = [str(BUILD / "shoal"), "serve", "--device", "cpu", "--model", str(MODEL), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--kv-bits", "4", "--kv-group-size", "128"], "--kv-group-size 128 does not divide the model's heads of 64 elements"),
        # 29 layers of 3 heads of 64 in f16, 4,000 positions
        (
            ["--kv-bits", "4", "--quantized-kv-start", "4000", "--kv-cache-bytes", "150000000"],
            f"--quantized-kv-start 4000: one sequence's tokens up to there take {4000 * 29 * 3 * 64 * 2 * 2} bytes in full precision; "
            "the half of a KV cache of 150000000 bytes that is for them has ",
        ),
    ],
)
def test_options_that_do_not_fit_the_model_are_refused(options, words):
    command = [str(BUILD / "shoal"), "serve", "--device", "cpu", "--model", str(MODEL), "--port", "0", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode != 0
    assert words in done.stderr
