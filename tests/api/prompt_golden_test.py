"""prompt_logprobs of tiny checkpoints on the CPU and on a Vulkan device (Mesa's CPU driver, scripts/vulkan_env): log-softmax of the logits
that transformers gave (tests/golden/checkpoints), prompts in chunks of drawn sizes; ranks
equal plain counts. The device's KV cache is f16."""

import math
import random
import struct

import pytest

from shoal_server import COMPILING_S, ROOT

GOLDEN = ROOT / "tests/golden/checkpoints"
MOST_APART = 2e-3


def recorded(family):
    """(token ids, for each the log-probabilities of the token after it)."""
    ids = [int(word) for word in (GOLDEN / family / "ids.txt").read_text(encoding="utf-8").split()]
    data = (GOLDEN / family / "logits.f32").read_bytes()
    columns = len(data) // 4 // len(ids)
    rows = [struct.unpack_from(f"<{columns}f", data, 4 * columns * row) for row in range(len(ids))]
    return ids, [[logit - log_sum(row) for logit in row] for row in rows]


def log_sum(row):
    largest = max(row)
    return largest + math.log(sum(math.exp(logit - largest) for logit in row))


def check(entry, token, expected, top):
    best = sorted(expected, reverse=True)
    ranked = {one["rank"]: one["logprob"] for one in entry.values()}
    assert entry[str(token)]["logprob"] == pytest.approx(expected[token], abs=MOST_APART)
    assert [ranked[rank] for rank in range(1, top + 1)] == pytest.approx(best[:top], abs=MOST_APART)
    assert len(entry) <= top + 1
    for name, one in entry.items():
        assert one["logprob"] == pytest.approx(expected[int(name)], abs=MOST_APART)
        # Numbers that are closer than the tolerance may change places.
        above = sum(other > expected[int(name)] + 2 * MOST_APART for other in expected)
        near = sum(abs(other - expected[int(name)]) <= 2 * MOST_APART for other in expected)
        assert above < one["rank"] <= above + near


@pytest.mark.parametrize("device", ["cpu", pytest.param("vulkan", marks=pytest.mark.long)])
@pytest.mark.parametrize("family", ["qwen3", "gemma2", "qwen3_5"])
def test_prompt_logprobs_are_those_of_transformers(start_server, family, device):
    ids, rows = recorded(family)
    chunk = random.randrange(3, 12)
    print("step tokens", chunk)
    server = start_server("--device", device, "--kv-cache-type", "f32" if device == "cpu" else "f16", "--kv-cache-bytes", "50M", "--step-tokens", str(chunk), "--threads", "2",
                          "--worker-timeout", str(COMPILING_S), ready=False, model=ROOT / f"build/checkpoints/{family}-f32")
    server.wait_ready(COMPILING_S)
    worker, = server.get("/v1/status").json["workers"]
    assert worker["backend"].startswith(device)
    for top in (0, 1, random.randrange(2, 21)):
        length = len(ids) if top == 0 else random.randrange(2, len(ids) + 1)
        body = {"prompt": ids[:length], "max_tokens": 1, "temperature": 0, "prompt_logprobs": top}
        reply = server.request("POST", "/v1/completions", body)
        assert reply.status == 200, reply.body
        first, *entries = reply.json["choices"][0]["prompt_logprobs"]
        assert first is None
        for token, expected, entry in zip(ids[1:length], rows[:length - 1], entries, strict=True):
            check(entry, token, expected, top)
    server.wait_idle()
