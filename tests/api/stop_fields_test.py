"""What ends an answer and what a reply says about it: stop_token_ids, include_stop_str_in_output, stop_reason, token ids, fingerprint,
biases by text, empty answers. A real model at temperature 0; the ids are checked with /detokenize."""

import json

import pytest

import demo_model
from shoal_server import ShoalServer

SERVER_MODEL = demo_model.FOLDER

PROMPT = "One, two, three, four, five, six,"


@pytest.fixture(scope="module")
def server():
    with ShoalServer() as running:
        running.wait_ready()
        yield running


def complete(server, **fields):
    reply = server.request("POST", "/v1/completions", {"prompt": PROMPT, "temperature": 0, "max_tokens": 12, "return_token_ids": True, **fields})
    assert reply.status == 200, reply.json
    return reply.json


def chat(server, **fields):
    reply = server.request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "Count to nine."}], "temperature": 0,
                                                            "max_tokens": 40, "return_token_ids": True, **fields})
    assert reply.status == 200, reply.json
    return reply.json


def streamed(server, path, body):
    reply = server.request("POST", path, dict(body, stream=True))
    assert reply.status == 200, reply.body
    lines = [line[6:] for line in reply.body.decode().splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


def text_of(server, ids):
    return server.request("POST", "/v1/detokenize", {"tokens": ids}).json["prompt"]


def ids_of(server, text):
    return server.request("POST", "/v1/tokenize", {"prompt": text, "add_special_tokens": False}).json["tokens"]


def test_token_ids_of_prompt_and_answer(server):
    [choice] = complete(server)["choices"]
    assert text_of(server, choice["token_ids"]) == choice["text"] and len(choice["token_ids"]) == 12
    assert text_of(server, choice["prompt_token_ids"]) == PROMPT
    whole = chat(server)
    assert "prompt_token_ids" in whole and "Count to nine." in text_of(server, whole["prompt_token_ids"])
    ids = whole["choices"][0]["token_ids"]
    assert len(ids) == whole["usage"]["completion_tokens"]
    chunks = streamed(server, "/v1/chat/completions", {"messages": [{"role": "user", "content": "Count to nine."}], "temperature": 0,
                                                       "max_tokens": 40, "return_token_ids": True})
    assert chunks[0]["prompt_token_ids"] == whole["prompt_token_ids"] and "prompt_token_ids" not in chunks[1]
    assert [i for chunk in chunks for i in chunk["choices"][0]["token_ids"]] == ids
    chunks = streamed(server, "/v1/completions", {"prompt": PROMPT, "temperature": 0, "max_tokens": 12, "return_token_ids": True})
    assert [i for chunk in chunks for i in chunk["choices"][0]["token_ids"]] == choice["token_ids"]
    assert chunks[0]["choices"][0]["prompt_token_ids"] == choice["prompt_token_ids"]


@pytest.mark.parametrize("ignore_eos", [False, True])
def test_an_answer_ends_at_a_token_of_the_request(server, ignore_eos):
    ids = complete(server)["choices"][0]["token_ids"]
    stop = ids[4]
    before = ids[:ids.index(stop)]
    for include in (False, True):
        body = complete(server, stop_token_ids=[stop], include_stop_str_in_output=include, ignore_eos=ignore_eos)
        [choice] = body["choices"]
        assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", stop)
        assert choice["token_ids"] == before + [stop]
        assert choice["text"] == text_of(server, before + [stop] * include)
    ids = chat(server)["choices"][0]["token_ids"]
    choice = chat(server, stop_token_ids=[ids[3]])["choices"][0]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", ids[3])
    assert choice["message"]["content"] == text_of(server, ids[:ids.index(ids[3])])
    late = complete(server, stop_token_ids=[stop], min_tokens=8)["choices"][0]["token_ids"]
    assert len(late) >= 8 and stop not in late[:7]


def test_stop_strings_in_the_text_and_as_reason(server):
    plain = complete(server)["choices"][0]["text"]
    word = plain[5:9]
    cut = plain.index(word)
    for include in (False, True):
        choice = complete(server, stop=["never seen", word], include_stop_str_in_output=include)["choices"][0]
        assert choice["stop_reason"] == word and choice["text"] == plain[:cut + len(word) * include]
        again = chat(server)["choices"][0]["message"]["content"]
        choice = chat(server, stop=again[6:10], include_stop_str_in_output=include)["choices"][0]
        assert choice["stop_reason"] == again[6:10]
        assert choice["message"]["content"] == again[:again.index(again[6:10]) + 4 * include]
    assert complete(server)["choices"][0]["stop_reason"] is None
    stops = [f"no such text {i}" for i in range(63)] + [word]
    assert complete(server, stop=stops)["choices"][0]["text"] == plain[:cut]
    assert server.request("POST", "/v1/completions", {"prompt": "a", "stop": stops + ["x"]}).status == 400


def test_biases_by_text_pairs_and_false(server):
    first = complete(server, max_tokens=1)["choices"][0]["token_ids"][0]
    word = text_of(server, [first])
    other = ids_of(server, " zebra")
    for biases in ({str(first): False}, {word: -100}, [[first, False]], [[word, False]]):
        assert complete(server, max_tokens=1, logit_bias=biases)["choices"][0]["token_ids"] != [first], biases
    assert complete(server, max_tokens=1, suppress_tokens=[first])["choices"][0]["token_ids"] != [first]
    drawn = complete(server, max_tokens=1, logit_bias={" zebra": 100})["choices"][0]["token_ids"][0]
    assert drawn in other
    # biases of one token add up
    assert complete(server, max_tokens=1, logit_bias=[[other[0], 60], [other[0], 40]])["choices"][0]["token_ids"] == [other[0]]
    for biases, word in (({"": 1}, "''"), ({"99999999": 1}, "token id"), ([[1, 2, 3]], "pairs"), ({"a": "b"}, "number"), (7, "object")):
        reply = server.request("POST", "/v1/completions", {"prompt": "a", "logit_bias": biases})
        assert reply.status == 400 and word in reply.json["error"]["message"], (biases, reply.json)


def test_no_tokens_at_all(server):
    body = complete(server, max_tokens=0, echo=True)
    [choice] = body["choices"]
    assert (choice["text"], choice["finish_reason"], choice["token_ids"]) == (PROMPT, "length", [])
    assert body["usage"]["completion_tokens"] == 0 and body["usage"]["prompt_tokens"] > 5


def test_the_fingerprint_is_of_build_and_model(server):
    mark = complete(server)["system_fingerprint"]
    assert mark == chat(server)["system_fingerprint"] and mark.startswith("b") and len(mark) == 17
    chunks = streamed(server, "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2})
    assert {chunk["system_fingerprint"] for chunk in chunks} == {mark}


def test_names_of_the_repetition_penalty(server):
    own = complete(server, repetition_penalty=1.5, repetition_context_size=64)["choices"][0]["token_ids"]
    assert complete(server, repeat_penalty=1.5)["choices"][0]["token_ids"] == own != complete(server)["choices"][0]["token_ids"]
    assert complete(server, repeat_penalty=1.5, repeat_last_n=0)["choices"][0]["token_ids"] == complete(server)["choices"][0]["token_ids"]
    every = complete(server, repetition_penalty=1.5)["choices"][0]["token_ids"]
    assert complete(server, repeat_penalty=1.5, repeat_last_n=-1)["choices"][0]["token_ids"] == every


@pytest.mark.parametrize("fields, word", [({"stop_token_ids": [1 << 30]}, "below"), ({"stop_token_ids": 7}, "list"),
                                          ({"stop_token_ids": list(range(40))}, "more than"), ({"return_token_ids": 1}, "true or false")])
def test_refusals(server, fields, word):
    for path, body in (("/v1/completions", {"prompt": "a"}), ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})):
        reply = server.request("POST", path, {**body, **fields})
        assert reply.status == 400 and word in reply.json["error"]["message"] and reply.json["error"]["param"] == next(iter(fields))
