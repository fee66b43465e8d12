"""A vault of weights that crashes every worker that adopts it, as a driver bug could: after two deaths it is dropped, and requests finish."""

import os
import shutil
import signal

import pytest

import demo_model
from shoal_server import BUILD, ShoalServer, wait_until

# A worker that exits if its vault is not empty.
PICKY_WORKER = """#!/bin/bash
for ((i = 1; i < $#; i++)); do
    next=$((i + 1))
    [ "${!i}" != --weights-fd ] || fd=${!next}
done
[ "$(stat -L -c %s "/proc/self/fd/$fd")" = 0 ] || kill -SEGV $$
exec WORKER "$@"
"""


@pytest.fixture
def programs(tmp_path):
    shutil.copy(BUILD / "shoal", tmp_path / "shoal")
    worker = tmp_path / "shoal-worker"
    worker.write_text(PICKY_WORKER.replace("WORKER", str(BUILD / "shoal-worker")), encoding="ascii")
    worker.chmod(0o755)
    return tmp_path


def test_weights_that_kill_are_prepared_anew(programs):
    fields = {"temperature": 0, "max_tokens": 40, "logit_bias": {"2": -100}}
    with ShoalServer(programs=programs, model=demo_model.FOLDER) as server:
        server.wait_ready()
        expected = server.chat("Count.", **fields).json["choices"][0]["message"]["content"]
        stream = server.open_stream("Count.", **fields)
        first = stream.wait_token()["choices"][0]["delta"]["content"]
        os.kill(server.get("/v1/status").json["workers"][0]["pid"], signal.SIGKILL)
        text, finish = stream.text()
        stream.close()
        assert (first + text, finish) == (expected, "length")
        wait_until(lambda: "died 2 times before it was ready" in server.log_text(), "the vault to be given up")
        server.wait_ready()
        assert server.log_text().count("signal 11") == 2
        server.wait_idle()
