"""Prefix cache: every API reports cached tokens, tenants are separate, a request can bypass the cache, and a reset empties it."""

import concurrent.futures

import demo_model

from shoal_server import wait_until

SERVER_MODEL = demo_model.FOLDER

TEXT = "Once upon a time there was a fish that lived in a lake far away from every road. " * 8


def turn(server, messages, path="/v1/chat/completions", headers=None, **fields):
    reply = server.request("POST", path, {"messages": messages, "max_tokens": 12, "temperature": 0, **fields}, headers=headers)
    assert reply.status == 200, reply.body
    return reply.json


def stats(server):
    return server.get("/v1/cache/stats").json["prefix_cache"]


def cached(body):
    return body["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_a_second_turn_reuses_the_first_ones_tokens(server):
    reset = server.request("POST", "/v1/cache/reset")
    assert reset.status == 200 and reset.json["workers"] == 1
    messages = [{"role": "user", "content": TEXT}]
    first = turn(server, messages)
    assert cached(first) == 0 and first["timings"]["cache_n"] == 0
    messages += [first["choices"][0]["message"], {"role": "user", "content": "And then?"}]
    second = turn(server, messages)
    usage = first["usage"]
    # All full blocks of prompt and answer; the template may render the last tokens differently.
    assert cached(second) >= (usage["prompt_tokens"] + usage["completion_tokens"] - 2) // 16 * 16 - 16
    assert cached(second) % 16 == 0 and second["timings"]["cache_n"] == cached(second)
    assert second["timings"]["prompt_n"] == second["usage"]["prompt_tokens"] - cached(second)
    without = turn(server, messages, cache_prompt=False)
    assert cached(without) == 0
    assert without["choices"][0]["message"] == second["choices"][0]["message"]
    figures = stats(server)
    assert figures["enabled"] and figures["block_tokens"] == 16 and figures["blocks_cached"] > 0
    assert 0 < figures["hit_tokens"] < figures["query_tokens"]


def test_every_api_reports_cached_tokens(server):
    messages = [{"role": "user", "content": "Name a lake. " + TEXT}]
    turn(server, messages)
    usage = turn(server, messages, path="/v1/messages")["usage"]
    assert usage["cache_read_input_tokens"] > 50 and usage["input_tokens"] <= 16
    body = server.request("POST", "/v1/responses", {"input": messages, "max_output_tokens": 2, "store": False}).json
    assert body["usage"]["input_tokens_details"]["cached_tokens"] == usage["cache_read_input_tokens"]
    again = server.request("POST", "/v1/completions", {"prompt": TEXT, "max_tokens": 1}).json
    assert cached(again) == 0
    again = server.request("POST", "/v1/completions", {"prompt": TEXT, "max_tokens": 1}).json
    assert cached(again) > 50


def test_tenants_have_their_own(server):
    messages = [{"role": "user", "content": "Name a river. " + TEXT}]
    server.request("POST", "/v1/cache/reset")
    for tenant in ("one", "two", None):
        headers = {"X-Tenant-Id": tenant} if tenant else None
        assert cached(turn(server, messages, headers=headers)) == 0
        assert cached(turn(server, messages, headers=headers)) > 50


def test_a_reset_forgets(server):
    messages = [{"role": "user", "content": "Name a sea. " + TEXT}]
    turn(server, messages)
    before = stats(server)
    assert server.request("POST", "/v1/cache/reset").json == {"object": "cache.reset", "workers": 1}
    assert cached(turn(server, messages)) == 0
    assert stats(server)["resets"] == before["resets"] + 1


def test_many_resets_at_once_are_one(server):
    for _ in range(300):
        assert server.request("POST", "/v1/cache/reset").status == 200
    server.wait_idle()
    assert server.get("/v1/status").json["worker_restarts"] == 0


def test_a_sequence_is_bounded_and_memory_a_share(start_server):
    server = start_server("--max-kv-size", "100", "--kv-cache-bytes", "3%", "--prefix-cache", "0")
    refused = server.chat("Name a lake.", max_tokens=90)
    assert refused.status == 400 and refused.json["error"]["code"] == "context_length_exceeded"
    assert "maximum context length is 100 tokens (--max-kv-size)" in refused.json["error"]["message"]
    assert server.chat(TEXT).status == 400
    answer = server.chat("Name a lake.", ignore_eos=True).json
    assert answer["usage"]["total_tokens"] == 100 and answer["choices"][0]["finish_reason"] == "length"
    assert not stats(server)["enabled"] and cached(server.chat("Name a lake.", max_tokens=1).json) == 0
    assert "option --kv-cache-bytes 3%" in server.log_text() and "could use a KV cache of" in server.log_text()


def test_a_bound_counts_what_was_cached(start_server):
    """The bound is on prompt plus answer, cached tokens included; no old tokens are dropped to make room."""
    server = start_server("--max-kv-size", "100")
    ids = {"prompt": list(range(1000, 1070)), "temperature": 0, "ignore_eos": True}

    def complete(**fields):
        return server.request("POST", "/v1/completions", {**ids, **fields})

    assert cached(complete(max_tokens=1).json) == 0
    whole = complete(max_tokens=30).json
    assert cached(whole) == 64 and whole["usage"]["total_tokens"] == 100
    refused = complete(max_tokens=31)
    assert refused.status == 400 and refused.json["error"]["code"] == "context_length_exceeded"
    assert "you requested 101 tokens (70 in the prompt; 31 for the completion)" in refused.json["error"]["message"]
    ids["prompt"] = list(range(1000, 1100))
    assert complete(max_tokens=1).status == 400  # no room for an answer, though most of it is cached
    ids["prompt"].pop()
    last = complete(max_tokens=1).json
    assert cached(last) == 64 and last["usage"]["total_tokens"] == 100
    for path, bound in (("/v1/messages", "max_tokens"), ("/v1/responses", "max_output_tokens")):
        key = "input" if path.endswith("responses") else "messages"
        reply = server.request("POST", path, {key: [{"role": "user", "content": "Name a lake."}], bound: 95})
        assert reply.status == 400 and " 100" in reply.json["error"]["message"]


def test_turns_go_to_the_worker_that_has_their_prefix(start_server):
    """Eight conversations begin at once and are spread by load; each next turn finds what its worker has computed, though requests of others
    run on both."""
    server = start_server("--workers", "2", "--threads", "1", "--kv-cache-bytes", "50M")
    workers = lambda: server.get("/v1/status").json["workers"]
    wait_until(lambda: all(worker["state"] == "ready" for worker in workers()), "both workers")
    talks = [[{"role": "user", "content": f"{i}: " + " ".join(f"fish{i}x{n}" for n in range(60))}] for i in range(8)]

    def advance(messages):
        body = turn(server, messages)
        messages += [body["choices"][0]["message"], {"role": "user", "content": "And then?"}]
        return body

    with concurrent.futures.ThreadPoolExecutor(len(talks)) as pool:
        before = [body["usage"]["prompt_tokens"] for body in pool.map(advance, talks)]
        assert min(before) > 150 and all(worker["says"]["steps"] > 0 for worker in workers())
        for _ in range(2):
            assert all(cached(body) > 0.8 * tokens for tokens, body in zip(before, pool.map(advance, talks)))
    server.wait_idle()
