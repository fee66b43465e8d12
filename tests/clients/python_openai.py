"""openai: chat, streams, tools and parsed objects in both of its APIs."""

import json

import openai

from client_calls import MODEL, QUESTION, TOKENS, URL, Shape, check_arguments, check_shape, run

CLIENT = openai.OpenAI(base_url=URL + "/v1", api_key="unused", max_retries=0, timeout=600)
ASK = [{"role": "user", "content": QUESTION}]
TOOL = {"type": "function", "function": {"name": "put_shape", "description": "Stores a shape.", "parameters": Shape.model_json_schema()}}


def chat():
    assert CLIENT.chat.completions.create(model=MODEL, messages=ASK, max_tokens=16).choices[0].message.content


def stream():
    pieces = [chunk for chunk in CLIENT.chat.completions.create(model=MODEL, messages=ASK, max_tokens=16, stream=True) if chunk.choices]
    assert any(chunk.choices[0].delta.content for chunk in pieces) and pieces[-1].choices[0].finish_reason


def tools():
    """A call, its result, an answer."""
    first = CLIENT.chat.completions.create(model=MODEL, messages=ASK, tools=[TOOL], tool_choice="required", max_tokens=TOKENS,
                                           parallel_tool_calls=False).choices[0]
    assert first.finish_reason == "tool_calls"
    call = first.message.tool_calls[0]
    check_arguments(call.function.arguments)
    messages = [*ASK, first.message, {"role": "tool", "tool_call_id": call.id, "content": json.dumps({"stored": True})}]
    assert CLIENT.chat.completions.create(model=MODEL, messages=messages, tools=[TOOL], tool_choice="none", max_tokens=16).choices[0].message


def parse():
    made = CLIENT.beta.chat.completions.parse(model=MODEL, messages=ASK, response_format=Shape, max_tokens=TOKENS)
    check_shape(made.choices[0].message.parsed)


def parse_tool():
    made = CLIENT.chat.completions.parse(model=MODEL, messages=ASK, tools=[openai.pydantic_function_tool(Shape)], tool_choice="required",
                                         max_tokens=TOKENS, parallel_tool_calls=False)
    check_shape(made.choices[0].message.tool_calls[0].function.parsed_arguments)


def responses_parse():
    check_shape(CLIENT.responses.parse(model=MODEL, input=QUESTION, text_format=Shape, max_output_tokens=TOKENS).output_parsed)


run({"chat": (chat, 5), "stream": (stream, 5), "tools": (tools, 20), "structured: beta.chat.completions.parse": (parse, None),
     "structured: tool": (parse_tool, 20), "structured: responses.parse": (responses_parse, 20)})
