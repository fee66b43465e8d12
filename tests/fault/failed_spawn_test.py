"""A worker that cannot be started again for a while, for lack of memory or while its program is replaced, costs no request."""

import concurrent.futures
import os
import shutil
import signal

from shoal_server import BUILD, ShoalServer, wait_until


def test_requests_wait_until_the_program_can_be_started(tmp_path):
    for name in ("shoal", "shoal-worker", "shoal-media"):
        shutil.copy(BUILD / name, tmp_path / name)
    with ShoalServer(programs=tmp_path) as server:
        server.wait_ready()
        expected = server.chat("Count.", max_tokens=8, temperature=0).json["choices"]
        (tmp_path / "shoal-worker").rename(tmp_path / "away")
        os.kill(server.worker_pid(), signal.SIGKILL)
        wait_until(lambda: server.log_text().count("cannot start") >= 2, "starts that fail")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(server.chat, "Count.", max_tokens=8, temperature=0)
            wait_until(lambda: server.metrics()["shoal_live_requests"] == 1 or answer.done(), "the request to wait")
            (tmp_path / "away").rename(tmp_path / "shoal-worker")
            assert answer.result().status == 200 and answer.result().json["choices"] == expected
        server.wait_idle()
