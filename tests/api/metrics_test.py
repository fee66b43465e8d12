"""Figures move as requests do, and carry the names that dashboards know."""

import re

from shoal_server import wait_until


def test_the_format_is_prometheus(server):
    reply = server.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    typed = set()
    for line in reply.body.decode().splitlines():
        if line.startswith("# TYPE "):
            typed.add(line.split()[2])
        elif not line.startswith("#"):
            name = re.fullmatch(r"([\w:]+)\{[^{}]*\} [-+0-9.e]+", line).group(1)
            assert re.sub(r"_(bucket|sum|count)$", "", name) in typed or name in typed


def test_a_request_is_counted(server):
    server.wait_idle()
    before = server.metrics()
    reply = server.chat("Count to ten.", max_tokens=6, temperature=0, logit_bias={"2": -100}).json
    after = server.metrics()

    def grown(name):
        return after[name] - before[name]
    assert grown("vllm:generation_tokens_total") == 6
    assert grown("vllm:prompt_tokens_total") == reply["usage"]["prompt_tokens"]
    assert grown("vllm:time_to_first_token_seconds_count") == 1
    assert grown("vllm:time_to_first_token_seconds_sum") > 0
    assert grown("vllm:inter_token_latency_seconds_count") == 5
    assert grown("vllm:e2e_request_latency_seconds_count") == 1
    assert grown('vllm:request_success_total{finished_reason="length"}') == 1
    assert grown("shoal_worker_steps_total") >= 6


def test_what_runs_is_seen(server):
    stream = server.open_stream("Tell me a long story.", max_tokens=4000, logit_bias={"2": -100})
    stream.wait_token()
    # The worker publishes its figures at the end of a step, just behind the tokens.
    wait_until(lambda: server.metrics()["vllm:num_requests_running"] == 1, "the figures of a step", 5)
    values = server.metrics()
    assert values["shoal_live_requests"] == 1
    assert values["shoal_kv_blocks_used"] > 0
    assert 0 < values["vllm:kv_cache_usage_perc"] <= 1
    assert values["shoal_weights_bytes"] > 0
    aborted = values['vllm:request_success_total{finished_reason="abort"}']
    stream.close()
    server.wait_idle()
    assert server.metrics()['vllm:request_success_total{finished_reason="abort"}'] == aborted + 1
