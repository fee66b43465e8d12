"""Anthropic's messages through the official Python client: whole and streamed, counts, reasons to stop, errors."""

import anthropic
import pytest

from shoal_server import MODEL_ID

QUESTION = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
GREEDY = {"temperature": 0}


@pytest.fixture
def client(server):
    with anthropic.Anthropic(base_url=server.url, api_key="unused", max_retries=0) as opened:
        yield opened


def ask(client, messages=QUESTION, **fields):
    return client.messages.create(**{"model": MODEL_ID, "messages": messages, "max_tokens": 24, "extra_body": GREEDY,
                                     **fields})


def test_the_client_gets_a_sensible_answer(client):
    message = ask(client)
    assert "Paris" in message.content[0].text
    assert (message.type, message.role, message.model) == ("message", "assistant", MODEL_ID)
    assert message.id.startswith("msg_")
    assert message.stop_reason in ("end_turn", "max_tokens") and message.stop_sequence is None
    assert message.usage.input_tokens + message.usage.cache_read_input_tokens > 10
    assert 0 < message.usage.output_tokens <= 24
    assert message._request_id.startswith("req-")


def test_a_stream_joins_to_the_whole_message(client):
    whole = ask(client)
    with client.messages.stream(model=MODEL_ID, messages=QUESTION, max_tokens=24, extra_body=GREEDY) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == whole.content[0].text == final.content[0].text
    assert final.stop_reason == whole.stop_reason
    assert final.usage.output_tokens == whole.usage.output_tokens
    assert (final.usage.input_tokens + final.usage.cache_read_input_tokens
            == whole.usage.input_tokens + whole.usage.cache_read_input_tokens)


def test_events_come_in_order(client):
    events = list(ask(client, stream=True, max_tokens=5))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert set(kinds[2:-3]) == {"content_block_delta"}
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    start = events[0].message
    assert start.usage.input_tokens > 10 and start.content == [] and start.stop_reason is None
    assert events[-2].delta.stop_reason == "max_tokens" and events[-2].usage.output_tokens == 5


def test_counted_tokens_are_those_of_the_call(client):
    for fields in ({}, {"system": "You are kind."},
                   {"system": [{"type": "text", "text": "x-anthropic-billing-header: a=1;"},
                               {"type": "text", "text": "You are kind.", "cache_control": {"type": "ephemeral"}}]},
                   {"messages": [*QUESTION, {"role": "assistant", "content": [{"type": "text", "text": "Paris."}]},
                                 {"role": "user", "content": [{"type": "text", "text": "And of Spain?"}]}]}):
        counted = client.messages.count_tokens(**{"model": MODEL_ID, "messages": QUESTION, **fields}).input_tokens
        usage = ask(client, max_tokens=1, **fields).usage
        assert counted == usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens


def test_a_billing_line_is_not_counted(client):
    def count(system):
        return client.messages.count_tokens(model=MODEL_ID, messages=QUESTION, system=system).input_tokens
    assert count("x-anthropic-billing-header: a=1;\nYou are kind.") == count("You are kind.")
    assert count("You are kind, x-anthropic-billing-header: a=1;") > count("You are kind.")


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_sequence_stops_and_is_named(client, stream):
    story = [{"role": "user", "content": "Tell me a long story."}]
    whole = ask(client, story, max_tokens=40).content[0].text
    stop = whole[25:32]
    fields = {"max_tokens": 40, "stop_sequences": ["never in it", stop]}
    if stream:
        with client.messages.stream(model=MODEL_ID, messages=story, extra_body=GREEDY, **fields) as opened:
            message = opened.get_final_message()
    else:
        message = ask(client, story, **fields)
    assert message.content[0].text == whole[:whole.index(stop)]
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", stop)
    assert message.usage.output_tokens < 40


def test_paths_without_v1_and_invalid_escapes(server):
    body = ('{"model": "%s", "max_tokens": 1, "messages": [{"role": "user", "content": "C:\\Users \\d"}]}' % MODEL_ID)
    right = body.replace("\\", "\\\\")
    counts = [server.request("POST", path, text).json["input_tokens"]
              for path in ("/messages/count_tokens", "/v1/messages/count_tokens") for text in (body, right)]
    assert len(set(counts)) == 1
    assert server.request("POST", "/messages", body).status == 200
    assert server.request("POST", "/messages", body[:-1]).status == 400


ERRORS = [
    ({"max_tokens": 0}, anthropic.BadRequestError, "invalid_request_error", "max_tokens"),
    ({"model": "other"}, anthropic.NotFoundError, "not_found_error", "model"),
    ({"messages": []}, anthropic.BadRequestError, "invalid_request_error", "messages"),
    ({"messages": [{"role": "user", "content": [{"type": "image", "source": {
        "type": "base64", "media_type": "image/png", "data": "aaaa"}}]}]},
     anthropic.BadRequestError, "invalid_request_error", "messages[0].content[0]"),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
     anthropic.BadRequestError, "invalid_request_error", "tools[0].type"),
    ({"thinking": {"type": "enabled", "budget_tokens": 1024}},
     anthropic.BadRequestError, "invalid_request_error", "budget_tokens"),
]


@pytest.mark.parametrize("fields,kind,name,place", ERRORS)
def test_errors_become_the_exceptions_of_the_client(client, fields, kind, name, place):
    for stream in (False, True):
        with pytest.raises(kind) as caught:
            ask(client, stream=stream, **fields)
        body = caught.value.body
        assert body["type"] == "error" and body["error"]["type"] == name
        assert place in body["error"]["message"]
        assert body["request_id"] == caught.value.request_id == caught.value.response.headers["request-id"]


def test_a_prompt_beyond_the_context_is_a_bad_request_and_can_be_counted(client):
    messages = [{"role": "user", "content": "word " * 20000}]
    with pytest.raises(anthropic.BadRequestError) as caught:
        ask(client, messages)
    assert caught.value.body["error"]["message"].startswith("prompt is too long: ")
    assert client.messages.count_tokens(model=MODEL_ID, messages=messages).input_tokens > 20000


def test_keys_and_unknown_paths_have_errors_of_this_api(start_server):
    running = start_server("--api-key", "sk-one", "--max-body-bytes", "4K")
    with anthropic.Anthropic(base_url=running.url, api_key="sk-two", max_retries=0) as client:
        with pytest.raises(anthropic.AuthenticationError) as caught:
            ask(client)
        assert caught.value.type == "authentication_error" and caught.value.error_code == "invalid_api_key"
    with anthropic.Anthropic(base_url=running.url, api_key="sk-one", max_retries=0) as client:
        assert ask(client, max_tokens=1).stop_reason == "max_tokens"
        with pytest.raises(anthropic.APIStatusError) as caught:
            ask(client, [{"role": "user", "content": "x" * 5000}])
        assert caught.value.status_code == 413 and caught.value.type == "request_too_large"
        with pytest.raises(anthropic.NotFoundError) as caught:
            client.messages.batches.list()
        assert caught.value.type == "not_found_error"


def test_models_are_listed_for_this_client_too(client):
    listed = client.models.list()
    assert [model.id for model in listed] == [MODEL_ID] and not listed.has_more
    model = client.models.retrieve(MODEL_ID)
    assert (model.type, model.display_name, model.lifecycle) == ("model", MODEL_ID, "active")
    assert model.created_at.year > 2000 and model.max_input_tokens > 0
    with pytest.raises(anthropic.NotFoundError):
        client.models.retrieve("other")
