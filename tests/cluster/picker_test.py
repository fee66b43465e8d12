"""The real endpoint picker of the Gateway API Inference Extension in front of two servers (conftest.py): what it reads of their metrics, prompts that
begin alike, a server that drains, and one that is killed."""

import concurrent.futures
import re
import signal
import threading

from conftest import ADDRESSES, wait_until

WORDS = ["river", "stone", "cloud", "garden", "silver", "window", "market", "yellow", "captain", "letter"]


def beginning(seed):
    """Some hundred words that no other seed begins with."""
    return " ".join(WORDS[(seed * 7 + i * (seed + 3) + i * i) % 10] for i in range(150)) + f" {seed} "


def test_the_picker_reads_every_metric(cluster):
    """What its scraper found, and it logs no error."""
    for endpoint, found in cluster.scraped().items():
        server = re.search(r"vllm:cache_config_info\{[^}]*num_gpu_blocks=\"(\d+)\"", cluster.metrics(endpoint))
        assert f"CacheBlockSize:16 CacheNumBlocks:{server[1]} " in found and "WaitingQueueSize:0" in found and "MaxActiveModels:0" in found
    scrapes = [line for line in cluster.picker.log_text().splitlines() if '"level":"error"' in line]
    assert scrapes == []


def test_the_picker_sees_running_requests(cluster):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        running = [pool.submit(cluster.chat, f"Count {i}", max_tokens=1500, ignore_eos=True) for i in range(4)]
        wait_until(lambda: any("RunningRequestsSize:0" not in found for found in cluster.scraped().values()), "the picker to see a running request")
        assert all(one.result()[2] == 0 for one in running)
    wait_until(lambda: all("RunningRequestsSize:0" in found for found in cluster.scraped().values()), "the picker to see that they ended")


def test_prompts_that_begin_alike_go_to_one_server(cluster):
    """The first of each kind goes anywhere, the others where it went; and the server has the beginning in its prefix cache."""
    groups = {seed: [] for seed in range(4)}
    hits = sum(cluster.prefix_hits(endpoint) for endpoint in cluster.servers)
    for turn in range(4):
        for seed, endpoints in groups.items():
            endpoints.append(cluster.chat(beginning(seed) + f"Question {turn}?")[0])
    assert all(len(set(endpoints)) == 1 for endpoints in groups.values()), groups
    assert sum(cluster.prefix_hits(endpoint) for endpoint in cluster.servers) - hits > 12 * 150


def test_a_server_that_drains_gets_none_and_loses_none(cluster):
    """SIGTERM, as after preStop: running requests end there, and new ones go to the other server, also those that began alike."""
    first, _, _ = cluster.chat(beginning(1) + "Question?")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        long = pool.submit(cluster.chat, beginning(1) + "Count.", max_tokens=1500, ignore_eos=True)
        wait_until(lambda: re.search(r"vllm:num_requests_running\{[^}]*\} 1", cluster.metrics(first)), "the long request to run")
        cluster.servers[first].process.terminate()
        wait_until(lambda: not cluster.api.ready(cluster.name(first)), "the pod to be not ready")
        others = [cluster.chat(beginning(1) + f"Question {i}?") for i in range(6)]
        assert {endpoint for endpoint, _, _ in others} == set(cluster.servers) - {first}
        endpoint, text, failed = long.result()
    assert (endpoint, failed) == (first, 0) and len(text) > 1000
    assert cluster.servers[first].process.wait() == 0


def test_a_killed_server_loses_nothing_that_a_retry_saves(cluster):
    """Requests run on both servers while one of them is killed; those that had no answer are sent again, and each gets the answer it would have had."""
    alone = {i: cluster.chat(f"Say number {i}.", max_tokens=40, ignore_eos=True)[1] for i in range(24)}
    victim = next(iter(cluster.servers))
    begun = threading.Semaphore(0)

    def ask(number):
        begun.release()
        return number, cluster.chat(f"Say number {number}.", max_tokens=40, ignore_eos=True)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask, i) for i in range(24)]
        for _ in range(10):
            begun.acquire()
        cluster.servers[victim].process.send_signal(signal.SIGKILL)
        answers = dict(one.result() for one in asked)
    assert {number: text for number, (_, text, _) in answers.items()} == alone
    wait_until(lambda: not cluster.api.ready(cluster.name(victim)), "the pod to be not ready")
    assert all(cluster.chat(f"Afterwards {i}")[::2] == (f"{ADDRESSES['shoal-b']}:{cluster.port}", 0) for i in range(4))
