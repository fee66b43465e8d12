"""llama.cpp's samplers through the APIs: DRY, XTC, mirostat 2 and dynamic temperature change answers as their definitions say.

tests/unit/worker/sample/extra_samplers_test.c compares the draws with llama.cpp's algorithms. Here whole answers are checked against the
log-probabilities and token ids that the reply has, and a killed worker changes none of them.
"""

import math
import os
import random
import signal
import threading
import time

import pytest

import demo_model

SERVER_MODEL = demo_model.FOLDER

PROMPT = "one two three one two three one two three one two"


def complete(server, **fields):
    reply = server.request("POST", "/v1/completions", {"prompt": PROMPT, "max_tokens": 30, "ignore_eos": True, "return_token_ids": True,
                                                       **fields})
    assert reply.status == 200, reply.body
    return reply.json["choices"][0]


def longest_repeat(ids, at):
    """Tokens before ids[at] that, with it, occurred earlier in ids."""
    longest = -1
    for before in range(at):
        if ids[before] == ids[at]:
            length = 0
            while length < before and ids[before - 1 - length] == ids[at - 1 - length]:
                length += 1
            longest = max(longest, length)
    return longest


def test_dry_forbids_long_repetitions(server):
    strong = {"temperature": 0, "dry_multiplier": 100, "dry_base": 2, "dry_sequence_breakers": ["\x01"]}
    plain = complete(server, temperature=0)
    ids = plain["prompt_token_ids"] + plain["token_ids"]
    first = len(plain["prompt_token_ids"])
    assert max(longest_repeat(ids, at) for at in range(first, len(ids))) >= 3
    for allowed in (1, 3):
        choice = complete(server, dry_allowed_length=allowed, **strong)
        ids = choice["prompt_token_ids"] + choice["token_ids"]
        assert max(longest_repeat(ids, at) for at in range(first, len(ids))) < allowed
    assert complete(server, dry_allowed_length=1, **strong, dry_penalty_last_n=0)["token_ids"] == plain["token_ids"]
    # Each token ends with a breaker, or the answer may repeat after one.
    broken = complete(server, **{**strong, "dry_allowed_length": 1, "dry_sequence_breakers": ["e", "o"]})
    assert broken["token_ids"] != complete(server, dry_allowed_length=1, **strong)["token_ids"]


def alternatives(choice):
    """For each token, the most likely tokens' texts and probabilities, most likely first, and the drawn one's text."""
    told = choice["logprobs"]
    for text, top in zip(told["tokens"], told["top_logprobs"], strict=True):
        yield sorted(top.items(), key=lambda pair: -pair[1]), text


@pytest.mark.parametrize("threshold", [0.05, 0.2])
def test_xtc_excludes_top_choices(server, threshold):
    choice = complete(server, temperature=1, seed=random.randrange(1 << 30), xtc_probability=1, xtc_threshold=threshold, logprobs=20)
    for pairs, text in alternatives(choice):
        above = [name for name, logprob in pairs if math.exp(logprob) > threshold + 1e-6]
        assert text not in above[:-1], (text, pairs)
    never = {"temperature": 1, "seed": 5}
    assert complete(server, **never, xtc_probability=0.001, xtc_threshold=0.51)["token_ids"] == complete(server, **never)["token_ids"]


def follow_mirostat(choice, tau, eta):
    """Checks each token against the state that follows from those before it."""
    mu = 2 * tau
    for pairs, text in alternatives(choice):
        kept = [(name, math.exp(logprob)) for name, logprob in pairs if -logprob / math.log(2) <= mu + 1e-3] or [pairs[0]]
        if len(kept) == 1:
            kept = [(kept[0][0], 1.0)]
        assert text in dict(kept), (text, mu, pairs)
        total = sum(p for _, p in kept)
        mu -= eta * (-math.log2(dict(kept)[text] / total) - tau)
    return mu


def test_mirostat_follows_its_state(server):
    for tau, eta in ((1.0, 0.1), (0.5, 0.4)):
        choice = complete(server, temperature=1, seed=random.randrange(1 << 30), mirostat=2, mirostat_tau=tau, mirostat_eta=eta, logprobs=20)
        follow_mirostat(choice, tau, eta)


def test_a_dynamic_temperature_is_low_where_the_model_is_sure(server):
    greedy = complete(server, temperature=0)["token_ids"]
    assert complete(server, temperature=0.9, dynatemp_range=0.9, dynatemp_exponent=10)["token_ids"] == greedy
    hot = complete(server, temperature=2, dynatemp_range=2, dynatemp_exponent=0, seed=3)["token_ids"]
    assert hot != greedy and hot != complete(server, temperature=2, seed=3)["token_ids"]


def test_a_killed_worker_changes_nothing(server):
    asks = {"temperature": 1, "seed": random.randrange(1 << 30), "max_tokens": 60, "logprobs": 3, "mirostat": 2, "mirostat_eta": 0.5,
            "dry_multiplier": 0.8, "dynatemp_range": 0.5}
    wanted = complete(server, **asks)
    got = []
    thread = threading.Thread(target=lambda: got.append(complete(server, **asks)))
    thread.start()
    time.sleep(random.uniform(0.02, 0.3))
    os.kill(server.worker_pid(), signal.SIGKILL)
    thread.join()
    assert got == [wanted]


def test_routes_of_llama_cpp_and_ollama(server):
    fields = {"temperature": 1, "seed": 9, "mirostat": 2, "mirostat_tau": 2, "mirostat_eta": 0.3}
    wanted = complete(server, top_k=0, top_p=1, **fields)["text"]
    reply = server.request("POST", "/completion", {"prompt": PROMPT, "n_predict": 30, "ignore_eos": True, "top_k": 0, "top_p": 1, "min_p": 0, **fields})
    assert reply.status == 200 and reply.json["content"] == wanted
    settings = reply.json["generation_settings"]
    assert settings["mirostat"] == 2 and settings["mirostat_tau"] == 2 and settings["dry_base"] == 1.75
    listed = server.request("POST", "/completion", {"prompt": PROMPT, "n_predict": 5, "dry_multiplier": 1, "xtc_probability": 1, "samplers": ["top_k"]})
    settings = listed.json["generation_settings"]
    assert settings["dry_multiplier"] == 0 and settings["xtc_probability"] == 0
    chat = {"messages": [{"role": "user", "content": "Hi"}], "stream": False}
    options = {"num_predict": 12, "seed": 4, "temperature": 1, "top_k": 0, "top_p": 1, "mirostat": 2, "mirostat_tau": 0.1}
    reply = server.request("POST", "/api/chat", {**chat, "options": options})
    plain = server.request("POST", "/v1/chat/completions", {**chat, "max_tokens": 12, "seed": 4, "temperature": 1, "top_k": 0, "top_p": 1,
                                                            "mirostat": 2, "mirostat_tau": 0.1})
    assert reply.status == 200 and reply.json["message"]["content"] == plain.json["choices"][0]["message"]["content"]
