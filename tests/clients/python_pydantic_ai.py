"""pydantic-ai: text, tools, and objects by its tool output and native output, without its retries."""

from pydantic_ai import Agent, ModelContextWindowExceededError, NativeOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from openai import AsyncOpenAI

from client_calls import MODEL, OVERLONG, QUESTION, TOKENS, URL, Shape, check_overflow, check_shape, run

SETTINGS = {"max_tokens": TOKENS}


def ask(**fields):
    """Runs a fresh agent: connections of a client belong to the event loop of one call."""
    client = AsyncOpenAI(base_url=URL + "/v1", api_key="unused", max_retries=0, timeout=600)
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))
    return Agent(model, retries=0, **fields)


def chat():
    assert ask().run_sync(QUESTION, model_settings={"max_tokens": 16}).output is not None


def tool_output():
    check_shape(ask(output_type=ToolOutput(Shape)).run_sync(QUESTION, model_settings=SETTINGS).output)


def native_output():
    check_shape(ask(output_type=NativeOutput(Shape)).run_sync(QUESTION, model_settings=SETTINGS).output)


def overflow():
    check_overflow(ModelContextWindowExceededError, lambda: ask().run_sync(OVERLONG, model_settings=SETTINGS))


run({"chat": (chat, 5), "structured: tool output": (tool_output, None), "structured: native output": (native_output, None),
     "overflow": (overflow, 1)})
