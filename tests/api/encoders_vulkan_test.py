"""Encoders on a Vulkan device (Mesa's CPU driver): vectors and scores equal sentence-transformers' (tests/golden/embeddings), many texts in one
batch and across a death of the worker. Keys and values are f16 there, so numbers differ more than on a CPU."""

import contextlib
import json
import math
import os
import random
import signal
import threading

import pytest
from encoders_test import ENCODERS, GOLDEN, cosine, drawn_text, embed, make
from shoal_server import COMPILING_S, ShoalServer

pytestmark = [pytest.mark.long, pytest.mark.longest]

LEAST_COSINE = 0.9999
OPTIONS = ["--device", "vulkan", "--threads", "2", "--worker-timeout", str(COMPILING_S), "--kv-cache-bytes", "1%"]
PAIRS = json.loads((GOLDEN / "pairs.json").read_text(encoding="utf-8"))["cases"]


@pytest.mark.parametrize("case", ENCODERS, ids=lambda case: f"{case['kind']}-{case['size']}-{case['pooling']}")
def test_texts_as_in_sentence_transformers(tmp_path, case):
    with ShoalServer(*OPTIONS, model=make(tmp_path / "encoder", case)) as server:
        server.wait_ready(COMPILING_S)
        for fields, name in (({}, "plain"), ({"dimensions": 24}, "cut")):
            for vector, wanted in zip(embed(server, case["texts"], **fields), case[name]):
                assert cosine(vector, wanted) >= LEAST_COSINE
                assert math.hypot(*vector) == pytest.approx(math.hypot(*wanted), rel=1e-2)


def test_many_texts_and_a_death(tmp_path):
    with ShoalServer(*OPTIONS, "--batch-invariant", model=make(tmp_path / "encoder", ENCODERS[1])) as server:
        server.wait_ready(COMPILING_S)
        rng = random.Random(11)
        texts = [drawn_text(rng, rng.randrange(1, 40)) for _ in range(60)]
        wanted = embed(server, texts)
        assert [embed(server, text)[0] for text in texts[:8]] == wanted[:8]
        results = []
        asking = threading.Thread(target=lambda: results.extend(embed(server, texts)))
        asking.start()
        with contextlib.suppress(ProcessLookupError, TypeError):  # None: between two workers
            os.kill(server.worker_pid(), signal.SIGKILL)
        asking.join()
        assert results == wanted


@pytest.mark.parametrize("case", PAIRS, ids=lambda case: f"{case['kind']}-{case['size']}")
def test_pairs_as_in_cross_encoder(tmp_path, case):
    with ShoalServer(*OPTIONS, model=make(tmp_path / "pairs", case)) as server:
        server.wait_ready(COMPILING_S)
        scores = server.request("POST", "/v1/score", {"text_1": case["query"], "text_2": case["texts"]}).json
        assert [one["score"] for one in scores["data"]] == pytest.approx(case["scores"], abs=5e-3)
        ranked = server.request("POST", "/v1/rerank", {"query": case["query"], "documents": case["texts"], "top_n": 3}).json["results"]
        assert [one["index"] for one in ranked] == sorted(range(4), key=lambda i: -case["scores"][i])[:3]
