"""Every dialect of structured output and enforced calls, on the demo model: answers are checked by jsonschema_rs and re."""

import json
import re

import jsonschema_rs
import pytest

import demo_model
from shoal_server import ShoalServer

SCHEMA = {"type": "object", "properties": {"shape": {"enum": ["circle", "square"]}, "count": {"type": "integer", "minimum": 0, "maximum": 99},
                                           "name": {"type": "string", "maxLength": 6}},
          "required": ["shape", "count", "name"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": name, "description": "Does it.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 8}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"], "additionalProperties": False}}} for name in ("get_weather", "get_time")]
GBNF = 'root ::= "count: " [0-9]{2} ("," [a-z]{3})?'
LARK = 'start: WORD (" " WORD)~1..2\nWORD: /[a-c]{2,4}/'


@pytest.fixture(scope="module")
def server():
    with ShoalServer("--prepare-threads", "1", model=demo_model.FOLDER) as running:
        running.wait_ready()
        yield running


def chat(server, **fields):
    return server.request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "How many?"}], "max_tokens": 200,
                                                           "seed": 7, **fields})


def content(server, **fields):
    reply = chat(server, **fields)
    assert reply.status == 200, reply.json
    choice = reply.json["choices"][0]
    assert choice["finish_reason"] == "stop", choice
    return choice["message"]["content"]


def is_valid(text):
    jsonschema_rs.validate(SCHEMA, json.loads(text))


@pytest.mark.parametrize("fields", [
    {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}}},
    {"structured_outputs": {"json": SCHEMA}}, {"guided_json": json.dumps(SCHEMA)}, {"json_schema": SCHEMA}])
def test_schemas(server, fields):
    is_valid(content(server, **fields))


@pytest.mark.parametrize("fields, pattern", [
    ({"structured_outputs": {"regex": "[a-f]{4}"}}, "[a-f]{4}"), ({"guided_regex": "x[0-9]{1,4}y{2}"}, "x[0-9]{1,4}y{2}"), ({"regex": "(ab|c){2}"}, "(ab|c){2}"),
    ({"guided_choice": ["red", "blue"]}, "red|blue"), ({"structured_outputs": {"choice": ["one"]}}, "one"),
    ({"grammar": GBNF}, "count: [0-9]{2}(,[a-z]{3})?"), ({"ebnf": GBNF}, "count: [0-9]{2}(,[a-z]{3})?"),
    ({"guided_grammar": LARK}, "[a-c]{2,4}( [a-c]{2,4}){1,2}"),
    ({"structured_outputs": {"structural_tag": {"type": "structural_tag", "format": {"type": "tag", "begin": "<a>", "content": {
        "type": "regex", "pattern": "[0-9]{3}"}, "end": "</a>"}}}}, "<a>[0-9]{3}</a>")])
def test_texts(server, fields, pattern):
    assert re.fullmatch(pattern, content(server, **fields))


def test_a_stop_string_cuts_an_enforced_text(server):
    """The text ends before the stop string, as a free one does; what comes before it is what the grammar wrote."""
    whole = content(server, guided_regex="(ab|ba){3}-end-(ab|ba){3}")
    for stop in ("-end", "d-"):
        reply = chat(server, guided_regex="(ab|ba){3}-end-(ab|ba){3}", stop=["nowhere", stop]).json["choices"][0]
        assert (reply["finish_reason"], reply["message"]["content"]) == ("stop", whole[:whole.index(stop)])
    kept = chat(server, guided_regex="(ab|ba){3}-end-(ab|ba){3}", stop="-end", include_stop_str_in_output=True)
    assert kept.json["choices"][0]["message"]["content"] == whole[:whole.index("-end") + 4]


def test_json_object(server):
    choice = chat(server, response_format={"type": "json_object"}).json["choices"][0]
    assert choice["message"]["content"].startswith("{")
    if choice["finish_reason"] == "stop":  # the demo model writes long strings
        assert isinstance(json.loads(choice["message"]["content"]), dict)


def test_other_apis(server):
    form = {"type": "json_schema", "schema": SCHEMA}
    reply = server.request("POST", "/v1/responses", {"input": "How many?", "text": {"format": {"name": "a", **form}}, "seed": 1})
    assert reply.json["status"] == "completed" and reply.json["text"]["format"]["type"] == "json_schema"
    is_valid(reply.json["output"][-1]["content"][0]["text"])
    for fields in ({"output_config": {"format": form}}, {"output_format": form}):
        reply = server.request("POST", "/v1/messages", {"messages": [{"role": "user", "content": "How many?"}], "max_tokens": 200, **fields})
        is_valid(reply.json["content"][-1]["text"])
    reply = server.request("POST", "/v1/completions", {"prompt": "Count: ", "guided_regex": "[0-9]{3}", "max_tokens": 50})
    assert re.fullmatch("[0-9]{3}", reply.json["choices"][0]["text"])


def test_bounds_in_descriptions(server):
    """Anthropic's SDKs send bounds as the ends of descriptions."""
    schema = {"type": "object", "properties": {"name": {"type": "string", "description": "Its name\n\n{maxLength: 5}"},
                                               "n": {"type": "integer", "description": "{minimum: 3, maximum: 5}"}}, "required": ["name", "n"]}
    for seed in range(3):
        reply = server.request("POST", "/v1/messages", {"messages": [{"role": "user", "content": "How many?"}], "max_tokens": 200, "seed": seed,
                                                        "output_config": {"format": {"type": "json_schema", "schema": schema}}})
        told = json.loads(reply.json["content"][-1]["text"])
        assert len(told["name"]) <= 5 and 3 <= told["n"] <= 5


def test_objects_have_their_listed_members(server):
    open_schema = {key: value for key, value in SCHEMA.items() if key != "additionalProperties"}
    tools = [{"type": "function", "function": {"name": "f", "parameters": open_schema}}]
    for seed in range(3):
        is_valid(content(server, guided_json=open_schema, seed=seed))
        call = chat(server, tools=tools, tool_choice="required", parallel_tool_calls=False, seed=seed).json["choices"][0]["message"]["tool_calls"][0]
        is_valid(call["function"]["arguments"])


def test_a_lazy_grammar_begins_at_its_trigger(server):
    """Up to the trigger the answer is the free one."""
    free = chat(server, seed=7).json["choices"][0]["message"]["content"]
    word = max(re.findall("[a-z]{3,}", free), key=free.index)  # the last that is new
    reply = chat(server, seed=7, grammar=f'root ::= "{word}" " is " [0-9]{{3}} "!"', grammar_lazy=True, grammar_triggers=[{"type": 1, "value": word}])
    assert reply.status == 200, reply.json
    assert re.fullmatch(re.escape(free[:free.index(word)] + word) + " is [0-9]{3}!", reply.json["choices"][0]["message"]["content"]), (free, reply.json)


def test_several_choices_logprobs_and_streams(server):
    reply = chat(server, guided_json=SCHEMA, n=3, logprobs=True, temperature=1.5, enable_thinking=False).json
    for choice in reply["choices"]:
        is_valid(choice["message"]["content"])
        # a token may end inside a character, so bytes are joined
        assert bytes(byte for token in choice["logprobs"]["content"] for byte in token["bytes"]).decode() == choice["message"]["content"]
    body = chat(server, guided_json=SCHEMA, stream=True).body.decode()
    chunks = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: {")]
    is_valid("".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]))


def test_thinking_comes_first(server):
    reply = chat(server, guided_json=SCHEMA, enable_thinking=True, thinking_budget=20).json["choices"][0]["message"]
    assert reply["reasoning_content"]
    is_valid(reply["content"])


def called(reply, names=("get_weather", "get_time")):
    choice = reply.json["choices"][0]
    assert choice["finish_reason"] == "tool_calls", choice
    for call in choice["message"]["tool_calls"]:
        tool = next(tool for tool in TOOLS if tool["function"]["name"] == call["function"]["name"])
        assert call["function"]["name"] in names
        jsonschema_rs.validate(tool["function"]["parameters"], json.loads(call["function"]["arguments"]))
    return choice["message"]["tool_calls"]


def test_required_calls(server):
    for seed in range(4):
        called(chat(server, tools=TOOLS, tool_choice="required", seed=seed, temperature=1, parallel_tool_calls=False))
    named = {"type": "function", "function": {"name": "get_time"}}
    assert len(called(chat(server, tools=TOOLS, tool_choice=named), ["get_time"])) == 1
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}}
    called(chat(server, tools=TOOLS, tool_choice=allowed, parallel_tool_calls=False), ["get_time"])


@pytest.mark.parametrize("fields, words", [
    ({"guided_json": SCHEMA, "guided_regex": "a"}, "cannot be combined"),
    ({"guided_regex": "(a"}, "guided_regex"),
    ({"guided_regex": r"(a)\1"}, "guided_regex"),
    ({"grammar": "root ::= other"}, "'other' is not defined"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": {
        "type": "object", "properties": {"a": {}}}}}}, "response_format"),
    ({"response_format": {"type": "yaml"}}, "yaml"),
    ({"structured_outputs": {"json": SCHEMA, "whitespace_pattern": " "}}, "whitespace_pattern"),
    ({"guided_json": {"type": "object", "properties": {"a": {"$ref": "http://elsewhere"}}}}, "/properties/a"),
    ({"tools": [{"type": "function", "function": {"name": "f", "strict": True, "parameters": {
        "type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}}}]}, "tools"),
    ({"grammar": GBNF, "grammar_lazy": True}, "grammar_triggers"),
])
def test_what_cannot_be_enforced_is_refused(server, fields, words):
    reply = chat(server, **fields)
    assert reply.status == 400 and words in reply.json["error"]["message"], reply.json


@pytest.mark.parametrize("syntax, definition, pattern", [
    ("regex", '"[a-c\\\\]{2,5}"\\n', '"[a-c\\\\]{2,5}"\n'),
    ("lark", 'start: N ("+" N)~1..2 LF\nN: /[0-9]{1,3}/ | "\\""\n%import common.LF', '([0-9]{1,3}|")(\\+([0-9]{1,3}|")){1,2}\n')])
def test_freeform_input_of_a_custom_tool(server, syntax, definition, pattern):
    tool = {"type": "custom", "name": "note", "format": {"type": "grammar", "syntax": syntax, "definition": definition}}
    for seed in range(4):
        reply = server.request("POST", "/v1/responses", {"input": "Go.", "tools": [tool], "tool_choice": "required", "seed": seed,
                                                         "temperature": 2, "max_output_tokens": 200, "parallel_tool_calls": False})
        assert reply.status == 200, reply.json
        [item] = reply.json["output"]
        assert item["type"] == "custom_tool_call" and re.fullmatch(pattern, item["input"]), item
