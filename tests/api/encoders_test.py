"""Encoders of random weights: vectors equal sentence-transformers' (tests/golden/embeddings), in any company and after deaths of the worker;
tokens equal PyPI tokenizers'; generation is refused."""

import contextlib
import json
import math
import os
import random
import signal
import threading

import encoder_folder
import pytest
from lora_test import last_words
from shoal_server import ROOT
from tokenizers import Tokenizer

GOLDEN = ROOT / "tests/golden/embeddings"
ENCODERS = json.loads((GOLDEN / "encoders.json").read_text(encoding="utf-8"))["cases"]
FORM = ("kind", "size", "seed", "pooling", "normalizes", "labels")
LEAST_COSINE = 0.99999


def make(folder, case):
    return encoder_folder.make_folder(folder, **{name: case[name] for name in FORM if name in case})


def cosine(a, b):
    assert len(a) == len(b)
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def embed(server, inputs, **fields):
    reply = server.request("POST", "/v1/embeddings", {"input": inputs, **fields})
    assert reply.status == 200, reply.json
    return [one["embedding"] for one in reply.json["data"]]


def drawn_text(rng, words):
    pieces = ["the", "River", "stone", "water", "Stoning", "PARIS", "K\u00f6ln", "\u6f22\u5b57", "\u00c0\u0301", "!?", "zzz\u2603", "[SEP]", "\u0130", "a\u00a0b", "x\u200by"]
    return rng.choice([" ", "  ", "\t"]).join(rng.choice(pieces) for _ in range(words))


@pytest.mark.parametrize("case", ENCODERS, ids=lambda case: f"{case['kind']}-{case['size']}-{case['pooling']}")
def test_texts_as_in_sentence_transformers(start_server, tmp_path, case):
    running = start_server("--device", "cpu", model=make(tmp_path / "encoder", case))
    for fields, name in (({}, "plain"), ({"dimensions": 24}, "cut")):
        for vector, wanted in zip(embed(running, case["texts"], **fields), case[name]):
            assert cosine(vector, wanted) >= LEAST_COSINE
            assert math.hypot(*vector) == pytest.approx(math.hypot(*wanted), rel=1e-3)


def test_many_texts_tokens_and_refusals(start_server, tmp_path):
    folder = make(tmp_path / "encoder", ENCODERS[0])
    running = start_server("--device", "cpu", model=folder)
    seed = random.randrange(10 ** 6)
    rng = random.Random(seed)
    texts = [drawn_text(rng, rng.randrange(1, 12)) for _ in range(60)]
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in texts:
        wanted = reference.encode(text).ids
        assert running.request("POST", "/tokenize", {"prompt": text}).json["tokens"] == wanted[:-1], (seed, text)
    together = embed(running, texts)
    assert [embed(running, text)[0] for text in texts[:8]] == together[:8], seed
    longest = [5 + i % 40 for i in range(encoder_folder.SHAPES["a"]["positions"])]
    assert embed(running, longest) == embed(running, [longest, [7]])[:1]
    assert running.request("POST", "/v1/embeddings", {"input": longest + [5]}).status == 400
    for path, body in (("/v1/completions", {"prompt": "a"}), ("/v1/messages", {"max_tokens": 3, "messages": [{"role": "user", "content": "a"}]}),
                       ("/completion", {"prompt": "a"})):
        refused = running.request("POST", path, body)
        assert refused.status == 400, (path, refused.json)
    assert "encoder" in running.request("POST", "/v1/completions", {"prompt": "a"}).error["message"]


def test_vectors_outlive_deaths_of_the_worker(start_server, tmp_path):
    running = start_server("--device", "cpu", model=make(tmp_path / "encoder", ENCODERS[1]))
    rng = random.Random(11)
    texts = [drawn_text(rng, rng.randrange(20, 60)) for _ in range(200)]
    wanted = embed(running, texts)
    results = []
    asking = threading.Thread(target=lambda: results.extend(embed(running, texts)))
    asking.start()
    for _ in range(2):
        with contextlib.suppress(ProcessLookupError, TypeError):  # None: between two workers
            os.kill(running.worker_pid(), signal.SIGKILL)
    asking.join()
    assert results == wanted


@pytest.mark.parametrize("case", json.loads((GOLDEN / "pairs.json").read_text(encoding="utf-8"))["cases"], ids=lambda case: f"{case['kind']}-{case['size']}")
def test_pairs_as_in_cross_encoder(start_server, tmp_path, case):
    """The default activation of CrossEncoder for one label is the sigmoid; raw_scores are the logits."""
    running = start_server("--device", "cpu", *(["--reranking"] if case["seed"] % 2 else []), model=make(tmp_path / "pairs", case))
    ask = lambda path, **body: running.request("POST", path, body)
    scores = ask("/v1/score", text_1=case["query"], text_2=case["texts"]).json
    assert [one["score"] for one in scores["data"]] == pytest.approx(case["scores"], abs=2e-5)
    assert scores["usage"]["prompt_tokens"] > 4 * len(case["texts"])
    ranked = ask("/v1/rerank", query=case["query"], documents=case["texts"], top_n=3).json["results"]
    assert [one["index"] for one in ranked] == sorted(range(4), key=lambda i: -case["scores"][i])[:3]
    raw = ask("/rerank", query=case["query"], texts=case["texts"], raw_scores=True).json
    assert sorted(one["score"] for one in raw) == pytest.approx(sorted(case["logits"]), abs=1e-4)
    refused = ask("/v1/embeddings", input="a")
    assert refused.status == 400 and "cross-encoder" in refused.error["message"]
    assert ask("/v1/completions", prompt="a").status == 400
    assert ask("/v1/score", text_1="a", text_2="water " * 600).status == 400


def test_classes_that_cannot_be_computed_are_refused(tmp_path):
    """ModernBERT: a class over the mean of all rows, and biases in layers."""
    case = {"kind": "modernbert", "size": "a", "seed": 14, "labels": 1}
    for name, value in (("classifier_pooling", "mean"), ("norm_bias", True), ("classifier_activation", "relu"), ("local_attention", 0)):
        folder = make(tmp_path / name, case)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        (folder / "config.json").write_text(json.dumps(config | {name: value}), encoding="utf-8")
        said = last_words(model=folder)
        assert name in said, said
