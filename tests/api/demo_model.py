"""The demo model (tests/model/demo) and the answers of transformers to its held-out questions (tests/golden/demo/answers.json, written by
scripts/demo_model/judge). Turns questions into chat bodies and splits answers into reasoning, content and calls.

    for question in questions():
        reply = server.request("POST", "/v1/chat/completions", chat_body(question))
"""

import json
import re

import pytest

from shoal_server import ROOT, ShoalServer
from vision_folder import data_uri, image_part

FOLDER = ROOT / "tests/model/demo"
MODEL_ID = FOLDER.name
GOLDEN = ROOT / "tests/golden/demo"
TOKENS_MOST = 160  # of an answer, when it was recorded


def demo_server(*options):
    return ShoalServer(*options, model=FOLDER)


@pytest.fixture(scope="module")
def server():
    """Replaces the fixture of conftest.py in a test file that imports it."""
    with demo_server() as running:
        running.wait_ready()
        yield running
        running.wait_idle()


def questions():
    return json.loads((GOLDEN / "answers.json").read_text(encoding="utf-8"))["questions"]


def golden_image(name):
    return (GOLDEN / name).read_bytes()


def chat_messages(question):
    """The question's messages in OpenAI's form: images as data URIs, arguments of calls as text, a generated id for each call."""
    names, calls, messages = iter(question["pictures"]), 0, []
    for message in question["messages"]:
        message = dict(message)
        if isinstance(message["content"], list):
            message["content"] = [image_part(data_uri(golden_image(next(names)))) if part["type"] == "image" else part
                                  for part in message["content"]]
        if "tool_calls" in message:
            calls += 1
            (call,) = message["tool_calls"]
            message["tool_calls"] = [{"id": f"call_{calls}", "type": "function", "function": {
                "name": call["function"]["name"], "arguments": json.dumps(call["function"]["arguments"])}}]
        if message["role"] == "tool":
            message["tool_call_id"] = f"call_{calls}"
        messages.append(message)
    assert next(names, None) is None
    return messages


def chat_body(question, **fields):
    tools = {"tools": question["tools"]} if question["tools"] else {}
    return {"messages": chat_messages(question), "enable_thinking": question["thinking"], "temperature": 0,
            "max_tokens": TOKENS_MOST, **tools, **fields}


def parts_of(text, thinking):
    """(reasoning, content, calls as (name, arguments)) of an answer as the model wrote it."""
    thought, said = text.split("</think>", 1) if thinking else ("", text)
    written = re.findall(r"<tool_call>\n(.*)\n</tool_call>", said)
    calls = [(call["name"], call["arguments"]) for call in map(json.loads, written)]
    return thought.strip(), "" if calls else said.strip(), calls
