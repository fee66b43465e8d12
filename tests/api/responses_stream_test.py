"""GET /v1/responses/{id}?stream=true: the events of a stored response again, from any of them, while it is made and afterwards."""

import http.client
import json

import openai
import pytest

from demo_model import FOLDER as SERVER_MODEL, MODEL_ID
from shoal_server import wait_until

HI = {"model": MODEL_ID, "input": "Name three rivers.", "temperature": 0, "max_output_tokens": 24}
LONG = {"model": MODEL_ID, "input": "Count.", "max_output_tokens": 4000, "extra_body": {"ignore_eos": True}}


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0)


def events_of(body):
    """Objects of the data lines."""
    return [json.loads(line[len("data: "):]) for line in body.decode().splitlines() if line.startswith("data: ")]


def stream_again(server, name, after=None, headers=None):
    path = f"/v1/responses/{name}?stream=true" + ("" if after is None else f"&starting_after={after}")
    reply = server.get(path, headers)
    assert reply.status == 200 and reply.headers["content-type"].startswith("text/event-stream"), reply.body
    return reply


@pytest.mark.parametrize("extra", [
    {}, {"include": ["message.output_text.logprobs"], "top_logprobs": 2}, {"background": True}, {"max_output_tokens": 1}])
def test_the_events_of_a_finished_stream_are_repeated(server, extra):
    first = events_of(server.request("POST", "/v1/responses", {**HI, **extra, "stream": True}).body)
    name = first[0]["response"]["id"]
    again = events_of(stream_again(server, name).body)
    assert again == first
    for after in (0, 3, len(first) - 2, len(first) - 1, len(first) + 5):
        assert events_of(stream_again(server, name, after).body) == first[after + 1:]


def test_event_ids_are_numbers_that_last_event_id_takes(server):
    first = events_of(server.request("POST", "/v1/responses", {**HI, "stream": True}).body)
    name = first[0]["response"]["id"]
    body = stream_again(server, name, headers={"Last-Event-ID": "4"}).body
    assert events_of(body) == first[5:]
    numbers = [int(line[4:]) for line in body.decode().splitlines() if line.startswith("id: ")]
    assert numbers == [event["sequence_number"] for event in first[5:]]
    assert events_of(stream_again(server, name, 6, {"Last-Event-ID": "4"}).body) == first[7:]


def test_a_response_that_was_not_streamed_is_streamed_afterwards(server, client):
    made = client.responses.create(**HI)
    events = list(client.responses.retrieve(made.id, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == made.output_text
    assert events[-1].type == "response." + made.status and events[-1].response == made


def test_a_stream_follows_an_answer_in_progress(server, client):
    made = client.responses.create(**{**LONG, "max_output_tokens": 1500}, background=True)
    events = []
    for event in client.responses.retrieve(made.id, stream=True):
        events.append(event)
        if len(events) == 20:
            assert client.responses.retrieve(made.id).status == "in_progress"
            break
    rest = list(client.responses.retrieve(made.id, stream=True, starting_after=events[-1].sequence_number))
    events += rest
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == client.responses.retrieve(made.id).output_text
    assert events[-1].type == "response.incomplete"


def test_leaving_does_not_end_the_answer_and_cancelling_ends_the_stream(server, client):
    made = client.responses.create(**LONG, background=True)
    left = client.responses.retrieve(made.id, stream=True)
    next(iter(left))
    left.close()
    watching = iter(client.responses.retrieve(made.id, stream=True))
    wait_until(lambda: next(watching).type == "response.output_text.delta", "text")
    client.responses.cancel(made.id)
    last = list(watching)[-1]
    assert (last.type, last.response.status) == ("response.incomplete", "cancelled")
    server.wait_idle()


@pytest.mark.long
def test_a_long_stream_is_sent_at_the_pace_of_its_reader(start_server):
    server = start_server("--stream-buffer-bytes", "16K")
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0)
    made = client.responses.create(**{**LONG, "max_output_tokens": 200}, include=["message.output_text.logprobs"],
                                   top_logprobs=20)
    before = server.metrics()["shoal_slow_readers_cut_total"]
    events = events_of(stream_again(server, made.id).body)
    assert len(stream_again(server, made.id).body) > 20 * 16384
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert server.metrics()["shoal_slow_readers_cut_total"] == before


@pytest.mark.parametrize("query, name", [
    ("stream=yes", "stream"), ("starting_after=1", "starting_after"), ("stream=true&starting_after=-1", "starting_after"),
    ("stream=true&starting_after=1x", "starting_after"), ("stream=true&starting_after=", "starting_after"),
    ("stream=true&starting_after=9999999999999999999999", "starting_after")])
def test_bad_queries_are_refused(server, client, query, name):
    made = client.responses.create(**{**HI, "max_output_tokens": 1})
    reply = server.get(f"/v1/responses/{made.id}?{query}")
    assert (reply.status, reply.error["param"]) == (400, name)
    assert server.get(f"/v1/responses/{made.id}?stream=true", {"Last-Event-ID": "x"}).status == 400
    assert server.get("/v1/responses/resp_0?stream=true").status == 404


def test_head_of_a_stream_has_no_body(server, client):
    made = client.responses.create(**{**HI, "max_output_tokens": 1})
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    for _ in range(2):
        connection.request("HEAD", f"/v1/responses/{made.id}?stream=true")
        reply = connection.getresponse()
        assert (reply.status, reply.read()) == (200, b"")
    connection.close()
