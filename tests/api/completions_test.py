"""OpenAI's completions: shapes of prompts, echo, choices, legacy log-probabilities, streams; by the official client."""

import openai
import pytest

from shoal_server import MODEL_ID

COUNT = "One, two, three, four,"


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def complete(client, prompt, **fields):
    return client.completions.create(model=MODEL_ID, prompt=prompt, temperature=0, **fields)


def test_every_shape_of_a_prompt(server, client):
    ids = server.request("POST", "/tokenize", {"content": COUNT}).json["tokens"]
    text = complete(client, COUNT, max_tokens=4).choices[0].text
    assert text.startswith(" five")
    assert complete(client, ids, max_tokens=4).choices[0].text == text
    both = complete(client, [COUNT, "The capital of France is"], max_tokens=4)
    assert [choice.index for choice in both.choices] == [0, 1]
    assert both.choices[0].text == text and both.choices[1].text != text
    assert both.usage.prompt_tokens > 2 * len(ids) - 5
    assert complete(client, [ids, ids], max_tokens=4).choices[1].text == text


def test_the_official_default_length(client):
    answer = complete(client, COUNT)
    assert answer.usage.completion_tokens == 16 and answer.choices[0].finish_reason == "length"


def test_echo_comes_first(client):
    echoed = complete(client, [COUNT, "A"], max_tokens=3, echo=True, n=2, seed=3)
    plain = complete(client, COUNT, max_tokens=3)
    assert echoed.choices[0].text == COUNT + plain.choices[0].text
    assert echoed.choices[2].text.startswith("A")
    pieces = [chunk.choices[0].text for chunk in complete(client, COUNT, max_tokens=3, echo=True, stream=True)]
    assert pieces[0] == COUNT and "".join(pieces) == echoed.choices[0].text


def test_legacy_log_probabilities(client):
    choice = complete(client, COUNT, max_tokens=5, logprobs=2).choices[0]
    log = choice.logprobs
    assert "".join(log.tokens) == choice.text
    assert len(log.token_logprobs) == len(log.top_logprobs) == len(log.text_offset) == 5
    for at, token in zip(log.text_offset, log.tokens):
        assert choice.text[at:].startswith(token)
    for tops, token, logprob in zip(log.top_logprobs, log.tokens, log.token_logprobs):
        assert tops[token] == logprob == max(tops.values())
    joined = ""
    for chunk in complete(client, COUNT, max_tokens=5, logprobs=2, stream=True):
        joined += "".join(chunk.choices[0].logprobs.tokens)
    assert joined == choice.text


def test_special_tokens_have_names_in_log_probabilities(server, client):
    end = server.request("POST", "/tokenize", {"content": "<|im_end|>", "parse_special": True}).json["tokens"][-1]
    choice = complete(client, COUNT, max_tokens=2, logprobs=1, logit_bias={str(end): 100},
                      extra_body={"ignore_eos": True}).choices[0]
    assert choice.logprobs.tokens == ["<|im_end|>"] * 2 and choice.text == ""
    assert all("<|im_end|>" in tops for tops in choice.logprobs.top_logprobs)


def test_a_stop_string_and_usage_in_a_stream(client):
    text, usage, finish = "", None, None
    for chunk in complete(client, COUNT, max_tokens=20, stop=" six", stream=True, stream_options={"include_usage": True}):
        for choice in chunk.choices:
            text += choice.text
            finish = choice.finish_reason or finish
        usage = chunk.usage or usage
    assert text == " five," and finish == "stop" and usage.completion_tokens > 0


@pytest.mark.parametrize("fields,param", [
    ({}, "prompt"),
    ({"prompt": ""}, "prompt"),
    ({"prompt": []}, "prompt"),
    ({"prompt": ["a", 1]}, "prompt"),
    ({"prompt": ["a", ""]}, "prompt[1]"),
    ({"prompt": [1, 99999999]}, "prompt"),
    ({"prompt": [[1], [-1]]}, "prompt[1]"),
    ({"prompt": "a", "suffix": "b"}, "suffix"),
    ({"prompt": "a", "best_of": 2}, "best_of"),
    ({"prompt": "a", "logprobs": 21}, "logprobs"),
    ({"prompt": ["a"] * 129}, "prompt"),
    ({"prompt": "a", "model": "another"}, "model"),
])
def test_a_wrong_field_is_named(server, fields, param):
    for path in ("/v1/completions", "/completions"):
        refused = server.request("POST", path, fields)
        assert refused.status == (404 if param == "model" else 400), refused.body
        assert refused.error["param"] == param
