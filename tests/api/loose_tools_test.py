"""Tools whose schemas cannot be enforced: without `strict` a header names them and the rest of the schema is enforced, with it a 400 does."""

import json

import jsonschema_rs
import pytest

import demo_model
from shoal_server import ShoalServer

HEADER = "x-shoal-loose-tools"
SET = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 4}, "tags": {
    "type": "array", "items": {"type": "string", "maxLength": 2}, "uniqueItems": True, "maxItems": 2}},
    "required": ["city", "tags"], "additionalProperties": False}
WITHOUT = {**SET, "properties": {**SET["properties"], "tags": {**SET["properties"]["tags"], "uniqueItems": False}}}
REMOTE = {"type": "object", "properties": {}, "oneOf": [{"$ref": "http://elsewhere/a"}, {"required": ["b"]}]}
EXACT = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"], "additionalProperties": False}


@pytest.fixture(scope="module")
def server():
    with ShoalServer("--prepare-threads", "1", "--log-format", "json", model=demo_model.FOLDER) as running:
        running.wait_ready()
        yield running


def chat_tools(tools, strict):
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": "Go."}], "max_tokens": 120, "tool_choice": "required", "tools": [
        {"type": "function", "function": {"name": name, "parameters": schema, "strict": strict}} for name, schema in tools.items()]}


def responses_tools(tools, strict):
    return "/v1/responses", {"input": "Go.", "max_output_tokens": 120, "tool_choice": "required", "tools": [
        {"type": "function", "name": name, "parameters": schema, "strict": strict} for name, schema in tools.items()]}


def messages_tools(tools, strict):
    return "/v1/messages", {"messages": [{"role": "user", "content": "Go."}], "max_tokens": 120, "tool_choice": {"type": "any"}, "tools": [
        {"name": name, "input_schema": schema, **({"strict": True} if strict else {})} for name, schema in tools.items()]}


APIS = pytest.mark.parametrize("api", [chat_tools, responses_tools, messages_tools])


@APIS
@pytest.mark.parametrize("stream", [False, True])
def test_a_header_and_the_log_name_loose_tools(server, api, stream):
    path, body = api({"set": SET, "exact": EXACT, "remote": REMOTE}, False)
    for _ in range(2):  # compiled, and from the cache
        reply = server.request("POST", path, {**body, "stream": stream})
        assert reply.status == 200, reply.body
        assert reply.headers[HEADER] == "set, remote"
        assert server.log_events("tools_held_loosely")[-1]["tools"] == "set, remote"
    path, body = api({"exact": EXACT}, False)
    assert HEADER not in server.request("POST", path, {**body, "stream": stream}).headers


@APIS
@pytest.mark.parametrize("stream", [False, True])
def test_strict_tools_are_refused(server, api, stream):
    path, body = api({"set": SET}, True)
    reply = server.request("POST", path, {**body, "stream": stream})
    assert reply.status == 400 and "uniqueItems" in reply.json["error"]["message"] and HEADER not in reply.headers


def test_the_rest_of_the_schema_is_enforced(server):
    path, body = chat_tools({"set": SET}, False)
    seen = 0
    for seed in range(6):
        choice = server.request("POST", path, {**body, "seed": seed, "parallel_tool_calls": False, "max_tokens": 200}).json["choices"][0]
        if choice["finish_reason"] == "tool_calls":
            jsonschema_rs.validate(WITHOUT, json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]))
            seen += 1
    assert seen > 2


def test_a_long_list_of_names_is_cut(server):
    path, body = chat_tools({f"{'long' * 30}_{i}": {"type": "object", "unevaluatedProperties": False} for i in range(20)}, False)
    reply = server.request("POST", path, body)
    assert reply.status == 200 and len(reply.headers[HEADER]) <= 2100 and reply.headers[HEADER].endswith(", ...")
