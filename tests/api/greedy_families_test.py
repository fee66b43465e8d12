"""Families with state space mixers answer greedily as transformers does (tests/golden/greedy): folders and GGUF, alone and beside other
requests, and again after a prefix that the cache holds."""

import json
import threading

import pytest

from shoal_server import ROOT, ShoalServer

GOLDEN = ROOT / "tests/golden/greedy"
CHECKPOINTS = ROOT / "build/checkpoints"
ENDS = (257, 258, 259)  # an answer ends at these
FORMS = [form for path in sorted(GOLDEN.glob("*.json")) for form in (f"{path.stem}-f32", f"{path.stem}-bf16.gguf")
         if not form.startswith("bamba-bf16")]  # bamba has no GGUF


def wanted(entry):
    """Up to the token that ends it."""
    end = next((at for at, token in enumerate(entry["tokens"]) if token in ENDS), len(entry["tokens"]))
    return entry["tokens"][:end]


@pytest.mark.parametrize("form", FORMS)
def test_answers_are_those_of_transformers(form):
    entries = json.loads((GOLDEN / f"{form.rsplit('-', 1)[0]}.json").read_text())
    replies = {}

    def ask(server, number):
        entry = entries[number % len(entries)]
        body = {"prompt": entry["prompt"], "max_tokens": len(entry["tokens"]), "temperature": 0, "return_token_ids": True}
        replies[number] = server.request("POST", "/v1/completions", body).json

    with ShoalServer("--kv-cache-type", "f32", model=CHECKPOINTS / form) as server:
        server.wait_ready()
        ask(server, 0)
        threads = [threading.Thread(target=ask, args=(server, number)) for number in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ask(server, 5)
    for number, reply in replies.items():
        tokens = wanted(entries[number % len(entries)])
        assert len(entries[0]["tokens"]) == 24 and reply["choices"][0]["token_ids"][:len(tokens)] == tokens
    assert replies[5]["usage"]["prompt_tokens_details"]["cached_tokens"] >= 16
