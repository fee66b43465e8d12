"""Log-probabilities of the prompt: prompt_logprobs in chat and completions, echo with logprobs, max_tokens 0."""

import json
import os
import random
import signal
import threading

import pytest

PROMPT = "The fishes that live in the deep sea are"


def complete(server, **fields):
    reply = server.request("POST", "/v1/completions", {"temperature": 0, **fields})
    assert reply.status == 200, reply.body
    return reply.json["choices"][0]


def tokenize(server, text):
    return server.request("POST", "/v1/tokenize", {"prompt": text, "content": text}).json["tokens"]


def test_scores_equal_those_of_generation(server):
    drawn = complete(server, prompt=PROMPT, max_tokens=24, logprobs=5, return_token_ids=True, ignore_eos=True)
    whole = drawn["prompt_token_ids"] + drawn["token_ids"]
    for top in (5, 1, 0):
        echoed = complete(server, prompt=whole, max_tokens=0, echo=True, logprobs=top)
        told = echoed["logprobs"]
        assert told["tokens"] and told["token_logprobs"][0] is None and told["top_logprobs"][0] is None
        assert len(told["token_logprobs"]) == len(whole)
        assert told["token_logprobs"][-24:] == drawn["logprobs"]["token_logprobs"]
        if top == 5:
            assert told["top_logprobs"][-24:] == drawn["logprobs"]["top_logprobs"]


def test_prompt_logprobs_have_vllms_shape(server):
    ids = tokenize(server, PROMPT)
    choice = complete(server, prompt=ids, max_tokens=2, prompt_logprobs=3)
    first, *others = choice["prompt_logprobs"]
    assert first is None and len(others) == len(ids) - 1
    echoed = complete(server, prompt=ids, max_tokens=1, echo=True, logprobs=0)["logprobs"]["token_logprobs"]
    for token, logprob, entry in zip(ids[1:], echoed[1:], others, strict=False):
        assert entry[str(token)]["logprob"] == logprob and 3 <= len(entry) <= 4
        assert (entry[str(token)]["rank"] > 3) == (len(entry) == 4)
    chat = server.request("POST", "/v1/chat/completions", {
        "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2, "n": 2, "prompt_logprobs": 0})
    assert chat.json["prompt_logprobs"][0] is None
    assert len(chat.json["prompt_logprobs"]) == chat.json["usage"]["prompt_tokens"]


def test_ranks_do_not_depend_on_the_alternatives(server):
    ids = tokenize(server, PROMPT)
    few, many = (complete(server, prompt=ids, max_tokens=1, prompt_logprobs=top)["prompt_logprobs"][1:] for top in (0, 20))
    ranks = [entry[str(token)]["rank"] for token, entry in zip(ids[1:], few, strict=True)]
    assert ranks == [entry[str(token)]["rank"] for token, entry in zip(ids[1:], many, strict=True)]
    assert max(ranks) > 20


def test_a_stream_echoes_with_logprobs(server):
    reply = server.request("POST", "/v1/completions", {
        "prompt": PROMPT, "max_tokens": 3, "temperature": 0, "echo": True, "logprobs": 1, "stream": True})
    chunks = [json.loads(line[6:]) for line in reply.body.decode().splitlines() if line.startswith("data: {")]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    joined = [value for choice in choices for value in (choice["logprobs"] or {}).get("token_logprobs", [])]
    whole = complete(server, prompt=PROMPT, max_tokens=3, echo=True, logprobs=1)
    assert joined == whole["logprobs"]["token_logprobs"]
    assert "".join(choice["text"] for choice in choices) == whole["text"]


@pytest.mark.parametrize("fields", [
    {"prompt_logprobs": -1}, {"prompt_logprobs": 21}, {"prompt_logprobs": "a"}, {"prompt_logprobs": 1.5}, {"prompt_logprobs": True},
    {"prompt_logprobs": []}, {"prompt_logprobs": 0, "stream": True}])
def test_wrong_values_are_refused(server, fields):
    for path, prompt in (("completions", {"prompt": "a b"}), ("chat/completions", {"messages": [{"role": "user", "content": "a"}]})):
        reply = server.request("POST", f"/v1/{path}", {**prompt, **fields})
        assert reply.status == 400 and reply.error["param"] == "prompt_logprobs"


@pytest.mark.long
def test_scores_survive_deaths_and_company(start_server):
    server = start_server()
    draw = random.Random()
    prompts = [[draw.randrange(100, 40000) for _ in range(draw.randrange(200, 900))] for _ in range(6)]
    ask = dict(max_tokens=4, echo=True, logprobs=7, ignore_eos=True)
    alone = [complete(server, prompt=prompt, **ask)["logprobs"] for prompt in prompts]
    assert complete(server, prompt=prompts[0], **ask)["logprobs"] == alone[0]  # its prefix is cached now
    together = [None] * len(prompts)

    def run(at):
        together[at] = complete(server, prompt=prompts[at], **ask)["logprobs"]
    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(prompts))]
    for thread in threads:
        thread.start()
    for _ in range(2):
        threads[0].join(0.7)
        os.kill(server.worker_pid(), signal.SIGKILL)
        server.wait_ready()
    for thread in threads:
        thread.join()
    assert together == alone
