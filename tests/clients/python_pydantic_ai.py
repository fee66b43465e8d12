"""pydantic-ai: text, tools, and objects by its tool output and native output, without its retries."""

import asyncio

from pydantic_ai import Agent, ModelContextWindowExceededError, NativeOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from openai import AsyncOpenAI

from client_calls import MODEL, OVERLONG, QUESTION, TOKENS, URL, Shape, check_overflow, check_shape, run

SETTINGS = {"max_tokens": TOKENS}


async def answer(prompt, settings, fields):
    """The connections are closed in the event loop that opened them: a client that is left to the garbage collector closes sockets of other
    threads, whose calls then wait for ever."""
    async with AsyncOpenAI(base_url=URL + "/v1", api_key="unused", max_retries=0, timeout=600) as client:
        model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))
        return (await Agent(model, retries=0, **fields).run(prompt, model_settings=settings)).output


def ask(prompt=QUESTION, settings=None, **fields):
    return asyncio.run(answer(prompt, settings or SETTINGS, fields))


def chat():
    assert ask(settings={"max_tokens": 16}) is not None


def tool_output():
    check_shape(ask(output_type=ToolOutput(Shape)))


def native_output():
    check_shape(ask(output_type=NativeOutput(Shape)))


def overflow():
    check_overflow(ModelContextWindowExceededError, lambda: ask(OVERLONG))


run({"chat": (chat, 5), "structured: tool output": (tool_output, None), "structured: native output": (native_output, None),
     "overflow": (overflow, 1)})
