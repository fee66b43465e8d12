"""Every field of the four request bodies, as generation/field_rows.h lists it: done, noted or refused. Each is sent to each API.

A field that is done is read, so a value of a wrong type is refused and names it. One that is noted takes any value. Those of
llama.cpp's samplers are checked as their schemas in openapi.json say. One that is refused is a 400 that names it. An unknown field is logged once, or refused with --strict-fields.
"""

import json
import random
import re

import pytest

from scripted_server import ScriptedServer
from shoal_server import ROOT, wait_until

ROWS = [row for row in re.findall(r'^ *ROW\("(\w+)", *(\w+), *(\w+), *(\w+), *(\w+), *(OFF|NEVER|VALUE\(.*?\)), *(NULL|".*?")\)',
                                  (ROOT / "frontend/api/generation/field_rows.h").read_text(encoding="utf-8"), re.M)]
HELLO = [{"role": "user", "content": "Hello"}]
APIS = {"/v1/chat/completions": {"messages": HELLO}, "/v1/completions": {"prompt": "Hello"}, "/v1/responses": {"input": "Hello"},
        "/v1/messages": {"messages": HELLO, "max_tokens": 5}}
SCHEMAS = ["ChatRequest", "CompletionRequest", "ResponsesRequest", "MessagesRequest"]
ASKS = {"skip_special_tokens": False, "spaces_between_special_tokens": False, "cache_prompt": False, "speculation": False, "parse_tool_calls": False,
        "include_reasoning": False}  # values of refused fields that ask for something; others: 7
# Done without a type that could be wrong: a wrong value of these is one that no table of types can tell.
ANY_VALUE = {"cache_control", "context_management", "service_tier", "metadata", "speed"}
# Read only together with another field, or only if that field is there.
TOGETHER = {"grammar_lazy": {"grammar": 'root ::= "a"'}, "grammar_triggers": {"grammar": 'root ::= "a"', "grammar_lazy": True}}

SAMPLERS = ["dynatemp_range", "dynatemp_exponent", "xtc_probability", "xtc_threshold", "mirostat_tau", "mirostat_eta", "dry_multiplier",
            "dry_base", "dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breakers"]
OPENAPI = json.loads((ROOT / "frontend/api/openapi.json").read_text(encoding="utf-8"))["components"]["schemas"]


@pytest.fixture(scope="module", params=["", "--strict-fields"])
def server(request, tmp_path_factory):
    with ScriptedServer(tmp_path_factory.mktemp("fields"), *([request.param] if request.param else [])) as running:
        running.says({"text": "Hello.", "repeat": True})
        running.wait_ready()
        running.strict = bool(request.param)
        yield running
        running.wait_idle()


def send(server, path, **fields):
    return server.request("POST", path, {**APIS[path], **fields})


def place(reply):
    error = reply.json["error"]
    return error.get("param") or (error.get("details") or {}).get("param") or error["message"]


def typed_values(schema):
    """Values that the schema allows, and values that it does not."""
    kind = schema["type"][0]
    if kind == "array":
        most = schema["maxItems"]
        return [None, ["\n"], ["a", "é" * 20], ["b"] * most], [[], "a", 7, {"a": "b"}, [""], [1], ["a", None], ["a" * 41], ["b"] * (most + 1)]
    least, most = schema["minimum"], schema["maximum"]
    refused = [least - 1, most + 1, 1e300, "1", "", [least], {}, True, False]
    if kind == "integer":
        return [None, least, most, random.randint(least, most)], [*refused, least + 0.5]
    return [None, least, most, random.uniform(least, most)], [*refused, least - 0.001, most + 0.001]


def test_the_table_is_complete():
    text = (ROOT / "frontend/api/generation/field_rows.h").read_text(encoding="utf-8")
    assert len(ROWS) == text.count("\n    ROW(") > 150
    assert len({row[0] for row in ROWS}) == len(ROWS)
    for column, schema in enumerate(SCHEMAS, 1):
        described = set(OPENAPI[schema]["properties"])
        done = {row[0] for row in ROWS if row[column] in ("DONE",)}
        noted = {row[0] for row in ROWS if row[column] == "NOTED"}
        assert done <= described <= done | noted, (schema, done ^ described)


@pytest.mark.parametrize("column, path", enumerate(APIS, 1))
def test_each_field_of_an_api(server, column, path):
    for name, *states, harmless, _ in ROWS:
        state = states[column - 1]
        if state == "NOT":
            value = ASKS.get(name, 7)
            reply = send(server, path, **{name: value})
            assert reply.status == 400 and name in str(place(reply)), (path, name, reply.json)
            neutral = {"OFF": False, "NEVER": None}.get(harmless, json.loads(harmless[6:-1]) if harmless[0] == "V" else None)
            assert send(server, path, **{name: neutral}).status == 200, (path, name, neutral)
            if harmless == "NEVER":
                for empty in (0, {}, [], ""):
                    assert send(server, path, **{name: empty}).status == 400, (path, name, empty)
        elif state == "NOTED":
            for value in (7, "x", {"a": [1]}, None):
                assert send(server, path, **{name: value}).status == 200, (path, name, value)
        elif state == "DONE" and name not in ANY_VALUE:
            wrong = send(server, path, **TOGETHER.get(name, {}), **{name: {"no": ["such", "value"]}})
            if wrong.status == 200:
                wrong = send(server, path, **TOGETHER.get(name, {}), **{name: -7.5})
            assert wrong.status in (400, 404), (path, name)
        elif state == "NONE":
            assert send(server, path, **{name: 7}).status == (400 if server.strict else 200), (path, name)


@pytest.mark.parametrize("path", APIS)
def test_fields_of_samplers(server, path):
    for name in SAMPLERS:
        taken, refused = typed_values(OPENAPI["ChatRequest"]["properties"][name])
        for value in taken:
            assert send(server, path, **{name: value}).status == 200, (path, name, value)
        for value in refused:
            reply = send(server, path, **{name: value})
            assert reply.status == 400 and name in str(place(reply)), (path, name, value, reply.json)
    for value in (0, 2, None):
        assert send(server, path, mirostat=value).status == 200
    for value in (1, 3, -1, 0.5, "2", True, [2]):
        reply = send(server, path, mirostat=value)
        assert reply.status == 400 and "mirostat" in str(place(reply)), (value, reply.json)


def test_unknown_fields(server):
    for path in APIS:
        for _ in range(3):
            reply = send(server, path, fancy_new_field=1)
            assert reply.status == (400 if server.strict else 200)
            if server.strict:
                assert "fancy_new_field" in str(place(reply))
    if not server.strict:
        wait_until(lambda: "unknown_field field=fancy_new_field" in server.log_text(), "the note in the log")
        assert server.log_text().count("field=fancy_new_field") == 1


def test_what_these_fields_do(server):
    if server.strict:
        return
    path = "/v1/chat/completions"
    reply = server.request("POST", path, {"messages": HELLO, "stream": True,
                                          "stream_options": {"include_usage": True, "continuous_usage_stats": True}})
    chunks = [json.loads(line[6:]) for line in reply.body.decode().splitlines() if line.startswith("data: {")]
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert counts[0] == 0 and counts == sorted(counts) and counts[-1] > 1
    for fields in ({"repeat_penalty": 1.1, "repetition_penalty": 1.2}, {"repeat_penalty": 0}, {"repeat_last_n": -2}):
        assert send(server, path, **fields).status == 400
    assert send(server, path, repeat_penalty=1.3, repeat_last_n=-1, thinking={"type": "disabled"}).status == 200
