"""/tokenize, /detokenize, /apply-template in the shapes of vLLM and llama.cpp, and /openapi.json against the server."""

import json
import re

import pytest

from shoal_server import ROOT

TEXT = "Grüße, <|im_start|> 👋"
CHAT = {"messages": [{"role": "user", "content": "Hi"}]}


def post(server, path, body):
    replies = [server.request("POST", prefix + path, body) for prefix in ("", "/v1")]
    assert replies[0].status == replies[1].status and replies[0].body == replies[1].body
    return replies[0]


def test_texts_there_and_back(server):
    vllm = post(server, "/tokenize", {"prompt": TEXT, "return_token_strs": True}).json
    assert vllm["count"] == len(vllm["tokens"]) == len(vllm["token_strs"]) and vllm["max_model_len"] > 0
    assert "<|im_start|>" in vllm["token_strs"]
    llama = post(server, "/tokenize", {"content": TEXT, "with_pieces": True}).json
    assert [one["id"] for one in llama["tokens"]] == vllm["tokens"]
    pieces = b"".join(one["piece"].encode() if isinstance(one["piece"], str) else bytes(one["piece"])
                      for one in llama["tokens"])
    assert pieces.decode() == TEXT
    back = post(server, "/detokenize", {"tokens": vllm["tokens"]}).json
    assert back["prompt"] == back["content"] == TEXT
    plain = post(server, "/tokenize", {"content": TEXT, "parse_special": False}).json["tokens"]
    assert len(plain) > len(vllm["tokens"])
    assert post(server, "/detokenize", {"tokens": plain}).json["content"] == TEXT
    assert post(server, "/tokenize", {"content": ""}).json == {"tokens": []}


def test_a_chat_is_what_its_request_sends(server):
    prompt = post(server, "/apply-template", CHAT).json["prompt"]
    assert prompt.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    tokens = post(server, "/tokenize", CHAT).json
    assert post(server, "/tokenize", {"prompt": prompt}).json["tokens"] == tokens["tokens"]
    assert server.chat("Hi", max_tokens=1).json["usage"]["prompt_tokens"] == tokens["count"]
    assert not post(server, "/apply-template", {**CHAT, "add_generation_prompt": False}).json["prompt"].endswith(
        "assistant\n")


@pytest.mark.parametrize("path,body,param", [
    ("/tokenize", {}, "prompt"),
    ("/tokenize", {"prompt": 3}, "prompt"),
    ("/tokenize", {"content": [1]}, "content"),
    ("/tokenize", {"content": "a", "with_pieces": 1}, "with_pieces"),
    ("/tokenize", {"messages": []}, "messages"),
    ("/detokenize", {"tokens": "a"}, "tokens"),
    ("/detokenize", {"tokens": [1, 10 ** 9]}, "tokens"),
    ("/apply-template", {"messages": [{"role": "x", "content": ""}]}, "messages[0].role"),
])
def test_a_wrong_field_is_named(server, path, body, param):
    refused = post(server, path, body)
    assert refused.status == 400 and refused.error["param"] == param


# --- the document ---------------------------------------------------------------------------------

def document(server):
    return server.get("/openapi.json").json


def test_the_document_is_of_the_routes_that_are_served(server):
    text = "".join((ROOT / "frontend/serve/routes" / name).read_text(encoding="utf-8") for name in ("route_table.c", "route_replies.h"))
    rows = re.findall(r'[{(]"(/[^"]+)", +HTTP_(GET|POST|DELETE), +(V1_ONLY|ROOT_ONLY|V1_AND_ROOT)', text)
    assert len(rows) > 15
    prefixes = {"V1_ONLY": ["/v1"], "ROOT_ONLY": [""], "V1_AND_ROOT": ["/v1", ""]}
    served = {(prefix + path, method) for path, method, places in rows for prefix in prefixes[places]}
    described = set()
    for path, methods in document(server)["paths"].items():
        for method in methods:
            described.add((path, method.upper()))
    for path, method in served:
        assert any(at == path.rstrip("/") or (path.endswith("/") and at.startswith(path)) for at, how in described
                   if how == method), (path, method)
    for path, method in described - {("/v1/status/stream", "GET")}:  # its events have no end
        reply = server.request(method, path.replace("{", "").replace("}", ""), {} if method == "POST" else None)
        assert reply.status != 405 and (reply.status != 404 or "{" in path), (path, method, reply.body)


def resolve(doc, schema):
    while "$ref" in schema:
        place, schema = schema["$ref"], doc
        for name in place.removeprefix("#/").split("/"):
            schema = schema[name]
    return schema


def out_of_range(schema):
    """Values that the schema does not allow."""
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if {"integer", "number"} & set(kinds):
        for bound, beyond in (("minimum", -2), ("exclusiveMinimum", -2), ("maximum", 2)):
            if bound in schema:
                yield schema[bound] + beyond
        yield "1"
    elif "array" in kinds or "object" in kinds or "string" in kinds:
        yield from (3,) if "boolean" in kinds else (3, True)
    elif "boolean" in kinds:
        yield from (1, "true")
    elif "enum" in schema:
        yield from (3, "no such word", [])


@pytest.mark.parametrize("path,body", [("/v1/chat/completions", CHAT), ("/v1/completions", {"prompt": "Hi"}),
                                       ("/v1/responses", {"input": "Hi"})])
def test_what_the_document_does_not_allow_is_refused_by_name(server, path, body):
    doc = document(server)
    schema = resolve(doc, doc["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"])
    tried = 0
    for name, field in schema["properties"].items():
        for value in out_of_range(resolve(doc, field)):
            reply = server.request("POST", path, json.dumps({**body, name: value}))
            assert reply.status in (400, 404), (name, value, reply.body)
            assert reply.error["param"].split("[")[0].split(".")[0] == name, (name, value, reply.error)
            tried += 1
    assert tried > 60
