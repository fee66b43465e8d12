"""64 concurrent streams with different sampling parameters: each gets the same tokens as alone."""

import threading

import pytest
from shoal_server import PATIENCE_S

STREAMS = 64
TOKENS = 18
TOPICS = ["the sea", "a clock", "winter", "bread", "two friends", "a red door", "music", "rain"]


def fields_of(i):
    return {
        "content": f"Write about {TOPICS[i % 8]} in {i % 5 + 2} sentences.",
        "max_tokens": TOKENS - i % 7,
        "temperature": [0, 0.3, 0.7, 1.0, 1.3][i % 5],
        "top_p": [1, 0.9, 0.5][i % 3],
        "top_k": [0, 40, 5, 1][i % 4],
        "min_p": [0, 0.05][i % 2],
        "repetition_penalty": [1, 1.1, 1.3][(i // 2) % 3],
        "presence_penalty": [0, 0.5, -0.5][(i // 3) % 3],
        "frequency_penalty": [0, 0.3][(i // 5) % 2],
        "logit_bias": {str(100 + i): 2.0} if i % 4 == 1 else {},
        "seed": 1000 + i,
    }


def say(server, i):
    return server.open_stream(**fields_of(i)).text()


@pytest.mark.long
def test_each_stream_gets_the_same_tokens_as_alone(server):
    together = [None] * STREAMS
    barrier = threading.Barrier(STREAMS)

    def run(i):
        barrier.wait()
        together[i] = say(server, i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(STREAMS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert all(answer is not None for answer in together), "a stream is stuck"
    server.wait_idle()
    alone = [say(server, i) for i in range(STREAMS)]
    different = [i for i in range(STREAMS) if together[i] != alone[i]]
    assert not different, [(together[i], alone[i]) for i in different[:3]]
    assert len({text for text, _ in alone}) > STREAMS // 2
    server.wait_idle()


def test_more_requests_than_sequences_all_finish(start_server):
    running = start_server("--max-sequences", "4", "--max-queue", "60")
    results = []

    def run(i):
        results.append(running.chat(f"Say {i}.", max_tokens=4, temperature=0).status)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert results == [200] * 40
    running.wait_idle()
