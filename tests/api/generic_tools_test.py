"""Tools for SmolLM2, whose chat template knows none: the generic format. The worker is scripted."""

import pytest

from scripted_server import ScriptedServer

TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ScriptedServer(tmp_path_factory.mktemp("generic")) as running:
        running.wait_ready()
        yield running


def chat(server, **fields):
    return server.request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "Go."}], "tools": TOOLS, **fields})


def test_the_prompt_describes_the_tools(server):
    prompt = server.request("POST", "/v1/apply-template", {"messages": [{"role": "user", "content": "Go."}], "tools": TOOLS}).json["prompt"]
    assert '"get_weather"' in prompt and '"city"' in prompt and "<tool_call>" in prompt
    assert "get_weather" not in server.request("POST", "/v1/apply-template", {"messages": [{"role": "user", "content": "Go."}], "tools": TOOLS,
                                                                   "tool_choice": "none"}).json["prompt"]


def test_past_calls_and_results_are_in_the_prompt(server):
    messages = [{"role": "user", "content": "Go."},
                {"role": "assistant", "content": None, "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}]},
                {"role": "tool", "tool_call_id": "1", "content": "18 degrees"}]
    prompt = server.request("POST", "/v1/apply-template", {"messages": messages, "tools": TOOLS}).json["prompt"]
    assert '{"name": "get_weather", "arguments": {"city":"Paris"}}\n</tool_call>' in prompt
    assert "<tool_response>\n18 degrees\n</tool_response>" in prompt


def test_calls_are_parsed_and_the_header_names_the_format(server):
    server.says(CALL, "Hello.")
    reply = chat(server)
    choice = reply.json["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "get_weather"
    assert reply.headers["x-shoal-tool-format"] == "generic"
    plain = server.request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "Go."}]})
    assert plain.json["choices"][0]["message"]["content"] == "Hello."
    assert "x-shoal-tool-format" not in plain.headers
