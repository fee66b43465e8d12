"""litellm: chat, streams, tools and JSON schemas, as an OpenAI server and as Anthropic's."""

import litellm

from client_calls import MODEL, OVERLONG, QUESTION, TOKENS, URL, Shape, check_arguments, check_overflow, run

litellm.suppress_debug_info = True
ASK = {"messages": [{"role": "user", "content": QUESTION}], "num_retries": 0, "timeout": 600, "api_key": "unused"}
OPENAI = {**ASK, "model": f"openai/{MODEL}", "api_base": URL + "/v1"}
ANTHROPIC = {**ASK, "model": f"anthropic/{MODEL}", "api_base": URL}
TOOL = {"type": "function", "function": {"name": "put_shape", "description": "Stores a shape.", "parameters": Shape.model_json_schema()}}


def chat(fields):
    return lambda: litellm.completion(**fields, max_tokens=16).choices[0].message.content


def stream(fields):
    def work():
        assert any(chunk.choices[0].delta.content for chunk in litellm.completion(**fields, max_tokens=16, stream=True))
    return work


def tools(fields):
    def work():
        made = litellm.completion(**fields, max_tokens=TOKENS, tools=[TOOL], tool_choice="required").choices[0].message
        check_arguments(made.tool_calls[0].function.arguments)
    return work


def structured(fields):
    return lambda: check_arguments(litellm.completion(**fields, max_tokens=TOKENS, response_format=Shape).choices[0].message.content)


def overflow(fields):
    asked = {**fields, "messages": [{"role": "user", "content": OVERLONG}]}
    return lambda: check_overflow(litellm.ContextWindowExceededError, lambda: litellm.completion(**asked, max_tokens=16))


run({"chat": (chat(OPENAI), 5), "stream": (stream(OPENAI), 5), "tools": (tools(OPENAI), 20), "structured: response_format": (structured(OPENAI), 20),
     "chat: anthropic": (chat(ANTHROPIC), 5), "stream: anthropic": (stream(ANTHROPIC), 5), "tools: anthropic": (tools(ANTHROPIC), 20),
     "structured: anthropic": (structured(ANTHROPIC), 20), "overflow": (overflow(OPENAI), 1), "overflow: anthropic": (overflow(ANTHROPIC), 1)})
