"""instructor: objects by tools, by JSON schema and with Anthropic's tools, without its retries."""

import anthropic
import instructor
import openai

from client_calls import MODEL, QUESTION, TOKENS, URL, Shape, check_shape, run

OPENAI = openai.OpenAI(base_url=URL + "/v1", api_key="unused", max_retries=0, timeout=600)
ANTHROPIC = anthropic.Anthropic(base_url=URL, api_key="unused", max_retries=0, timeout=600)
ASK = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], "response_model": Shape, "max_tokens": TOKENS, "max_retries": 0}


def create(client):
    return lambda: check_shape(client.chat.completions.create(**ASK))


run({"structured: Mode.TOOLS": (create(instructor.from_openai(OPENAI, mode=instructor.Mode.TOOLS)), None),
     "structured: Mode.JSON_SCHEMA": (create(instructor.from_openai(OPENAI, mode=instructor.Mode.JSON_SCHEMA)), None),
     "structured: Mode.ANTHROPIC_TOOLS": (create(instructor.from_anthropic(ANTHROPIC, mode=instructor.Mode.ANTHROPIC_TOOLS)), 20)})
