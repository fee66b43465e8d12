"""smolagents: its OpenAI model: chat, streams, tools and a JSON schema."""

from smolagents import OpenAIServerModel, Tool

from client_calls import MODEL, QUESTION, TOKENS, URL, Shape, check_arguments, run

SERVER = OpenAIServerModel(model_id=MODEL, api_base=URL + "/v1", api_key="unused", client_kwargs={"max_retries": 0, "timeout": 600})
ASK = [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]


class PutShape(Tool):
    name = "put_shape"
    description = "Stores a shape."
    inputs = {"kind": {"type": "string", "description": "circle or square", "enum": ["circle", "square"]},
              "count": {"type": "integer", "description": "how many"}}
    output_type = "string"

    def forward(self, kind: str, count: int) -> str:
        return "stored"


def chat():
    assert SERVER.generate(ASK, max_tokens=16).content


def stream():
    assert any(delta.content for delta in SERVER.generate_stream(ASK, max_tokens=16))


def tools():
    calls = SERVER.generate(ASK, tools_to_call_from=[PutShape()], max_tokens=TOKENS).tool_calls
    assert calls and calls[0].function.name == "put_shape", calls


def structured():
    schema = {"type": "json_schema", "json_schema": {"name": "shape", "schema": Shape.model_json_schema()}}
    check_arguments(SERVER.generate(ASK, response_format=schema, max_tokens=TOKENS).content)


run({"chat": (chat, 5), "stream": (stream, 5), "tools": (tools, 20), "structured: response_format": (structured, 20)})
