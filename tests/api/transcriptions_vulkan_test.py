"""Transcriptions on a Vulkan device (Mesa's CPU driver): languages, times and tokens of transformers, with several windows, many at once and
across a death of the worker. Keys and values of the text are f16 there."""

import concurrent.futures
import os
import signal

import pytest
from shoal_server import BUILD, COMPILING_S, ShoalServer
from transcriptions_test import ANSWERS, CLIPS, GOLDEN, expected_segments, text_of, transcribe

pytestmark = [pytest.mark.long, pytest.mark.longest,
              pytest.mark.skipif(not (BUILD / "shoal-av").exists(), reason="built without FFmpeg's libraries")]

OPTIONS = ["--device", "vulkan", "--threads", "2", "--worker-timeout", str(COMPILING_S), "--kv-cache-bytes", "1%", "--batch-invariant"]
FIELDS = {"language": "de", "response_format": "verbose_json"}


@pytest.mark.parametrize("name", list(ANSWERS))
def test_answers_as_in_transformers(name):
    with ShoalServer(*OPTIONS, model=GOLDEN / name) as server:
        server.wait_ready(COMPILING_S)
        assert transcribe(server, "whole", language="de").json["text"] == text_of(ANSWERS[name]["whole"]["plain"])
        alone = {}
        for clip in CLIPS:
            reply = transcribe(server, clip, **FIELDS)
            found = [[s["start"], s["end"], [t for t in s["tokens"] if t < 256]] for s in reply.json["segments"]]
            assert found == [[pytest.approx(a, abs=1e-3), pytest.approx(b, abs=1e-3), ids] for a, b, ids in expected_segments(ANSWERS[name][clip], clip)]
            alone[clip] = [s["tokens"] for s in reply.json["segments"]]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            running = [(clip, pool.submit(transcribe, server, clip, **FIELDS)) for clip in list(CLIPS) * 3]
            os.kill(server.get("/v1/status").json["workers"][0]["pid"], signal.SIGKILL)
            for clip, answer in running:
                assert [s["tokens"] for s in answer.result().json["segments"]] == alone[clip]
