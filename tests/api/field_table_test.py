"""Every field of the four request bodies, as generation/field_rows.h lists it: done, noted or refused. Each is sent to each API.

A field that is done is read, so a value of a wrong type is refused and names it. One that is noted takes any value. Those of
llama.cpp's samplers are checked as their schemas in openapi.json say. One that is refused is a 400 that names it. An unknown field is logged once, or refused with --strict-fields.

Every parameter that the official SDKs know (their own types, at the versions of tests/requirements.txt) must be in the table, and the SDKs
send valid values of all that are done or noted.
"""

import json
import random
import re

import anthropic
import openai
import pytest
from anthropic.types import message_count_tokens_params, message_create_params
from anthropic.types.beta import beta_output_config_param, beta_thinking_config_enabled_param
from anthropic.types.beta import message_count_tokens_params as beta_count_params
from anthropic.types.beta import message_create_params as beta_create_params
from openai.types import completion_create_params
from openai.types.chat import chat_completion_stream_options_param
from openai.types.chat import completion_create_params as chat_create_params
from openai.types.responses import input_token_count_params, response_create_params, response_text_config_param
from openai.types.shared_params import reasoning

from scripted_server import ScriptedServer
from shoal_server import ROOT, wait_until

ROWS = [row for row in re.findall(r'^ *ROW\("(\w+)", *(\w+), *(\w+), *(\w+), *(\w+), *(OFF|NEVER|VALUE\(.*?\)), *(NULL|".*?")\)',
                                  (ROOT / "frontend/api/generation/field_rows.h").read_text(encoding="utf-8"), re.M)]
MEMBERS = [row for row in re.findall(r'^ *MEMBER\("(\w+)", "(\w+)", *(\w+), *(\w+), *(\w+), *(\w+), *(NULL|".*?")\)',
                                     (ROOT / "frontend/api/generation/member_rows.h").read_text(encoding="utf-8"), re.M)]
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


# Parameters of the SDKs that are headers of the request, not fields of its body.
HEADERS = {"betas": ["x-2025-01-01"], "user_profile_id": "profile", "workspace_id": "workspace"}
TOOL = {"name": "look", "parameters": {"type": "object", "properties": {}}}
SYSTEM = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
CHAT = dict(messages=[{"role": "user", "content": "Hello", "name": "Ann"}], frequency_penalty=0.5, logit_bias={"5": -3}, logprobs=True,
            max_completion_tokens=5, metadata={"a": "b"}, modalities=["text"], n=2, parallel_tool_calls=False, presence_penalty=0.5,
            prompt_cache_key="k", prompt_cache_options={"mode": "implicit", "ttl": "30m"}, prompt_cache_retention="24h", reasoning_effort="low",
            response_format={"type": "text"}, safety_identifier="s", seed=7, service_tier="auto", stop=["zz"], store=False, stream=True,
            stream_options={"include_usage": True, "include_obfuscation": False}, temperature=0.5, tool_choice="auto", top_logprobs=2,
            tools=[{"type": "function", "function": TOOL}], top_p=0.5, user="u", verbosity="low")
COMPLETION = dict(prompt=["Hello", "Bye"], best_of=2, echo=True, frequency_penalty=0.5, logit_bias={"5": -3}, logprobs=2, max_tokens=5, n=2,
                  presence_penalty=0.5, seed=7, stop="zz", stream=True, stream_options={"include_usage": True}, temperature=0.5, top_p=0.5, user="u")
COUNTED_RESPONSE = dict(input="Hello", instructions="Be brief.", parallel_tool_calls=True, reasoning={"effort": "low", "summary": "auto"},
                        text={"format": {"type": "text"}, "verbosity": "low"}, tool_choice="auto", tools=[{"type": "function", **TOOL}], truncation="disabled")
RESPONSE = dict(COUNTED_RESPONSE, background=False, background_options={"completion_window": "soonest"}, include=["message.output_text.logprobs"], max_output_tokens=5, max_tool_calls=3, metadata={"a": "b"},
                prompt_cache_key="k", prompt_cache_options={"mode": "explicit"}, prompt_cache_retention="24h", safety_identifier="s", service_tier="auto",
                store=True, stream=True, stream_options={"include_obfuscation": False}, temperature=0.5, top_logprobs=2, top_p=0.5, user="u")
COUNTED_MESSAGE = dict(messages=HELLO, cache_control={"type": "ephemeral"}, output_config={"effort": "low"}, speed="standard", system=SYSTEM,
                       thinking={"type": "adaptive"}, tool_choice={"type": "auto"}, tools=[{"name": "look", "input_schema": TOOL["parameters"]}])
MESSAGE = dict(COUNTED_MESSAGE, max_tokens=5, metadata={"user_id": "u"}, service_tier="auto", stop_sequences=["zz"], stream=True, temperature=0.5, top_k=5, top_p=0.5)
CLEARING = {"edits": [{"type": "clear_thinking_20251015"}]}
# For each method of the SDKs: the types of its parameters, the column of the table, the path, the method, valid values; those that cannot be sent together.
METHODS = {
    "chat": ([chat_create_params.CompletionCreateParamsNonStreaming, chat_create_params.CompletionCreateParamsStreaming], 1, "/v1/chat/completions",
             lambda sdks: sdks[0].chat.completions.create, CHAT, [dict(max_tokens=5)]),
    "completions": ([completion_create_params.CompletionCreateParamsNonStreaming, completion_create_params.CompletionCreateParamsStreaming], 2,
                    "/v1/completions", lambda sdks: sdks[0].completions.create, COMPLETION, [dict(suffix="")]),
    "responses": ([response_create_params.ResponseCreateParamsNonStreaming, response_create_params.ResponseCreateParamsStreaming], 3, "/v1/responses",
                  lambda sdks: sdks[0].responses.create, RESPONSE, []),
    "input_tokens": ([input_token_count_params.InputTokenCountParams], 3, "/v1/responses/input_tokens", lambda sdks: sdks[0].responses.input_tokens.count,
                     COUNTED_RESPONSE, []),
    "messages": ([message_create_params.MessageCreateParamsNonStreaming, message_create_params.MessageCreateParamsStreaming], 4, "/v1/messages",
                 lambda sdks: sdks[1].messages.create, MESSAGE, []),
    "count_tokens": ([message_count_tokens_params.MessageCountTokensParams], 4, "/v1/messages/count_tokens", lambda sdks: sdks[1].messages.count_tokens,
                     COUNTED_MESSAGE, []),
    "beta_messages": ([beta_create_params.MessageCreateParamsNonStreaming, beta_create_params.MessageCreateParamsStreaming], 4, "/v1/messages",
                      lambda sdks: sdks[1].beta.messages.create, dict(MESSAGE, fallbacks=[{"model": "other"}], fallback_credit_token="t"), [dict(context_management=CLEARING)]),
    "beta_count_tokens": ([beta_count_params.MessageCountTokensParams], 4, "/v1/messages/count_tokens", lambda sdks: sdks[1].beta.messages.count_tokens,
                          COUNTED_MESSAGE, [dict(context_management=CLEARING)]),
}


@pytest.fixture(scope="module", params=["", "--strict-fields"])
def server(request, tmp_path_factory):
    with ScriptedServer(tmp_path_factory.mktemp("fields"), *([request.param] if request.param else [])) as running:
        running.says({"text": "Hello.", "repeat": True})
        running.wait_ready()
        running.strict = bool(request.param)
        yield running
        running.wait_idle()


def send(server, path, **fields):
    body = APIS[path] if path in APIS else {"input": "Hello"} if "responses" in path else {"messages": HELLO}
    return server.request("POST", path, {**body, **fields})


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


def check_field(server, path, row, state):
    name, harmless = row[0], row[5]
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


@pytest.mark.parametrize("column, path", enumerate(APIS, 1))
def test_each_field_of_an_api(server, column, path):
    for row in ROWS:
        check_field(server, path, row, row[column])


def known_to_sdk(types):
    return set().union(*(one.__required_keys__ | one.__optional_keys__ for one in types))


@pytest.mark.parametrize("method", METHODS)
def test_each_field_of_the_sdks(server, method):
    types, column, path, call, valid, apart = METHODS[method]
    known = known_to_sdk(types) - set(HEADERS)
    rows = {row[0]: row for row in ROWS if row[column] != "NONE"}
    assert known <= set(rows), f"not in the table: {known - set(rows)}"
    if path not in APIS:  # the fields of the others are sent by the test before
        for name in known:
            check_field(server, path, rows[name], rows[name][column])
    refused = {name for name in known if rows[name][column] == "NOT"}
    valid = {name: value for name, value in valid.items() if name in known} | {"model": server.get("/v1/models").json["data"][0]["id"]}
    sent = set(valid).union(*apart) | known & {"previous_response_id"}  # which is sent below
    assert sent == known - refused
    base = f"http://127.0.0.1:{server.port}"
    with openai.OpenAI(base_url=f"{base}/v1", api_key="k", max_retries=0) as one, anthropic.Anthropic(base_url=base, api_key="k", max_retries=0) as two:
        create = call((one, two))
        headers = {name: value for name, value in HEADERS.items() if name in known_to_sdk(types)}
        finish(create(**valid, **headers))
        whole = {name: value for name, value in valid.items() if name not in ("stream", "stream_options", "n", "best_of")}
        finish(create(**whole))
        for fields in apart:
            finish(create(**{name: whole[name] for name in ("model", "messages", "prompt", "max_tokens") if name in whole}, **fields))
        if "previous_response_id" in sent:
            before = one.responses.create(input="Hello", model=valid["model"])
            create(input="And?", previous_response_id=before.id, model=valid["model"])


def finish(answer):
    """Reads a stream to its end; the SDK raises what the stream says of errors."""
    if isinstance(answer, (openai.Stream, anthropic.Stream)):
        assert list(answer)


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


def member_body(name, fields):
    """A body with this object, and what its API wants beside it."""
    beside = {"stream_options": {"stream": True}, "background_options": {"background": True}, "tool_choice": {"tools": MESSAGE["tools"]}}
    least = {"thinking": {"type": "enabled", "budget_tokens": 2}, "tool_choice": {"type": "tool", "name": "look"}}
    return {**beside.get(name, {}), name: {**least.get(name, {}), **fields}}


def test_each_member_of_an_object(server):
    text = (ROOT / "frontend/api/generation/member_rows.h").read_text(encoding="utf-8")
    assert len(MEMBERS) == text.count("\n    MEMBER(") > 20
    for name, member, *states, harmless in MEMBERS:
        for path, state in zip(APIS, states):
            param = f"{name}.{member}"
            wrong = send(server, path, **member_body(name, {member: {"no": ["such", "value"]}}))
            if state == "NOTED":
                assert wrong.status == 200, (path, param)
            elif state == "NOT":
                assert wrong.status == 400 and place(wrong) == param if path != "/v1/messages" else param in place(wrong), (path, param, wrong.json)
                for value in [None, False, 0, "", [], {}, *([] if harmless == "NULL" else [json.loads(harmless)])]:
                    assert send(server, path, **member_body(name, {member: value})).status == 200, (path, param, value)
            elif state == "DONE":
                assert wrong.status == 400, (path, param)


@pytest.mark.parametrize("column, path", enumerate(APIS))
def test_unknown_members(server, column, path):
    for name in sorted({row[0] for row in MEMBERS if row[2 + column] != "NONE"}):
        odd = f"m{random.randint(0, 10**9)}"
        replies = [send(server, path, **member_body(name, {odd: 1})) for _ in range(2)]
        if server.strict:
            assert all(reply.status == 400 and f"{name}.{odd}" in place(reply) for reply in replies), (name, replies[0].json)
        else:
            assert [reply.status for reply in replies] == [200, 200], (name, replies[0].json)
            wait_until(lambda: f"unknown_field field={name}.{odd}" in server.log_text(), "the note in the log")
            assert server.log_text().count(f"field={name}.{odd}") == 1


def test_the_members_are_those_of_the_sdks():
    """Every member that the SDKs know is in the table; a newer SDK may know more of the objects than these."""
    types = {("stream_options", 0): chat_completion_stream_options_param.ChatCompletionStreamOptionsParam,
             ("stream_options", 2): response_create_params.StreamOptions, ("reasoning", 2): reasoning.Reasoning,
             ("text", 2): response_text_config_param.ResponseTextConfigParam, ("output_config", 3): beta_output_config_param.BetaOutputConfigParam,
             ("thinking", 3): beta_thinking_config_enabled_param.BetaThinkingConfigEnabledParam}
    for (name, column), kind in types.items():
        assert known_to_sdk([kind]) <= {row[1] for row in MEMBERS if row[0] == name and row[2 + column] != "NONE"}, name


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
    assert send(server, "/v1/responses", background_options={"completion_window": "soonest"}).status == 200
    refused = send(server, "/v1/responses", background_options={"completion_window": "2h"})
    assert refused.status == 400 and place(refused) == "background_options.completion_window"
