"""anthropic: messages, streams, tools and parsed objects."""

import anthropic

from client_calls import MODEL, QUESTION, TOKENS, URL, Shape, check_arguments, check_shape, run

CLIENT = anthropic.Anthropic(base_url=URL, api_key="unused", max_retries=0, timeout=600)
ASK = [{"role": "user", "content": QUESTION}]
TOOL = {"name": "put_shape", "description": "Stores a shape.", "input_schema": Shape.model_json_schema()}
OFF = {"type": "disabled"}


def chat():
    assert CLIENT.messages.create(model=MODEL, messages=ASK, max_tokens=16, thinking=OFF).content[0].text


def stream():
    with CLIENT.messages.stream(model=MODEL, messages=ASK, max_tokens=16, thinking=OFF) as opened:
        assert any(opened.text_stream) and opened.get_final_message().stop_reason


def tools():
    first = CLIENT.messages.create(model=MODEL, messages=ASK, tools=[TOOL], max_tokens=TOKENS, thinking=OFF,
                                   tool_choice={"type": "any", "disable_parallel_tool_use": True})
    use = next(block for block in first.content if block.type == "tool_use")
    assert first.stop_reason == "tool_use"
    check_arguments(use.input)
    messages = [*ASK, {"role": "assistant", "content": first.content},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "stored"}]}]
    assert CLIENT.messages.create(model=MODEL, messages=messages, tools=[TOOL], max_tokens=16, thinking=OFF).stop_reason


def parse():
    check_shape(CLIENT.messages.parse(model=MODEL, messages=ASK, output_format=Shape, max_tokens=TOKENS, thinking=OFF).parsed_output)


run({"chat": (chat, 5), "stream": (stream, 5), "tools": (tools, 20), "structured: messages.parse": (parse, None)})
