"""openai-agents: an agent's answer, its tool and its output type, over chat completions and over responses."""

import asyncio
from typing import Annotated

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from pydantic import Field

from client_calls import MODEL, QUESTION, TOKENS, URL, Shape, check_shape, run

set_tracing_disabled(True)
APIS = {"chat completions": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}


def ask(api, tokens, **fields):
    async def work():
        async with AsyncOpenAI(base_url=URL + "/v1", api_key="unused", max_retries=0, timeout=600) as client:
            settings = fields.pop("settings", {})
            agent = Agent(name="shapes", model=APIS[api](model=MODEL, openai_client=client),
                          model_settings=ModelSettings(max_tokens=tokens, **settings), **fields)
            return (await Runner.run(agent, QUESTION, max_turns=3)).final_output
    return asyncio.run(work())


def chat(api):
    """A sentence of free text: over responses the library raises on an answer that reaches max_tokens, as SmolLM2's without a stop do."""
    return lambda: ask(api, 4 * TOKENS, settings={"extra_body": {"stop": [".", "!", "?", "\n"]}})


def tools(api):
    def work():
        stored = []

        # Without bounds 1 in 20 texts of the demo model reaches max_tokens at temperature 1.
        @function_tool
        def put_shape(name: Annotated[str, Field(max_length=12)], count: Annotated[int, Field(ge=1, le=20)]) -> str:
            """Stores a shape."""
            stored.append((name, count))
            return "stored"
        # The answer ends with the tool's result. SmolLM2 may repeat its call until max_tokens, if it may make several.
        ask(api, 1500, tools=[put_shape], settings={"tool_choice": "required", "parallel_tool_calls": False},
            tool_use_behavior="stop_on_first_tool")
        assert stored
    return work


def structured(api):
    return lambda: check_shape(ask(api, TOKENS, output_type=Shape))


run({f"{kind}: {api}": (make(api), calls) for api in APIS
     for kind, make, calls in [("chat", chat, 5), ("tools", tools, 10), ("structured", structured, 20)]})
