"""Speculative decoding as clients and operators see it: the option, the field of a request, figures of usage, timings and metrics."""

import pytest

from shoal_server import ShoalServer

LOOP = "one two three four five six seven eight nine ten " * 6
FIELDS = {"temperature": 0, "max_tokens": 60, "ignore_eos": True}


def complete(server, **fields):
    reply = server.request("POST", "/v1/completions", {"prompt": LOOP, **FIELDS, **fields})
    assert reply.status == 200, reply.body
    return reply.json


@pytest.fixture(scope="module")
def drafting():
    with ShoalServer() as server:
        server.wait_ready()
        yield server


def test_drafts_are_counted_and_change_nothing(drafting):
    plain = complete(drafting, speculation=False)
    drafted = [complete(drafting) for _ in range(4)][-1]
    assert "draft_n" not in plain["timings"]
    assert drafted["choices"] == plain["choices"]
    timings = drafted["timings"]
    assert 0 < timings["draft_n_accepted"] <= timings["draft_n"]
    assert timings["draft_n_accepted"] < timings["predicted_n"]
    values = drafting.metrics()
    assert values["vllm:spec_decode_num_draft_tokens_total"] >= timings["draft_n"]
    accepted = values["vllm:spec_decode_num_accepted_tokens_total"]
    assert timings["draft_n_accepted"] <= accepted <= values["vllm:spec_decode_num_draft_tokens_total"]
    assert 0 < values["vllm:spec_decode_num_drafts_total"] <= values["vllm:spec_decode_num_draft_tokens_total"]


def test_usage_of_a_chat_has_the_drafts(drafting):
    question = {"role": "user", "content": f"Go on: {LOOP}"}
    details = []
    for _ in range(4):
        reply = drafting.request("POST", "/v1/chat/completions", {"messages": [question], **FIELDS})
        details.append(reply.json["usage"]["completion_tokens_details"])
    drafted = [one for one in details if "draft_n" in one]
    assert drafted and all(0 <= one["draft_n_accepted"] <= one["draft_n"] for one in drafted)
    assert any(one["draft_n_accepted"] > 0 for one in drafted)


def test_drafting_can_be_switched_off():
    with ShoalServer("--speculation", "off") as server:
        server.wait_ready()
        assert "draft_n" not in complete(server)["timings"]
        assert server.metrics()["vllm:spec_decode_num_draft_tokens_total"] == 0


def test_the_field_is_a_boolean(drafting):
    reply = drafting.request("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1, "speculation": "auto"})
    assert reply.status == 400
    assert "speculation" in reply.json["error"]["message"]
