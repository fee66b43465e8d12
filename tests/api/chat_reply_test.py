"""Chat answers through the official Python client and plain HTTP: streamed and not, text, usage, limits."""

import pytest
from openai import OpenAI

from shoal_server import MODEL_ID

QUESTION = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]


@pytest.fixture
def client(server):
    with OpenAI(base_url=server.url + "/v1", api_key="unused", max_retries=0) as opened:
        yield opened


def test_the_client_gets_a_sensible_answer(client):
    reply = client.chat.completions.create(model=MODEL_ID, messages=QUESTION, temperature=0, max_tokens=24)
    assert "Paris" in reply.choices[0].message.content
    assert reply.object == "chat.completion"
    assert reply.model == MODEL_ID
    assert reply.id.startswith("chatcmpl-")
    assert reply.choices[0].message.role == "assistant"
    assert reply.choices[0].finish_reason in ("stop", "length")
    usage = reply.usage
    assert usage.prompt_tokens > 10
    assert 0 < usage.completion_tokens <= 24
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_a_stream_joins_to_the_whole_answer(client):
    fields = {"model": MODEL_ID, "messages": QUESTION, "temperature": 0, "max_tokens": 24}
    whole = client.chat.completions.create(**fields).choices[0]
    chunks = list(client.chat.completions.create(**fields, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole.message.content
    assert chunks[-1].choices[0].finish_reason == whole.finish_reason


def test_chunks_come_in_order(server):
    events = list(server.open_stream("Count to ten.", temperature=0, max_tokens=12,
                                     stream_options={"include_usage": True}).events())
    first, middle, last, usage = events[0], events[1:-2], events[-2], events[-1]
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert first["choices"][0]["finish_reason"] is None
    assert middle
    for event in middle:
        assert event["choices"][0]["delta"]["content"]
        assert event["choices"][0]["finish_reason"] is None
    assert last["choices"][0]["delta"] == {}
    assert last["choices"][0]["finish_reason"] in ("length", "stop")
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] <= 12
    assert len({event["id"] for event in events}) == 1
    assert {event["object"] for event in events} == {"chat.completion.chunk"}
    assert all(event["usage"] is None for event in events[:-1])


def test_usage_comes_only_when_asked(server):
    events = list(server.open_stream(max_tokens=2).events())
    assert all(len(event["choices"]) == 1 for event in events)
    assert all("usage" not in event for event in events)


def test_the_length_limit_counts_tokens(server):
    for name in ("max_tokens", "max_completion_tokens"):
        reply = server.chat("Tell me a long story.", temperature=0, **{name: 5}).json
        assert reply["usage"]["completion_tokens"] == 5
        assert reply["choices"][0]["finish_reason"] == "length"


def test_a_stop_string_cuts_the_answer_wherever_tokens_end(server):
    whole = server.chat("Tell me a long story.", temperature=0, max_tokens=40).json["choices"][0]["message"]["content"]
    assert len(whole) > 60
    for start, length in ((20, 2), (25, 7), (31, 11), (40, 1)):
        stop = whole[start:start + length]
        expected = whole[:whole.index(stop)]
        reply = server.chat("Tell me a long story.", temperature=0, max_tokens=40, stop=stop).json["choices"][0]
        assert reply["message"]["content"] == expected
        assert reply["finish_reason"] == "stop"
        text, finish = server.open_stream("Tell me a long story.", temperature=0, max_tokens=40,
                                          stop=["never said", stop]).text()
        assert (text, finish) == (expected, "stop")
    server.wait_idle()


def test_a_seed_repeats_and_another_does_not(server):
    def ask(seed):
        fields = {"temperature": 1.5, "max_tokens": 16, "seed": seed}
        return server.chat("Invent a word.", **fields).json["choices"][0]["message"]["content"]
    assert ask(5) == ask(5)
    assert len({ask(seed) for seed in range(6, 11)}) > 1


def test_logit_bias_decides_the_token(server):
    token = 1500
    fields = {"temperature": 0, "max_tokens": 4, "logit_bias": {str(token): 100}}
    once = server.chat("Hi", **{**fields, "max_tokens": 1}).json["choices"][0]["message"]["content"]
    reply = server.chat("Hi", **fields).json["choices"][0]["message"]["content"]
    assert once and reply == once * 4


def test_every_role_and_part_is_understood(server):
    messages = [
        {"role": "developer", "content": "You are terse."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "there"}]},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Bye"},
    ]
    reply = server.request("POST", "/chat/completions", {"messages": messages, "max_tokens": 4, "temperature": 0})
    assert reply.status == 200
    assert reply.json["usage"]["prompt_tokens"] > 20


def test_special_tokens_in_a_users_text_are_plain_text(server):
    plain = server.chat("x", max_tokens=1).json["usage"]["prompt_tokens"]
    marked = server.chat("x<|im_end|>", max_tokens=1).json["usage"]["prompt_tokens"]
    assert marked > plain + 2  # text of several tokens, not one special token


def test_text_in_many_scripts_survives(server):
    reply = server.chat("Repeat: \u00e9\u4e2d\U0001f600", temperature=0, max_tokens=30)
    assert reply.status == 200
    reply.body.decode("utf-8")
    text, _ = server.open_stream("Repeat: \u00e9\u4e2d\U0001f600", temperature=0, max_tokens=30).text()
    assert text == reply.json["choices"][0]["message"]["content"]


def test_a_request_id_comes_back(server):
    assert server.get("/health", {"X-Request-Id": "abc-1"}).headers["x-request-id"] == "abc-1"
    first, second = (server.get("/health").headers["x-request-id"] for _ in range(2))
    assert first != second
