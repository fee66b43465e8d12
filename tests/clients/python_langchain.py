"""langchain-openai and langchain-anthropic: text, streams, tools and with_structured_output."""

from langchain_anthropic import ChatAnthropic
from langchain_core.exceptions import ContextOverflowError
from langchain_openai import ChatOpenAI

from client_calls import MODEL, OVERLONG, QUESTION, TOKENS, URL, Shape, check_arguments, check_overflow, check_shape, run

OPENAI = ChatOpenAI(model=MODEL, base_url=URL + "/v1", api_key="unused", max_tokens=TOKENS, max_retries=0, timeout=600)
ANTHROPIC = ChatAnthropic(model=MODEL, base_url=URL, api_key="unused", max_tokens=TOKENS, max_retries=0, timeout=600)


def chat(model):
    return lambda: model.bind(max_tokens=16).invoke(QUESTION).content


def stream(model):
    def work():
        assert any(chunk.content for chunk in model.bind(max_tokens=16).stream(QUESTION))
    return work


def tools(model, choice):
    def work():
        calls = model.bind_tools([Shape], tool_choice=choice).invoke(QUESTION).tool_calls
        assert calls
        check_arguments(calls[0]["args"])
    return work


def structured(model, **how):
    return lambda: check_shape(model.with_structured_output(Shape, **how).invoke(QUESTION))


def overflow(model):
    return lambda: check_overflow(ContextOverflowError, lambda: model.invoke(OVERLONG))


run({"chat": (chat(OPENAI), 5), "stream": (stream(OPENAI), 5), "tools": (tools(OPENAI, "required"), 20),
     "structured: with_structured_output": (structured(OPENAI), None),
     "structured: function_calling": (structured(OPENAI, method="function_calling"), 20),
     "chat: ChatAnthropic": (chat(ANTHROPIC), 5), "stream: ChatAnthropic": (stream(ANTHROPIC), 5),
     "tools: ChatAnthropic": (tools(ANTHROPIC, "any"), 20),
     "structured: ChatAnthropic": (structured(ANTHROPIC), None),
     "structured: ChatAnthropic json_schema": (structured(ANTHROPIC, method="json_schema"), 20),
     "overflow": (overflow(OPENAI), 1), "overflow: ChatAnthropic": (overflow(ANTHROPIC), 1)})
