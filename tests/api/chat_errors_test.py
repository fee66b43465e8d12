"""Every refusal: status, format, param and code; and refused requests leave no resources allocated."""

import json
import re

import openai
import pytest

from shoal_server import MODEL_ID

HELLO = [{"role": "user", "content": "Hello"}]
CHAT = "/v1/chat/completions"

INVALID = [
    # body, param
    ({}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": "Hello"}, "messages"),
    ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": HELLO, "temperature": "hot"}, "temperature"),
    ({"messages": HELLO, "temperature": 2.1}, "temperature"),
    ({"messages": HELLO, "temperature": -0.1}, "temperature"),
    ({"messages": HELLO, "top_p": 1.5}, "top_p"),
    ({"messages": HELLO, "min_p": -1}, "min_p"),
    ({"messages": HELLO, "top_k": 1.5}, "top_k"),
    ({"messages": HELLO, "presence_penalty": 3}, "presence_penalty"),
    ({"messages": HELLO, "frequency_penalty": -3}, "frequency_penalty"),
    ({"messages": HELLO, "repetition_penalty": 11}, "repetition_penalty"),
    ({"messages": HELLO, "max_tokens": 0}, "max_tokens"),
    ({"messages": HELLO, "max_tokens": "many"}, "max_tokens"),
    ({"messages": HELLO, "max_completion_tokens": -5}, "max_completion_tokens"),
    ({"messages": HELLO, "seed": "x"}, "seed"),
    ({"messages": HELLO, "stop": 5}, "stop"),
    ({"messages": HELLO, "stop": [""]}, "stop"),
    ({"messages": HELLO, "stop": ["x"] * 65}, "stop"),
    ({"messages": HELLO, "logit_bias": {"5": 101}}, "logit_bias"),
    ({"messages": HELLO, "logit_bias": {"": 1}}, "logit_bias"),
    ({"messages": HELLO, "logit_bias": {"99999999": 1}}, "logit_bias"),
    ({"messages": HELLO, "logit_bias": [7]}, "logit_bias"),
    ({"messages": HELLO, "stream": "yes"}, "stream"),
    ({"messages": HELLO, "stream_options": {"include_usage": True}}, "stream_options"),
    ({"messages": HELLO, "n": 200}, "n"),
    ({"messages": HELLO, "top_logprobs": 2}, "top_logprobs"),
    ({"messages": HELLO, "tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
    ({"messages": HELLO, "tool_choice": "required"}, "tool_choice"),
    ({"messages": HELLO, "functions": []}, "functions"),
    ({"messages": HELLO, "grammar": "root ::= a"}, "grammar"),
]


@pytest.mark.parametrize("body,param", INVALID)
def test_a_wrong_field_is_named(server, body, param):
    reply = server.request("POST", CHAT, body)
    assert reply.status == 400
    assert reply.headers["content-type"] == "application/json"
    assert reply.error["type"] == "invalid_request_error"
    assert reply.error["param"] == param


@pytest.mark.parametrize("body", ["", "{", "nonsense", "[]", "5", '{"messages":[],}', '{"a":1} x', "\x00", '"\\ud800"'])
def test_a_body_that_is_no_json_object_is_refused(server, body):
    reply = server.request("POST", CHAT, body.encode())
    assert reply.status == 400
    assert reply.error["type"] == "invalid_request_error"


def test_deep_nesting_is_refused_not_fatal(server):
    for body in ("[" * 100000, '{"messages":' + "[" * 100000, '{"a":' * 50000):
        assert server.request("POST", CHAT, body).status == 400
    assert server.get("/ready").status == 200


def test_an_unknown_model_does_not_exist(server):
    reply = server.request("POST", CHAT, {"model": "gpt-unknown", "messages": HELLO})
    assert reply.status == 404
    assert reply.error["code"] == "model_not_found"
    assert reply.error["param"] == "model"
    assert "gpt-unknown" in reply.error["message"]


def test_a_prompt_over_the_context_says_so(server):
    reply = server.chat("word " * 20000)
    assert reply.status == 400
    assert reply.error["code"] == "context_length_exceeded"
    assert reply.error["type"] == "invalid_request_error"
    reply = server.chat("word " * 20000, stream=True)  # also before a stream's headers
    assert reply.status == 400
    assert reply.error["code"] == "context_length_exceeded"


LONG = "word " * 20000


def overflow_numbers(message):
    found = re.fullmatch(r"This model's maximum context length is (\d+) tokens\. However, your prompt has (\d+) tokens, and the "
                         r"completion needs at least one\. Please reduce the length of the messages \(context_length_exceeded\)\.", message)
    return int(found[2]), int(found[1])


def test_a_prompt_over_the_context_is_named_as_in_each_api(server):
    """Agents search these words to shorten the conversation; both numbers are the server's own."""
    chat = {"messages": [{"role": "user", "content": LONG}]}
    counted = server.request("POST", "/v1/messages/count_tokens", chat).json["input_tokens"]
    refused = server.request("POST", CHAT, chat)
    tokens, context = overflow_numbers(refused.error["message"])
    assert (tokens, refused.error["param"]) == (counted, "messages")
    refused = server.request("POST", "/v1/completions", {"prompt": LONG})
    assert overflow_numbers(refused.error["message"])[1] == context
    assert (refused.status, refused.error["param"]) == (400, "prompt")
    refused = server.request("POST", "/v1/completions", {"prompt": [[5], [5] * (context + 3)]})
    assert overflow_numbers(refused.error["message"]) == (context + 3, context)
    assert refused.error["param"] == "prompt[1]"
    refused = server.request("POST", "/v1/responses", {"input": LONG})
    assert overflow_numbers(refused.error["message"]) == (tokens, context)
    assert (refused.status, refused.error["param"]) == (400, "input")
    for stream in (False, True):
        refused = server.request("POST", "/v1/messages", {**chat, "max_tokens": 5, "stream": stream})
        assert (refused.status, refused.json["error"]["type"]) == (400, "invalid_request_error")
        assert refused.json["error"]["message"] == f"prompt is too long: {tokens} tokens > {context - 1} maximum"
        assert refused.json["error"]["details"] == {"error_code": "context_length_exceeded"}


def test_a_stream_of_responses_tells_a_long_prompt_as_events(server):
    """Codex shortens the conversation upon this event, and ends the turn upon an error status."""
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    reply = server.request("POST", "/v1/responses", {"input": LONG, "stream": True})
    assert reply.status == 200
    events = [json.loads(line[6:]) for line in reply.body.decode().splitlines() if line.startswith("data: ")]
    assert [event["type"] for event in events] == ["response.created", "error", "response.failed"]
    assert [event["sequence_number"] for event in events] == [0, 1, 2]
    failed = openai.types.responses.Response.construct(**events[2]["response"])
    assert (failed.status, failed.error.code, failed.output) == ("failed", "context_length_exceeded", [])
    assert "maximum context length is" in failed.error.message and events[1]["param"] == "input"
    assert server.get("/v1/responses/" + failed.id).status == 404
    last = list(client.responses.create(model=MODEL_ID, input=LONG, stream=True))[-1]
    assert (last.type, last.response.error.code) == ("response.failed", "context_length_exceeded")


def test_prompt_and_answer_over_a_sequences_bound_are_told_in_numbers(start_server):
    server = start_server("--max-kv-size", "100", "--prefix-cache", "0")
    body = {"messages": HELLO, "max_tokens": 95}
    refused = server.request("POST", "/v1/messages", body)
    tokens = server.request("POST", "/v1/messages/count_tokens", {"messages": HELLO}).json["input_tokens"]
    assert refused.json["error"]["message"] == f"input length and `max_tokens` exceed context limit: {tokens} + 95 > 100, " \
        "decrease input length or `max_tokens` and try again"
    refused = server.request("POST", CHAT, body)
    assert f"you requested {tokens + 95} tokens ({tokens} in the prompt; 95 for the completion)" in refused.error["message"]
    body["messages"] = [{"role": "user", "content": "word " * 200}]
    assert server.request("POST", "/v1/messages", body).json["error"]["message"].startswith("prompt is too long: ")


def test_unknown_paths_and_methods(server):
    reply = server.get("/v1/nothing")
    assert (reply.status, reply.error["code"]) == (404, "unknown_url")
    reply = server.get(CHAT)
    assert (reply.status, reply.headers["allow"]) == (405, "POST, OPTIONS")
    assert reply.error["code"] == "method_not_allowed"
    reply = server.request("POST", "/v1/models", "{}")
    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    reply = server.request("DELETE", CHAT)
    assert reply.status == 405
    reply = server.request("OPTIONS", CHAT)
    assert (reply.status, reply.headers["allow"], reply.body) == (204, "POST, OPTIONS", b"")


def test_models_are_listed_and_found(server):
    for path in ("/v1/models", "/models"):
        listed = server.get(path).json
        assert listed["object"] == "list"
        assert [model["id"] for model in listed["data"]] == [MODEL_ID]
        assert server.get(f"{path}/{MODEL_ID}").json == listed["data"][0]
        assert server.get(f"{path}/{MODEL_ID.replace('-', '%2d')}").json == listed["data"][0]
        reply = server.get(f"{path}/other")
        assert (reply.status, reply.error["code"]) == (404, "model_not_found")
    head = server.request("HEAD", "/v1/models")
    assert (head.status, head.body) == (200, b"")
    assert int(head.headers["content-length"]) > 0


def test_a_too_large_body_is_refused(start_server):
    running = start_server("--max-body-bytes", "4K")
    reply = running.chat("x" * 5000)
    assert reply.status == 413
    assert reply.error["type"] == "invalid_request_error"
    chunks = (b"y" * 1000 for _ in range(10))  # of unknown length: sent in chunks
    assert running.request("POST", CHAT, chunks).status == 413
    assert running.chat("x", max_tokens=1).status == 200


def test_a_full_queue_is_refused_before_parsing(start_server):
    running = start_server("--max-sequences", "1", "--max-queue", "1")
    fields = {"content": "Tell me a long story.", "max_tokens": 4000, "logit_bias": {"2": -100}}
    streams = [running.open_stream(**fields)]
    streams[0].wait_token()
    streams.append(running.open_stream(**fields))
    assert streams[1].status == 200  # it waits for the first
    for body in ({"messages": HELLO}, {"never": "read"}, "not even JSON"):
        reply = running.request("POST", CHAT, body)
        assert reply.status == 429
        assert int(reply.headers["retry-after"]) >= 1
        assert reply.error["type"] == "rate_limit_error"
        assert reply.error["code"] == "queue_full"
    assert running.metrics()["shoal_requests_refused_total"] == 3
    for stream in streams:
        stream.close()
    running.wait_idle()
    assert running.chat(max_tokens=1).status == 200


def test_errors_leave_nothing_behind(server):
    server.wait_idle()
    before = server.metrics()
    for body, _ in INVALID[:5]:
        server.request("POST", CHAT, json.dumps(body))
    after = server.metrics()
    name = 'vllm:request_success_total{finished_reason="error"}'
    assert after[name] - before[name] == 5
    server.wait_idle()
