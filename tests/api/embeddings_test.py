"""Embeddings of tiny models of random weights: vectors equal transformers' and sentence-transformers' (tests/golden/embeddings), in any
company, chunking and after deaths of the worker; the shapes of OpenAI, llama.cpp and Ollama; refusals."""

import base64
import contextlib
import json
import math
import os
import random
import shutil
import signal
import struct
import subprocess
import threading

import openai as openai_sdk
import pytest
import sentence_folder
from openai.types import embedding_create_params
from shoal_server import ROOT, ShoalServer

GOLDEN = ROOT / "tests/golden/embeddings"
TINY = ROOT / "build/checkpoints/qwen3-f32"
TOKENS = json.loads((GOLDEN / "tokens.json").read_text(encoding="utf-8"))["cases"]
SENTENCES = json.loads((GOLDEN / "sentences.json").read_text(encoding="utf-8"))["cases"]
DENSE = json.loads((GOLDEN / "dense.json").read_text(encoding="utf-8"))["cases"]
LEAST_COSINE = 0.99999


def cosine(a, b):
    assert len(a) == len(b)
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def length(vector):
    return math.sqrt(sum(x * x for x in vector))


def native(server, inputs, **fields):
    reply = server.request("POST", "/embeddings", {"input": inputs, **fields})
    assert reply.status == 200, reply.json
    assert [one["index"] for one in reply.json] == list(range(len(inputs)))
    return [one["embedding"] for one in reply.json]


def openai(server, inputs, **fields):
    reply = server.request("POST", "/v1/embeddings", {"input": inputs, **fields})
    assert reply.status == 200, reply.json
    return [one["embedding"] for one in reply.json["data"]]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = sentence_folder.make_folder(TINY, tmp_path_factory.mktemp("embed") / "tiny-embedding", "mean", usual="query")
    with ShoalServer("--kv-cache-type", "f32", "--step-tokens", "96", model=folder) as running:
        running.wait_ready()
        yield running
        running.wait_idle()


@pytest.mark.parametrize("family,pooling", [("qwen3", "last"), ("gemma3", "mean"), ("qwen3_5", "cls"), ("qwen3_5", "mean")])
def test_vectors_are_those_of_transformers(start_server, family, pooling):
    cases = [case for case in TOKENS if case["family"] == family]
    running = start_server("--pooling", pooling, "--kv-cache-type", "f32", "--step-tokens", "128", model=ROOT / f"build/checkpoints/{family}-f32.gguf")
    vectors = native(running, [case["ids"] for case in cases], embd_normalize=-1)
    for case, (vector,) in zip(cases, vectors):
        assert cosine(vector, case[pooling]) >= LEAST_COSINE
        assert length(vector) == pytest.approx(length(case[pooling]), rel=1e-3)
    alone = [native(running, [case["ids"]], embd_normalize=-1)[0] for case in cases]
    assert alone == vectors  # in company as alone


def test_every_token_has_its_vector(start_server):
    cases = [case for case in TOKENS if case["family"] == "qwen3"]
    running = start_server("--pooling", "none", "--kv-cache-type", "f32", model=TINY)
    for case, vectors in zip(cases, native(running, [case["ids"] for case in cases])):
        assert len(vectors) == len(case["ids"])
        assert cosine(vectors[0], case["cls"]) >= LEAST_COSINE and cosine(vectors[-1], case["last"]) >= LEAST_COSINE
        mean = [sum(column) / len(vectors) for column in zip(*vectors)]
        assert cosine(mean, case["mean"]) >= LEAST_COSINE
    refused = running.request("POST", "/v1/embeddings", {"input": "a"})
    assert refused.status == 400 and "--pooling none" in refused.error["message"]


@pytest.mark.parametrize("case", SENTENCES, ids=lambda case: case["pooling"])
def test_texts_as_in_sentence_transformers(start_server, tmp_path, case):
    folder = sentence_folder.make_folder(TINY, tmp_path / "tiny", case["pooling"], normalizes=case["normalizes"], tail=case["tail"],
                                         old_names=case["pooling"] != "mean")
    running = start_server("--kv-cache-type", "f32", model=folder)
    for fields, name in (({}, "plain"), ({"prompt_name": "query"}, "query"), ({"dimensions": 24}, "cut")):
        for vector, wanted in zip(openai(running, case["texts"], **fields), case[name]):
            assert cosine(vector, wanted) >= LEAST_COSINE
            assert length(vector) == pytest.approx(length(wanted), rel=1e-3)


@pytest.mark.parametrize("case", DENSE, ids=lambda case: case["pooling"])
def test_dense_modules_as_in_sentence_transformers(start_server, tmp_path, case):
    folder = sentence_folder.make_folder(TINY, tmp_path / "tiny", case["pooling"], normalizes=case["normalizes"], tail=case["tail"],
                                         dense=case["dense"])
    running = start_server("--kv-cache-type", "f32", model=folder)
    for fields, name in (({}, "plain"), ({"dimensions": 16}, "cut")):
        for vector, wanted in zip(openai(running, case["texts"], **fields), case[name]):
            assert cosine(vector, wanted) >= LEAST_COSINE
            assert length(vector) == pytest.approx(length(wanted), rel=1e-3)


def test_vectors_of_tokens_pass_no_dense_module(start_server, tmp_path):
    folder = sentence_folder.make_folder(TINY, tmp_path / "tiny", "mean", dense=DENSE[0]["dense"])
    running = start_server("--pooling", "none", model=folder)
    (first, second), = native(running, [[65, 66]])
    assert len(first) == len(second) == json.loads((TINY / "config.json").read_text(encoding="utf-8"))["hidden_size"]


def test_a_wrong_dense_module_is_named(tmp_path):
    folder = sentence_folder.make_folder(TINY, tmp_path / "tiny", "mean", dense=DENSE[0]["dense"])
    config = folder / "2_Dense/config.json"
    right = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps({**right, "activation_function": "torch.nn.modules.activation.GELU"}), encoding="utf-8")
    ended = subprocess.run([ROOT / "build/shoal", "serve", "--port", "0", "--model", folder], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode != 0
    assert "2_Dense/config.json: activation_function torch.nn.modules.activation.GELU is not supported" in ended.stderr


def test_openai_shapes(server):
    ids = server.request("POST", "/tokenize", {"prompt": "Find: river"}).json["tokens"]
    reply = server.request("POST", "/v1/embeddings", {"input": ["river", ids], "user": "me"}).json
    assert reply["object"] == "list" and reply["model"] == "tiny-embedding"
    assert [(one["object"], one["index"]) for one in reply["data"]] == [("embedding", 0), ("embedding", 1)]
    assert reply["usage"] == {"prompt_tokens": 2 * len(ids), "total_tokens": 2 * len(ids)}
    plain = [one["embedding"] for one in reply["data"]]
    assert plain[0] == plain[1] and length(plain[0]) == pytest.approx(1, abs=1e-6)  # the default prompt comes before texts
    assert openai(server, ids) == [plain[0]] and openai(server, "river") == [plain[0]]
    packed, = openai(server, "river", encoding_format="base64")
    assert list(struct.unpack(f"<{len(plain[0])}f", base64.b64decode(packed))) == pytest.approx(plain[0], rel=1e-7)
    cut, = openai(server, "river", dimensions=16)
    assert len(cut) == 16 and length(cut) == pytest.approx(1, abs=1e-6) and cosine(cut, plain[0][:16]) > 0.999999
    assert openai(server, "river", dimensions=65536) == [plain[0]]
    other, = openai(server, "river", prompt_name="document")
    assert cosine(other, plain[0]) < 0.999
    long = [100] * 600
    assert openai(server, long[:400] + [7], truncate_prompt_tokens=0) == openai(server, long[:400] + [7])


def test_the_official_client(server):
    """It asks for base64 unless told otherwise, and decodes it."""
    with openai_sdk.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client:
        reply = client.embeddings.create(model="tiny-embedding", input=["river", "stone"])
        plain = client.embeddings.create(model="tiny-embedding", input=["river", "stone"], encoding_format="float")
        cut = client.embeddings.create(model="tiny-embedding", input="river", dimensions=8)
        with pytest.raises(openai_sdk.BadRequestError) as refused:
            client.embeddings.create(model="tiny-embedding", input=[])
    assert [one.index for one in reply.data] == [0, 1] and len(cut.data[0].embedding) == 8
    for packed, listed in zip(reply.data, plain.data):
        assert list(packed.embedding) == pytest.approx(listed.embedding, rel=1e-6)
    assert reply.usage.prompt_tokens == plain.usage.total_tokens > 0 and refused.value.param == "input"


def test_each_field_of_the_official_client(strict):
    """All that the client's own types know are sent, one at a time, to a server that refuses unknown fields, and then with wrong types."""
    model = strict.get("/v1/models").json["data"][0]["id"]
    valid = {"input": "river", "model": model, "dimensions": 8, "encoding_format": "float", "user": "u"}
    types = embedding_create_params.EmbeddingCreateParams
    assert set(valid) == types.__required_keys__ | types.__optional_keys__
    with openai_sdk.OpenAI(base_url=strict.url + "/v1", api_key="none", max_retries=0) as client:
        assert len(client.embeddings.create(**valid).data[0].embedding) == 8
        for name in ("dimensions", "encoding_format", "user"):
            assert client.embeddings.create(input="river", model=model, **{name: valid[name]}).data
    for name in valid:
        refused = strict.request("POST", "/v1/embeddings", {**valid, name: {"no": ["such", "value"]}})
        assert (refused.status, refused.error["param"]) == (400, name), refused.json


def test_llama_shapes(server):
    whole, = native(server, ["river"])
    assert length(whole[0]) == pytest.approx(1, abs=1e-6)
    assert server.request("POST", "/embedding", {"content": "river"}).json == [{"index": 0, "embedding": whole}]
    raw, = native(server, ["river"], embd_normalize=-1)
    most, = native(server, ["river"], embd_normalize=0)
    taxicab, = native(server, ["river"], embd_normalize=1)
    cube, = native(server, ["river"], embd_normalize=3)
    assert max(abs(x) for x in most[0]) == pytest.approx(32760) and cosine(most[0], raw[0]) > 0.999999
    assert sum(abs(x) for x in taxicab[0]) == pytest.approx(1) and sum(abs(x) ** 3 for x in cube[0]) == pytest.approx(1)
    mixed = native(server, ["a", [65, 66], [65, "b", 66]])
    assert len(mixed) == 3


def test_ollama_shapes(server):
    reply = server.request("POST", "/api/embed", {"model": "tiny-embedding:latest", "input": ["river", "stone"]}).json
    assert reply["model"] == "tiny-embedding" and reply["prompt_eval_count"] > 0 and reply["total_duration"] > 0
    assert reply["embeddings"] == openai(server, ["river", "stone"])
    one = server.request("POST", "/api/embed", {"input": "river", "dimensions": 8}).json["embeddings"]
    assert len(one) == 1 and len(one[0]) == 8
    assert server.request("POST", "/api/embed", {"input": ""}).json["embeddings"] == []
    old = server.request("POST", "/api/embeddings", {"prompt": "river"}).json
    assert cosine(old["embedding"], reply["embeddings"][0]) > 0.999999
    assert server.request("POST", "/api/embeddings", {"prompt": ""}).json == {"embedding": []}
    long = "word " * 200
    assert server.request("POST", "/api/embed", {"input": long}).status == 200
    refused = server.request("POST", "/api/embed", {"input": long, "truncate": False})
    assert refused.status == 400 and isinstance(refused.json["error"], str)


@pytest.mark.parametrize("path,fields,param", [
    ("/v1/embeddings", {}, "input"),
    ("/v1/embeddings", {"input": None}, "input"),
    ("/v1/embeddings", {"input": []}, "input"),
    ("/v1/embeddings", {"input": {}}, "input"),
    ("/v1/embeddings", {"input": [["a", {}]]}, "input"),
    ("/v1/embeddings", {"input": ["a", None]}, "input"),
    ("/v1/embeddings", {"input": ["a"] * 2049}, "input"),
    ("/v1/embeddings", {"input": ["a", [1, 2.5]]}, "input[1]"),
    ("/v1/embeddings", {"input": [[1 << 30]]}, "input"),
    ("/v1/embeddings", {"input": ["a", "b" * 2000]}, "input[1]"),
    ("/v1/embeddings", {"input": "a", "encoding_format": "hex"}, "encoding_format"),
    ("/v1/embeddings", {"input": "a", "dimensions": 0}, "dimensions"),
    ("/v1/embeddings", {"input": "a", "dimensions": "8"}, "dimensions"),
    ("/v1/embeddings", {"input": "a", "prompt_name": "passage"}, "prompt_name"),
    ("/v1/embeddings", {"input": "a", "model": "other"}, "model"),
    ("/embeddings", {"content": "a", "embd_normalize": -2}, "embd_normalize"),
    ("/embedding", {"content": 5}, "content"),
])
def test_a_wrong_field_is_named(server, path, fields, param):
    refused = server.request("POST", path, fields)
    assert refused.status in (400, 404) and refused.error["param"] == param


def test_text_and_vectors_exclude_each_other(server, start_server):
    for path, fields in (("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}), ("/v1/completions", {"prompt": "a"}),
                         ("/completion", {"prompt": "a"}), ("/v1/responses", {"input": "a"}),
                         ("/v1/messages", {"max_tokens": 4, "messages": [{"role": "user", "content": "a"}]})):
        refused = server.request("POST", path, fields)
        assert refused.status == 501 and "embeddings" in refused.json["error"]["message"]
    plain = start_server(model=TINY)
    for path, name in (("/v1/embeddings", "input"), ("/embedding", "content"), ("/api/embed", "input")):
        refused = plain.request("POST", path, {name: "a"})
        assert refused.status == 501 and "--pooling" in json.dumps(refused.json)


def test_many_inputs_of_many_clients(server):
    rng = random.Random()
    wanted = {}
    texts = ["".join(rng.choice("abcdefgh ") for _ in range(rng.randrange(1, 120))) for _ in range(300)]
    for text, vector in zip(texts, openai(server, texts)):
        wanted[text] = vector
    for _ in range(20):
        few = rng.sample(texts, 5)
        assert openai(server, few) == [wanted[text] for text in few]


def kill_worker(running):
    pid = running.worker_pid()
    with contextlib.suppress(ProcessLookupError):
        if pid:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("path,body", [("/v1/embeddings", {"input": "a"}), ("/embeddings", {"input": "a"}), ("/api/embed", {"input": "a"}),
                                       ("/api/embeddings", {"prompt": "a"})])
def test_unknown_fields_are_refused_if_wished(strict, path, body):
    assert strict.request("POST", path, body).status == 200
    refused = strict.request("POST", path, {**body, "no_such_field": 1})
    assert refused.status == 400
    assert "no_such_field" in refused.body.decode()


@pytest.fixture(scope="module")
def strict():
    with ShoalServer("--pooling", "mean", "--strict-fields", model=TINY) as running:
        running.wait_ready()
        yield running


def test_vectors_of_every_token_are_bounded(start_server, tmp_path):
    folder = tmp_path / "long"
    shutil.copytree(TINY, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 9000}), encoding="utf-8")
    running = start_server("--pooling", "none", model=folder)
    refused = running.request("POST", "/embeddings", {"input": [65] * 8193})
    assert refused.status == 400
    assert "at most 8192" in refused.error["message"]


@pytest.mark.parametrize("pooling", ["last", "mean", "none"])
def test_deaths_change_no_vector(start_server, pooling):
    rng = random.Random()
    running = start_server("--pooling", pooling, "--kv-cache-type", "f32", "--step-tokens", "64", "--max-sequences", "8",
                           "--poison-crashes", "100", model=TINY)
    inputs = [[rng.randrange(40, 250) for _ in range(rng.randrange(1, 400))] for _ in range(10 if pooling == "none" else 100)]
    wanted = native(running, inputs)
    stop = threading.Event()

    def kill():
        while not stop.wait(0.15):
            kill_worker(running)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        got = [native(running, inputs) for _ in range(3)]
    finally:
        stop.set()
        killer.join()
    assert got == [wanted] * 3
    running.wait_ready()
