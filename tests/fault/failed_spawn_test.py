"""A worker that cannot be started again for a while, for lack of memory or while its program is replaced, costs no request."""

import concurrent.futures
import os
import shutil
import signal

import pytest

import demo_model
from shoal_server import BUILD, ShoalServer, wait_until


@pytest.fixture
def programs(tmp_path):
    for name in ("shoal", "shoal-worker", "shoal-media"):
        shutil.copy(BUILD / name, tmp_path / name)
    return tmp_path


def test_another_worker_takes_requests_whose_worker_does_not_return(programs):
    body = {"max_tokens": 150, "temperature": 0, "ignore_eos": True}
    with ShoalServer("--workers", "2", programs=programs, model=demo_model.FOLDER) as server:
        workers = wait_until(lambda: (lambda all_: all_ if all(worker["state"] == "ready" for worker in all_) else None)(
            server.get("/v1/status").json["workers"]), "both workers")
        expected = server.chat("Count.", **body).json["choices"]
        (programs / "shoal-worker").rename(programs / "away")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            answers = [pool.submit(server.chat, "Count.", **body) for _ in range(2)]
            wait_until(lambda: all(one["phase"] == "decode" for one in server.get("/v1/status").json["requests"]["running"]) and
                       server.get("/v1/status").json["workers"][0]["requests"] == 1, "a request on each worker")
            os.kill(workers[0]["pid"], signal.SIGKILL)
            assert [answer.result().json["choices"] for answer in answers] == [expected, expected]
        assert server.metrics()["shoal_requests_replayed_total"] == 1
        assert server.get("/v1/status").json["workers"][0]["pid"] is None
        server.wait_idle()
        (programs / "away").rename(programs / "shoal-worker")


def test_requests_wait_until_the_program_can_be_started(programs):
    with ShoalServer(programs=programs, model=demo_model.FOLDER) as server:
        server.wait_ready()
        expected = server.chat("Count.", max_tokens=8, temperature=0).json["choices"]
        (programs / "shoal-worker").rename(programs / "away")
        os.kill(server.worker_pid(), signal.SIGKILL)
        wait_until(lambda: server.log_text().count("cannot start") >= 2, "starts that fail")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(server.chat, "Count.", max_tokens=8, temperature=0)
            wait_until(lambda: server.metrics()["shoal_live_requests"] == 1 or answer.done(), "the request to wait")
            (programs / "away").rename(programs / "shoal-worker")
            assert answer.result().status == 200 and answer.result().json["choices"] == expected
        server.wait_idle()
