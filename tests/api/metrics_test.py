"""Metrics: they change with requests, have the names, labels and bucket bounds of vLLM, and counters never decrease."""

import collections
import json
import os
import signal
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from shoal_server import MODEL_ID, ROOT, wait_until

VLLM_FAMILIES = json.loads((ROOT / "tests/golden/metrics/vllm_families.json").read_text(encoding="utf-8"))
OWN_FAMILIES = set("""
shoal_feature_bytes shoal_feature_used_bytes shoal_image_evictions_total shoal_images_cached shoal_patch_rows_total
shoal_grammars_cached shoal_grammar_cache_bytes shoal_grammar_cache_hits_total shoal_grammar_cache_misses_total shoal_grammar_cache_dropped_total
shoal_grammar_requests_total shoal_grammar_masks_total shoal_grammar_mask_seconds_total shoal_grammar_failures_total
shoal_connections shoal_connections_refused_total shoal_connections_total shoal_deadlines_exceeded_total
shoal_http_requests_foreign_total shoal_http_requests_malformed_total shoal_http_requests_over_client_limit_total shoal_http_requests_timed_out_total
shoal_http_requests_total shoal_http_requests_unauthorized_total shoal_kv_blocks shoal_kv_blocks_cached
shoal_kv_blocks_used shoal_device_weights_bytes shoal_device_kv_cache_bytes shoal_device_memory_bytes
shoal_live_requests shoal_load_progress shoal_media_budget_kills_total shoal_media_cancel_kills_total
shoal_media_cpu_seconds_total shoal_media_crashes_total shoal_media_processes shoal_media_restarts_total
shoal_preparation_threads_busy shoal_preparations_cancelled_total shoal_preparations_timed_out_total
shoal_requests_preparing shoal_requests_quarantined_total shoal_responses_resumed_total shoal_responses_to_resume
shoal_state_file_bytes shoal_state_file_failures_total shoal_state_files_written_total
shoal_requests_refused_total shoal_requests_replayed_total shoal_requests_with_worker shoal_slab_used_bytes
shoal_slow_readers_cut_total shoal_state_bytes shoal_tls_handshakes_failed_total shoal_unsent_bytes
shoal_weights_bytes shoal_weights_changed shoal_worker_prompt_tokens_total shoal_worker_rejected_records_total shoal_worker_implausible_counters_total shoal_worker_restarts_total
shoal_worker_step_seconds_total shoal_worker_steps_total
""".split())
EDGE_FAMILIES = {
    "shoal_connections_refused_total", "shoal_connections_total", "shoal_deadlines_exceeded_total",
    "shoal_http_requests_foreign_total", "shoal_http_requests_malformed_total", "shoal_http_requests_over_client_limit_total",
    "shoal_http_requests_timed_out_total", "shoal_http_requests_total", "shoal_http_requests_unauthorized_total",
    "shoal_slow_readers_cut_total", "shoal_tls_handshakes_failed_total", "shoal_unsent_bytes",
}
PROCESS_FAMILIES = {
    "process_cpu_seconds_total", "process_max_fds", "process_open_fds", "process_resident_memory_bytes",
    "process_start_time_seconds", "process_virtual_memory_bytes",
}


def families(server):
    """{name as it stands in the TYPE line: family}, parsed by Prometheus' own client."""
    page = server.get("/metrics").body.decode()
    parsed = list(text_string_to_metric_families(page))
    found = {family.name + ("_total" if family.type == "counter" else ""): family for family in parsed}
    assert len(found) == len(parsed) == page.count("# TYPE "), "a family occurs twice"
    return found


def samples_by_suffix(name, family):
    groups = collections.defaultdict(list)
    for sample in family.samples:
        groups[sample.name.removeprefix(name)].append(sample)
    return groups


def decades(greatest):
    return [float(m * 10**e) for e in range(7) for m in (1, 2, 5) if m * 10**e <= greatest]


def test_the_format_is_prometheus(server):
    reply = server.get("/metrics")
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    for name, family in families(server).items():
        assert family.documentation and family.samples, name
        labels = {frozenset(sample.labels) for sample in family.samples if not sample.name.endswith("_bucket")}
        assert len(labels) == 1, name


def test_names_labels_and_bounds_are_those_of_vllm(server):
    found = families(server)
    context = server.get("/v1/models").json["data"][0]["max_model_len"]
    for name, expected in VLLM_FAMILIES.items():
        family = found.pop(name)
        assert family.type == expected["type"], name
        groups = samples_by_suffix(name, family)
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(expected["labels"]), name
            assert sample.labels.get("model_name", MODEL_ID) == MODEL_ID and sample.labels.get("engine", "0") == "0"
        if family.type != "histogram":
            assert set(groups) == {""}, name
            continue
        bounds = expected["bounds"] if expected["bounds"] != "decades" else decades(context)
        buckets = groups.pop("_bucket")
        assert [float(bucket.labels["le"]) for bucket in buckets] == [*bounds, float("inf")], name
        assert [bucket.labels["le"] for bucket in buckets[:-1] if float(bucket.labels["le"]) < 1e6] == [
            repr(float(bound)) for bound in bounds if bound < 1e6], name
        counts = [bucket.value for bucket in buckets]
        assert counts == sorted(counts) and counts[-1] == groups["_count"][0].value, name
        assert set(groups) == {"_sum", "_count"}, name
    assert {sample.labels["finished_reason"] for sample in families(server)["vllm:request_success_total"].samples} == {
        "stop", "length", "abort", "error"}
    assert set(found) == OWN_FAMILIES | EDGE_FAMILIES | PROCESS_FAMILIES


def test_a_request_is_counted(server):
    server.wait_idle()
    before = server.metrics()
    reply = server.chat("Count to ten.", max_tokens=6, temperature=0, logit_bias={"2": -100}).json
    after = server.metrics()
    prompt_tokens = reply["usage"]["prompt_tokens"]

    def grown(name):
        return after[name] - before[name]
    assert grown("vllm:generation_tokens_total") == 6
    assert grown("vllm:prompt_tokens_total") == prompt_tokens
    assert grown("vllm:time_to_first_token_seconds_count") == 1
    assert grown("vllm:time_to_first_token_seconds_sum") > 0
    assert grown("vllm:inter_token_latency_seconds_count") == 5
    assert grown("vllm:e2e_request_latency_seconds_count") == 1
    assert grown('vllm:request_success_total{finished_reason="length"}') == 1
    for name, value in [("prompt", prompt_tokens), ("generation", 6), ("max_num_generation", 6)]:
        assert grown(f"vllm:request_{name}_tokens_count") == 1
        assert grown(f"vllm:request_{name}_tokens_sum") == value
    assert grown("vllm:request_params_max_tokens_sum") == 6
    # The worker publishes a step's figures just after its tokens, so those of the last step may be missing.
    assert grown("shoal_worker_steps_total") >= 5
    assert grown("vllm:iteration_tokens_total_sum") >= prompt_tokens + 5


def test_the_phases_of_a_request_add_up(server):
    server.wait_idle()
    before = server.metrics()
    server.chat("Tell me about rivers. " * 20, max_tokens=10, logit_bias={"2": -100})
    after = server.metrics()

    def grown(name):
        return after[f"vllm:{name}_seconds_sum"] - before[f"vllm:{name}_seconds_sum"]
    phases = {name: grown(f"request_{name}_time") for name in ("queue", "prefill", "decode", "inference")}
    assert phases["prefill"] > 0 and phases["decode"] > 0 and phases["queue"] >= 0
    assert abs(phases["prefill"] + phases["decode"] - phases["inference"]) < 1e-5
    assert abs(grown("inter_token_latency") - phases["decode"]) < 1e-5
    assert abs(grown("request_time_per_output_token") * 9 - phases["decode"]) < 1e-4
    whole = grown("e2e_request_latency")
    assert phases["queue"] + phases["inference"] <= whole  # so none of its computing counts as waiting


@pytest.mark.long
def test_waiting_counts_as_queue_time(start_server):
    """The queue time is at least the time in which the first request was seen running, and at most the whole duration."""
    server = start_server("--max-sequences", "1")

    def queue_s():
        return server.metrics()["vllm:request_queue_time_seconds_sum"]

    first = server.open_stream("A long story, please.", max_tokens=200, logit_bias={"2": -100})
    first.wait_token()
    began = time.monotonic()
    second = server.open_stream("Hello", max_tokens=2, logit_bias={"2": -100})

    def waits():
        values = server.metrics()
        return values["shoal_live_requests"] == 2 and values["shoal_requests_preparing"] == 0

    wait_until(waits, "the second to wait")
    waits_since = seen_waiting = asked_at = time.monotonic()
    while server.metrics()["vllm:generation_tokens_total"] < 200:
        seen_waiting, asked_at = asked_at, time.monotonic()
    first.text()
    wait_until(lambda: server.metrics()["vllm:request_queue_time_seconds_count"] == 1, "the first one's end")
    before_s = queue_s()
    second.text()
    took_s = time.monotonic() - began
    wait_until(lambda: server.metrics()["vllm:request_queue_time_seconds_count"] == 2, "both ends")
    assert 0 < seen_waiting - waits_since < queue_s() - before_s < took_s


def test_running_requests_are_counted(server):
    stream = server.open_stream("Tell me a long story.", max_tokens=4000, logit_bias={"2": -100})
    stream.wait_token()
    # The worker publishes its figures at the end of a step, just after the tokens.
    wait_until(lambda: server.metrics()["vllm:num_requests_running"] == 1, "the figures of a step")
    values = server.metrics()
    assert values["shoal_live_requests"] == 1
    assert values["shoal_kv_blocks_used"] > 0
    assert 0 < values["vllm:kv_cache_usage_perc"] <= 1
    assert values["shoal_weights_bytes"] > 0
    aborted = values['vllm:request_success_total{finished_reason="abort"}']
    answered = values["vllm:e2e_request_latency_seconds_count"]
    stream.close()
    server.wait_idle()
    values = server.metrics()
    assert values['vllm:request_success_total{finished_reason="abort"}'] == aborted + 1
    assert values["vllm:e2e_request_latency_seconds_count"] == answered


def test_the_cache_is_described(server):
    info = families(server)["vllm:cache_config_info"].samples[0]
    assert info.value == 1
    assert int(info.labels["block_size"]) == 16
    assert info.labels["enable_prefix_caching"] == "True"
    assert int(info.labels["num_gpu_blocks"]) == server.metrics()["shoal_kv_blocks"] > 0


def test_a_server_without_adapters_says_so(server):
    info = families(server)["vllm:lora_requests_info"].samples[0]
    assert info.labels == {"max_lora": "0", "running_lora_adapters": "", "waiting_lora_adapters": ""}
    assert time.time() - 60 < info.value <= time.time() + 1


def test_the_process_is_described(start_server):
    server = start_server("--allow-debug")  # its descriptors are listed
    values = server.metrics()
    pid = server.process.pid
    with open(f"/proc/{pid}/statm", encoding="ascii") as statm:
        resident = int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    assert abs(values["process_resident_memory_bytes"] - resident) < 16 << 20
    assert abs(values["process_open_fds"] - len(os.listdir(f"/proc/{pid}/fd"))) <= 3
    assert values["process_open_fds"] < values["process_max_fds"]
    assert time.time() - 3600 < values["process_start_time_seconds"] <= time.time() + 1
    assert values["process_cpu_seconds_total"] > 0


def test_counters_outlive_a_worker(start_server):
    server = start_server()
    server.chat("Count to ten.", max_tokens=6, logit_bias={"2": -100}, speculation=False)
    server.wait_idle()
    before = {name: value for name, value in counters(server).items()}
    assert before["shoal_worker_steps_total"] >= 5 and before["vllm:iteration_tokens_total_sum"] > 0
    os.kill(server.worker_pid(), signal.SIGKILL)
    lowest = dict(before)

    def restarted():
        now = counters(server)
        for name, value in now.items():
            assert value >= lowest[name], f"{name} went back from {lowest[name]} to {value}"
            lowest[name] = value
        return server.get("/ready").status == 200 and now["shoal_worker_restarts_total"] == 1
    wait_until(restarted, "a new worker")
    server.chat("Count to ten.", max_tokens=6, logit_bias={"2": -100}, speculation=False)
    server.wait_idle()
    after = counters(server)
    assert after["shoal_worker_steps_total"] >= before["shoal_worker_steps_total"] + 6
    assert after["vllm:iteration_tokens_total_count"] >= before["vllm:iteration_tokens_total_count"] + 6


def counters(server):
    """Every sample of every counter and histogram."""
    values = {}
    for family in families(server).values():
        if family.type in ("counter", "histogram"):
            for sample in family.samples:
                labels = {k: v for k, v in sample.labels.items() if k in ("le", "finished_reason")}
                values[sample.name + (json.dumps(labels) if labels else "")] = sample.value
    return values
