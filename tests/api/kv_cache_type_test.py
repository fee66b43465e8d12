"""--kv-cache-type: the type reaches the worker's memory, is shown, and a chat works with it."""

import re
import subprocess

import pytest

from shoal_server import BUILD, MODEL

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
    command = [str(BUILD / "shoal"), "serve", "--model", str(MODEL), "--kv-cache-type", "q4_0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "--kv-cache-type: 'q4_0' is neither f16 nor f32" in done.stderr
