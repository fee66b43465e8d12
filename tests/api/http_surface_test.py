"""What clients expect of the server besides its APIs: compressed bodies, loose paths, probes, names of the model."""

import ctypes
import ctypes.util
import gzip
import json
import time

import anthropic
import openai
import pytest

from shoal_server import MODEL_ID, send_signal, start_and_stop_worker

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2, "temperature": 0}


def zstd(data):
    library = ctypes.CDLL(ctypes.util.find_library("zstd"))
    library.ZSTD_compressBound.restype = library.ZSTD_compress.restype = ctypes.c_size_t
    library.ZSTD_compressBound.argtypes = [ctypes.c_size_t]
    library.ZSTD_compress.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
    packed = ctypes.create_string_buffer(library.ZSTD_compressBound(len(data)))
    packed_bytes = library.ZSTD_compress(packed, len(packed), data, len(data), 3)
    return packed.raw[:packed_bytes]


def codings(server):
    """(name, compressor) for each coding the server supports, which it lists when it refuses another."""
    refused = server.request("POST", CHAT, b"x", {"Content-Encoding": "br"})
    assert (refused.status, refused.error["code"]) == (415, "unsupported_content_encoding")
    listed = refused.error["message"].split("supported: ")[1].split(", ")
    assert listed[0] == "gzip"
    return [(name, {"gzip": gzip.compress, "zstd": zstd}[name]) for name in listed]


def test_compressed_bodies_are_read_by_every_api(server):
    plain = server.request("POST", CHAT, BODY).json["choices"]
    for name, compress in codings(server):
        headers = {"Content-Encoding": name}
        packed = server.request("POST", CHAT, compress(json.dumps(BODY).encode()), headers)
        assert packed.status == 200 and packed.json["choices"] == plain
        chunks = (bytes([byte]) for byte in compress(json.dumps(BODY).encode()))
        assert server.request("POST", CHAT, chunks, headers).json["choices"] == plain
        for path, body in (("/v1/messages", BODY), ("/v1/responses", {"input": "Hello", "max_output_tokens": 2}),
                           ("/v1/completions", {"prompt": "Hello", "max_tokens": 2}), ("/tokenize", {"content": "Hello"}),
                           ("/v1/messages/count_tokens", {"messages": BODY["messages"]})):
            assert server.request("POST", path, compress(json.dumps(body).encode()), headers).status == 200, path
        for broken in (b"", b"{}", compress(json.dumps(BODY).encode())[:-3]):
            refused = server.request("POST", CHAT, broken, headers)
            assert refused.status == 400 and "Content-Encoding" in refused.error["message"]


@pytest.mark.long
def test_bombs_are_refused_within_the_limit(start_server):
    server = start_server("--max-body-bytes", "1M", "--prepare-threads", "1")
    for name, compress in codings(server):
        bomb = compress(b'{"messages": "' + b" " * (512 << 20))
        assert len(bomb) < 1 << 20
        before = server.metrics()["process_resident_memory_bytes"]
        started = time.monotonic()
        for path in (CHAT, "/v1/messages", "/v1/responses", "/tokenize"):
            refused = server.request("POST", path, bomb, {"Content-Encoding": name})
            assert refused.status == 413 and str(1 << 20) in refused.body.decode()
        assert time.monotonic() - started < 60  # each unpacks 1 MB; an idle machine takes milliseconds
        assert server.metrics()["process_resident_memory_bytes"] - before < 64 << 20
    assert server.chat("Hello", max_tokens=1).status == 200


def test_repeated_and_trailing_slashes_are_ignored(server):
    for path in ("//v1/chat/completions", "/v1//chat/completions/", "/v1/chat/completions//"):
        assert server.request("POST", path, BODY).status == 200, path
    assert server.get("/v1/models/").json == server.get("/v1/models").json
    assert server.get(f"/v1/models//{MODEL_ID}/").json["id"] == MODEL_ID
    client = openai.OpenAI(base_url=server.url + "//v1//", api_key="none", max_retries=0)
    assert client.models.list().data[0].id == MODEL_ID


def test_probes_answer_get_and_head(server):
    for path in ("/", "/health", "/ping", "/version", "/v1/models", "/ready", "/metrics", "/openapi.json"):
        got, head = server.get(path), server.request("HEAD", path)
        assert (got.status, head.status, head.body) == (200, 200, b""), path
        assert int(head.headers["content-length"]) > 0
    assert set(server.get("/version").json) == {"version"}
    assert server.request("HEAD", "/v1/nothing").status == 404
    assert server.request("HEAD", CHAT).status == 405


def test_health_can_mean_ready(start_server, tmp_path):
    """With --health-needs-ready it fails while the model loads, as llama.cpp's; without, it succeeds."""
    slow, worker = start_and_stop_worker(start_server, tmp_path, "--health-needs-ready")
    for path in ("/health", "/ping", "/", "/ready"):
        reply = slow.get(path)
        assert (reply.status, reply.json["status"]) == (503, "loading"), path
    send_signal(worker, "SIGCONT")
    slow.wait_ready()
    for path in ("/health", "/ping", "/", "/ready"):
        assert slow.get(path).status == 200, path


def test_the_model_has_every_member_of_anthropics_model_info(server):
    client = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)
    raw = client.models.with_raw_response.retrieve(MODEL_ID)
    info = anthropic.types.ModelInfo.model_validate(json.loads(raw.text()))  # strict, unlike the client
    assert set(anthropic.types.ModelInfo.model_fields) <= set(json.loads(raw.text()))
    assert info.capabilities.structured_outputs.supported and not info.capabilities.image_input.supported
    assert not info.capabilities.thinking.supported and info.capabilities.thinking.types.disabled.supported


def test_a_model_has_several_names(start_server):
    server = start_server("--served-model-name", "one", "--served-model-name", "claude-sonnet", "--served-model-name", "org/two")
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    assert [model.id for model in client.models.list()] == ["one", "claude-sonnet", "org/two"]
    assert client.models.retrieve("org/two").id == "org/two"
    claude = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)
    reply = claude.messages.create(model="claude-sonnet", max_tokens=1, messages=BODY["messages"])
    assert reply.model == "one"
    for name in ("one", "org/two"):
        assert server.request("POST", CHAT, {**BODY, "model": name}).json["model"] == "one"
    refused = server.request("POST", CHAT, {**BODY, "model": "two"})
    assert (refused.status, refused.error["code"]) == (404, "model_not_found")
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("two")


def test_any_name_can_be_accepted(start_server):
    server = start_server("--any-model-name")
    assert server.request("POST", CHAT, {**BODY, "model": "gpt-5"}).json["model"] == MODEL_ID
    assert server.request("POST", CHAT, {**BODY, "model": 5}).status == 400
    assert [model["id"] for model in server.get("/v1/models").json["data"]] == [MODEL_ID]
    assert server.get("/v1/models/claude-opus-4").json["id"] == "claude-opus-4"
