"""OpenAI's Responses API with the official clients: creation, streams, stored conversations, background answers."""

import openai
import pytest

from node_client_test import run_client
from shoal_server import MODEL_ID, wait_until

HI = {"model": MODEL_ID, "input": "What is the capital of France? Answer in one word.", "temperature": 0,
      "max_output_tokens": 24}
LONG = {"model": MODEL_ID, "input": "Count.", "max_output_tokens": 4000, "extra_body": {"ignore_eos": True}}


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0)


def test_a_response_is_created_stored_and_deleted(server, client):
    made = client.responses.create(**HI, metadata={"a": "b"}, instructions="Be brief.", user="ann")
    assert "Paris" in made.output_text
    assert (made.object, made.status, made.error, made.incomplete_details) == ("response", "completed", None, None)
    assert (made.metadata, made.instructions, made.user, made.temperature) == ({"a": "b"}, "Be brief.", "ann", 0)
    [item] = made.output
    assert (item.type, item.role, item.status) == ("message", "assistant", "completed")
    usage = made.usage
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens and usage.output_tokens > 0
    assert usage.output_tokens_details.reasoning_tokens == 0
    assert client.responses.retrieve(made.id) == made
    client.responses.delete(made.id)
    for use in (client.responses.retrieve, client.responses.delete, client.responses.cancel,
                client.responses.input_items.list):
        with pytest.raises(openai.NotFoundError, match=made.id):
            use(made.id)
    assert server.request("GET", "/responses/" + made.id).status == 404  # without /v1, too


def test_a_stream_ends_with_the_whole_response(client):
    whole = client.responses.create(**HI)
    with client.responses.stream(**HI) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    names = [event.type.removeprefix("response.") for event in events]
    deltas = names.count("output_text.delta")
    assert names == ["created", "in_progress", "output_item.added", "content_part.added"] + ["output_text.delta"] * deltas \
        + ["output_text.done", "content_part.done", "output_item.done", "completed"]
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole.output_text
    assert final.output_text == whole.output_text and final.usage.output_tokens == whole.usage.output_tokens
    assert client.responses.retrieve(final.id).output_text == whole.output_text


def test_a_limit_makes_it_incomplete(client):
    made = client.responses.create(**{**HI, "max_output_tokens": 1})
    assert (made.status, made.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert made.usage.output_tokens == 1
    last = list(client.responses.create(**{**HI, "max_output_tokens": 1}, stream=True))[-1]
    assert (last.type, last.response.status) == ("response.incomplete", "incomplete")


def test_logprobs_join_to_the_text(client):
    made = client.responses.create(**HI, include=["message.output_text.logprobs"], top_logprobs=3)
    [part] = made.output[0].content
    assert b"".join(bytes(entry.bytes) for entry in part.logprobs).decode() == part.text
    for entry in part.logprobs:
        assert len(entry.top_logprobs) == 3
        assert entry.logprob == max(top.logprob for top in entry.top_logprobs)  # greedy
    streamed = []
    for event in client.responses.create(**HI, include=["message.output_text.logprobs"], stream=True):
        if event.type == "response.output_text.delta":
            streamed += event.logprobs
    assert "".join(entry.token for entry in streamed) == part.text


def test_a_conversation_goes_on(client):
    count = client.responses.input_tokens.count
    first = client.responses.create(**{**HI, "input": "My name is Ann."}, instructions="Be brief.")
    second = client.responses.create(**{**HI, "input": "What is my name?"}, previous_response_id=first.id)
    assert second.previous_response_id == first.id
    by_hand = [{"role": "user", "content": "My name is Ann."}, *[item.to_dict() for item in first.output],
               {"role": "user", "content": "What is my name?"}]
    asked = {"model": MODEL_ID, "input": by_hand}
    assert second.usage.input_tokens == count(**asked).input_tokens
    assert client.responses.create(**{**HI, **asked}, store=False).output_text == second.output_text
    assert count(model=MODEL_ID, input="What is my name?", previous_response_id=first.id).input_tokens \
        == second.usage.input_tokens
    referred = [{"type": "item_reference", "id": item.id} for item in
                client.responses.input_items.list(second.id, order="asc")]
    assert count(model=MODEL_ID, input=referred).input_tokens == second.usage.input_tokens
    client.responses.delete(first.id)  # the second has its own copy
    third = client.responses.create(**{**HI, "input": "Thanks."}, previous_response_id=second.id)
    assert third.usage.input_tokens > second.usage.input_tokens


def test_input_items_are_listed_in_pages(client):
    first = client.responses.create(**{**HI, "input": [{"role": "user", "content": str(i)} for i in range(5)]})
    second = client.responses.create(**{**HI, "input": "last"}, previous_response_id=first.id)
    texts = ["0", "1", "2", "3", "4", first.output_text, "last"]

    def text(item):
        return item.content[0].text

    assert [text(item) for item in client.responses.input_items.list(second.id)] == texts[::-1]
    assert [text(item) for item in client.responses.input_items.list(second.id, order="asc", limit=2)] == texts
    page = client.responses.input_items.list(second.id, order="asc", limit=3)
    assert page.has_more and [text(item) for item in page.data] == texts[:3]
    assert (page.first_id, page.last_id) == (page.data[0].id, page.data[2].id)
    last = client.responses.input_items.list(second.id, order="asc", limit=4, after=page.last_id)
    assert not last.has_more and [text(item) for item in last.data] == texts[3:]
    for bad in ({"limit": 0}, {"limit": 101}, {"order": "up"}, {"after": "msg_1"}):
        with pytest.raises(openai.BadRequestError) as refusal:
            client.responses.input_items.list(second.id, **bad)
        assert refusal.value.param == next(iter(bad))


def test_a_background_answer_is_fetched_when_it_is_done(client):
    made = client.responses.create(**HI, background=True)
    assert (made.status, made.output) == ("queued", [])

    def done():
        now = client.responses.retrieve(made.id)
        assert now.status in ("queued", "in_progress", "completed")
        return now if now.status == "completed" else None

    assert wait_until(done, "the answer").output_text == client.responses.create(**HI).output_text


def test_cancel_stops_the_work(server, client):
    made = client.responses.create(**LONG, background=True)
    wait_until(lambda: client.responses.retrieve(made.id).status == "in_progress", "the first token")
    cancelled = client.responses.cancel(made.id)
    assert cancelled.status == "cancelled"
    assert all(item.status == "incomplete" for item in cancelled.output)  # empty if no text was shown yet
    server.wait_idle()
    assert client.responses.cancel(made.id) == client.responses.retrieve(made.id) == cancelled

    stream = client.responses.create(**LONG, stream=True)
    for event in stream:
        if event.type == "response.created":
            name = event.response.id
        if event.type == "response.output_text.delta":
            break
    client.responses.cancel(name)
    last = list(stream)[-1]
    assert (last.type, last.response.status) == ("response.incomplete", "cancelled")

    made = client.responses.create(**LONG, background=True)
    client.responses.delete(made.id)
    server.wait_idle()


@pytest.mark.parametrize("background, tokens, status", [(False, 4000, "cancelled"), (True, 48, "incomplete")])
def test_leaving_a_stream_cancels_it_but_not_in_the_background(server, client, background, tokens, status):
    stream = client.responses.create(**{**LONG, "max_output_tokens": tokens}, stream=True, background=background)
    for event in stream:
        if event.type == "response.created":
            name = event.response.id
        if event.type == "response.output_text.delta":
            break
    stream.close()
    server.wait_idle()
    assert client.responses.retrieve(name).status == status


def test_refusals_are_the_clients_errors(client):
    for fields, param in (({"conversation": "c"}, "conversation"), ({"tools": [{"type": "telepathy"}]}, "tools[0].type"),
                          ({"text": {"format": {"type": "yaml"}}}, "text.format"), ({"truncation": "none"}, "truncation"),
                          ({"previous_response_id": "resp_1"}, "previous_response_id"), ({"temperature": 9}, "temperature")):
        with pytest.raises(openai.BadRequestError) as refusal:
            client.responses.create(**{**HI, **fields})
        assert (refusal.value.param, refusal.value.type) == (param, "invalid_request_error")
    with pytest.raises(openai.NotFoundError) as refusal:
        client.responses.create(**{**HI, "model": "other"})
    assert refusal.value.code == "model_not_found"


def test_the_store_forgets_the_oldest(start_server):
    server = start_server("--response-store-bytes", "1M", "--drain-timeout", "1")
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0)
    asked = {**HI, "max_output_tokens": 1, "metadata": None, "user": "u" * 300_000}
    made = [client.responses.create(**asked).id for _ in range(3)]
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made[0])
    assert client.responses.retrieve(made[2]).id == made[2]
    with pytest.raises(openai.BadRequestError) as refusal:
        client.responses.create(**{**asked, "user": "u" * 2_000_000})
    assert refusal.value.param == "store"
    assert client.responses.create(**{**asked, "user": "u" * 2_000_000}, store=False).status == "incomplete"
    running = client.responses.create(**LONG, background=True)  # ended with the server
    assert running.status == "queued"


def test_a_key_sees_only_its_own_responses(start_server):
    server = start_server("--api-key", "sk-ann", "--api-key", "sk-bob")
    ann, bob = (openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0) for key in ("sk-ann", "sk-bob"))
    made = ann.responses.create(**{**LONG, "background": True})
    for use in (bob.responses.retrieve, bob.responses.delete, bob.responses.cancel):
        with pytest.raises(openai.NotFoundError):
            use(made.id)
    assert ann.responses.cancel(made.id).status == "cancelled"
    with pytest.raises(openai.BadRequestError) as refusal:
        bob.responses.create(**HI, previous_response_id=made.id)
    assert refusal.value.code == "previous_response_not_found"


def test_the_npm_client_converses(server):
    said = run_client("responses_client.mjs", server.url + "/v1")
    assert "Paris" in said["whole"] and said["streamed"] == said["whole"] == said["final"]
    assert said["numbers"] == list(range(len(said["numbers"])))
    assert said["items"] == ["user", "assistant", "user"]
    assert said["deleted"] == 404 and said["cancelled"] == "cancelled" and said["counted"] > 0
    assert said["refused"] == {"status": 400, "param": "conversation"}
    server.wait_idle()
